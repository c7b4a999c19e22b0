"""The ``acc`` setting of operators that can compute in a wider type (``specification: dtypes.accumulators``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import DType, Kind
from openinfer.expr import tree
from openinfer.ops.conversion import converted
from openinfer.ops.schema import OpTypeError, SettingSpec, SettingType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.expr.tree import Expr
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
        if dtype.kind is Kind.TERNARY:
            raise OpTypeError(
                f"{dtype} has no arithmetic: give acc, a signed integer such as i32",
                code="acc-rules",
                settings=("acc",),
            )
        return dtype
    if len(listed) > 2 or not _widens(dtype, listed[0]):
        rule = "a float at least as wide" if dtype.is_float else "a byte-sized integer, wider and of the same sign"
        rule = "a byte-sized signed integer" if dtype.kind is Kind.TERNARY else rule
        found = ", ".join(map(str, listed))
        raise OpTypeError(f"acc=[{found}] does not fit {dtype}: acc takes {rule}", code="acc-rules", settings=("acc",))
    if listed[-1].kind is Kind.TERNARY:
        raise OpTypeError(f"acc converts to no {listed[-1]}: it has no arithmetic", code="acc-rules", settings=("acc",))
    return listed[-1]


def delivered(value: Expr, settings: Mapping[str, SettingValue], out: DType) -> Expr:
    """Return a result computed in the accumulator as ``out``.

    With ``acc`` it is converted once by the rules of ``cast``; without, integers wrap at the width of ``out``.
    """
    return converted(value, out) if _listed(settings) else tree.cast(value, out)


def _listed(settings: Mapping[str, SettingValue]) -> list[DType]:
    value = settings.get("acc")
    items = value if isinstance(value, tuple) else (value,)
    return [item for item in items if isinstance(item, DType)]


def _widens(dtype: DType, wider: DType) -> bool:
    if dtype.is_float:
        return wider.is_float and wider.bits >= dtype.bits
    if dtype.kind is Kind.TERNARY:
        return wider.kind is Kind.SIGNED and wider.bits >= 8
    return dtype.is_integer and wider.kind is dtype.kind and wider.bits >= 8 and wider.bits > dtype.bits
