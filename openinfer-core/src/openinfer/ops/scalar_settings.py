"""Scalar settings as elements of the type that an operator works on (``specification: language.attributes.2``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from openinfer import dims
from openinfer.dims import NeedsNumberError, is_size, sources, surely
from openinfer.dtypes import DType, Kind
from openinfer.ops.schema import OpTypeError
from openinfer.scalars import round_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.ir.resolved import SettingValue
    from openinfer.scalars import Scalar

_EXACT = 1 << 53
"""Up to here integers are exact in f64."""


def scalar_setting(settings: Mapping[str, SettingValue], name: str, dtype: DType) -> Scalar:
    """Return a setting as an element of ``dtype``: floats take any number (rounded), integers what fits them.

    One that is known at run time only stays a size, which `openinfer.expr.sizes.number` converts.

    Raises:
        OpTypeError: ``setting-type``, the type cannot hold the value.
        NeedsNumberError: it is known at run time only, and may be rounded on its way to a float.
    """
    value = settings.get(name)
    if not isinstance(value, int | float):
        raise _misfit(name, value, dtype, "a number")
    if dtype.is_float:
        return _float_setting(value, name, dtype)
    if isinstance(value, float):
        raise _misfit(name, value, dtype, "an integer")
    if dtype.kind is Kind.BOOL:
        return bool(value)
    low, high = dtype.minimum or 0, dtype.maximum or 0
    if dtype.name == "t1" and value not in (low, high):
        raise _misfit(name, value, dtype, "-1 or 1")
    if not low <= value <= high:
        raise _misfit(name, value, dtype, f"{low}..{high}")
    return int(value) if isinstance(value, bool) else value


def _float_setting(value: float, name: str, dtype: DType) -> Scalar:
    """Return a number as an element of a float type.

    Raises:
        NeedsNumberError: it is known at run time only, and not certain to be within 2**53 of 0: numbers become floats
            through f64, which would round it.
    """
    if not is_size(value):
        return round_to(dtype, float(value))
    if not surely(lambda: -_EXACT <= value <= _EXACT):
        message = f"setting {name!r} is `{value}`; for {dtype} it takes one that is certainly within 2**53 of 0"
        raise NeedsNumberError(message, sizes=sources(value.index))
    return cast("Scalar", value)


def bound_setting(settings: Mapping[str, SettingValue], name: str, dtype: DType) -> Scalar | None:
    """Return a bound as an element of ``dtype``, or None where it bounds nothing.

    An integer past the range of an integer type is the end of that range.

    Raises:
        OpTypeError: ``setting-type``.
    """
    value = settings.get(name)
    if value is None:
        return None
    if not dtype.is_float and isinstance(value, int):
        return dims.min(dims.max(value, dtype.minimum or 0), dtype.maximum or 0)
    if not dtype.is_float and isinstance(value, float) and math.isinf(value):
        return dtype.maximum if value > 0 else dtype.minimum
    return scalar_setting(settings, name, dtype)


def scalars_fit(*names: str) -> Callable[[DType, Mapping[str, SettingValue]], None]:
    """Return the check that these settings are elements of the type that an operator is used on."""

    def check(dtype: DType, settings: Mapping[str, SettingValue]) -> None:
        for name in names:
            scalar_setting(settings, name, dtype)

    return check


def bounds_fit(*names: str) -> Callable[[DType, Mapping[str, SettingValue]], None]:
    """Return the check that these settings are bounds of the type that an operator is used on."""

    def check(dtype: DType, settings: Mapping[str, SettingValue]) -> None:
        for name in names:
            bound_setting(settings, name, dtype)

    return check


def _misfit(name: str, value: SettingValue, dtype: DType, legal: str) -> OpTypeError:
    found = str(value).lower() if isinstance(value, bool) else repr(value)
    return OpTypeError(
        f"setting {name!r} is {found}; for {dtype} it takes {legal}", code="setting-type", settings=(name,)
    )
