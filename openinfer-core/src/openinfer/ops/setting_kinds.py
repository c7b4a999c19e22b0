"""Whether a value is of the kind that a setting takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean
from openinfer.dtypes import DType
from openinfer.ops.schema import OpTypeError, SettingSpec, SettingType

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.ir.resolved import SettingValue


def check_setting(op: str, spec: SettingSpec, value: SettingValue) -> None:
    """Check the kind of a setting, and that a string is one of its choices.

    Raises:
        OpTypeError: ``setting-type``.
    """
    if not _KINDS[spec.type](value):
        raise OpTypeError(
            f"setting {spec.name!r} of {op} takes {spec.type.value}, found {value!r}",
            code="setting-type",
            settings=(spec.name,),
        )
    if spec.choices and value not in spec.choices:
        hint = did_you_mean(str(value), spec.choices)
        message = f"setting {spec.name!r} of {op} is {value!r}; legal: {', '.join(spec.choices)}"
        raise OpTypeError(f"{message}; {hint}" if hint else message, code="setting-type", settings=(spec.name,))


def _is_int(value: SettingValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_ints(value: SettingValue) -> bool:
    return isinstance(value, tuple) and all(_is_int(item) for item in value)


def _is_floats(value: SettingValue) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, float) or _is_int(item) for item in value)


def _is_dtypes(value: SettingValue) -> bool:
    return isinstance(value, DType) or (isinstance(value, tuple) and all(isinstance(item, DType) for item in value))


_KINDS: dict[SettingType, Callable[[SettingValue], bool]] = {
    SettingType.INT: _is_int,
    SettingType.FLOAT: lambda value: isinstance(value, float) or _is_int(value),
    SettingType.NUMBER: lambda value: isinstance(value, float) or _is_int(value),
    SettingType.SCALAR: lambda value: isinstance(value, int | float | str),
    SettingType.BOOL: lambda value: isinstance(value, bool),
    SettingType.STR: lambda value: isinstance(value, str),
    SettingType.DTYPE: lambda value: isinstance(value, DType),
    SettingType.INT_LIST: _is_ints,
    SettingType.INT_OR_LIST: lambda value: _is_int(value) or _is_ints(value),
    SettingType.FLOAT_OR_LIST: lambda value: isinstance(value, float) or _is_int(value) or _is_floats(value),
    SettingType.PADDING: lambda value: isinstance(value, str) or _is_int(value) or _is_ints(value),
    SettingType.ACC: _is_dtypes,
}
