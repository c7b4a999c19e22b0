"""Accumulate mode: the ``acc`` setting of operators that can compute in a wider type (``dtypes.md``, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import DType
from openinfer.ops.schema import OpTypeError, SettingSpec, SettingType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.resolved import SettingValue

ACC = SettingSpec(
    name="acc",
    type=SettingType.ACC,
    default=None,
    doc="accumulate and return this wider type; [A, O]: accumulate in A and convert once to O",
)


def accumulator(dtype: DType, settings: Mapping[str, SettingValue]) -> DType:
    """Return the type in which elements of ``dtype`` are combined: the first of ``acc``, else their own."""
    listed = _listed(settings)
    return listed[0] if listed else dtype


def accumulated(dtype: DType, settings: Mapping[str, SettingValue]) -> DType:
    """Return the output type: the last of ``acc``, else that of the input.

    Raises:
        OpTypeError: ``acc-rules``, ``acc`` names no legal type for this one.
    """
    listed = _listed(settings)
    if not listed:
        return dtype
    if len(listed) > 2 or not _widens(dtype, listed[0]):
        rule = "a float at least as wide" if dtype.is_float else "a byte-sized integer, wider and of the same sign"
        found = ", ".join(map(str, listed))
        raise OpTypeError(f"acc=[{found}] does not fit {dtype}: acc takes {rule}", code="acc-rules")
    return listed[-1]


def _listed(settings: Mapping[str, SettingValue]) -> list[DType]:
    value = settings.get("acc")
    items = value if isinstance(value, tuple) else (value,)
    return [item for item in items if isinstance(item, DType)]


def _widens(dtype: DType, wider: DType) -> bool:
    if dtype.is_float:
        return wider.is_float and wider.bits >= dtype.bits
    return dtype.is_integer and wider.kind is dtype.kind and wider.bits >= 8 and wider.bits > dtype.bits
