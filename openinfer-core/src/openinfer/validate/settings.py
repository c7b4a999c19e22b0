"""Settings of an operator: from what was written to the values that its schema asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.diagnostics import did_you_mean
from openinfer.dtypes import BY_NAME
from openinfer.ir.dtype_names import near_dtype
from openinfer.ir.language import with_variables
from openinfer.ir.resolved import RuntimeInts, RuntimeScalar, Storage, integers_of
from openinfer.ir.values import (
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeListValue,
    DTypeValue,
    ExprListValue,
    ExprValue,
    FloatValue,
    IntListValue,
    IntValue,
    StrValue,
    UIntValue,
    VarValue,
)
from openinfer.ops.schema import SettingType
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue, UnresolvedSetting
    from openinfer.ir.values import AttrValue
    from openinfer.ops.schema import SettingSpec
    from openinfer.symbolic import IntExpr
    from openinfer.validate.scope import Scope


class SettingError(Exception):
    """The value of a setting is invalid; ``code`` and ``hint`` go into the finding.

    ``word`` is the wrong part of the value, if that is a name.
    """

    def __init__(
        self, message: str, *, code: str = "setting-type", hint: str | None = None, word: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.word = word


_INTEGER = {SettingType.INT, SettingType.NUMBER, SettingType.INT_OR_LIST, SettingType.PADDING}
_LIST = {SettingType.INT_LIST, SettingType.INT_OR_LIST, SettingType.PADDING}

_FLOAT = {SettingType.FLOAT, SettingType.NUMBER, SettingType.SCALAR, SettingType.FLOAT_OR_LIST}


def setting_value(spec: SettingSpec, value: AttrValue, scope: Scope) -> SettingValue | UnresolvedSetting:
    """Return the value of a setting, or how it is found when the operator runs.

    Messages call the setting as ``spec`` does.

    Raises:
        SettingError: the setting does not take such a value, or a name in it is unknown.
    """
    if isinstance(value, VarValue):
        return _named(spec, value, scope)
    if isinstance(value, ExprValue):
        return _integers(spec, (value.expr,), scope, is_list=False)
    if spec.type in _LIST:
        value = with_variables(spec.name, value)
    if isinstance(value, ExprListValue):
        return _integers(spec, value.exprs, scope, is_list=True)
    literal = _literal(spec.type, value)
    if literal is None:
        raise SettingError(f"setting `{spec.name}` takes {_expected(spec)}, found {_shown(value)}")
    return _chosen(spec, literal)


def _literal(wanted: SettingType, value: AttrValue) -> SettingValue:
    """Return the value if the type takes it, else None."""
    if isinstance(value, IntValue | UIntValue):
        return _integer_literal(wanted, value.value)
    if isinstance(value, DoubleValue | FloatValue):
        return value.value if wanted in _FLOAT else None
    if isinstance(value, BoolValue):
        return value.value if wanted in (SettingType.BOOL, SettingType.SCALAR) else None
    if isinstance(value, StrValue):
        return value.value if wanted in (SettingType.STR, SettingType.PADDING, SettingType.SCALAR) else None
    return _list_literal(wanted, value)


def _integer_literal(wanted: SettingType, value: int) -> SettingValue:
    if wanted in _INTEGER or wanted is SettingType.SCALAR:
        return value
    if wanted in (SettingType.FLOAT, SettingType.FLOAT_OR_LIST):
        return float(value)
    return (value,) if wanted is SettingType.INT_LIST else None


def _list_literal(wanted: SettingType, value: AttrValue) -> SettingValue:
    if isinstance(value, IntListValue):
        if wanted is SettingType.INT and len(value.values) == 1:
            return value.values[0]
        if wanted is SettingType.FLOAT_OR_LIST:
            return tuple(map(float, value.values))
        return value.values if wanted in _LIST else None
    if isinstance(value, DoubleListValue):
        return value.values if wanted is SettingType.FLOAT_OR_LIST else None
    if isinstance(value, DTypeValue):
        return value.dtype if wanted is SettingType.DTYPE else (value.dtype,) if wanted is SettingType.ACC else None
    if isinstance(value, DTypeListValue) and wanted is SettingType.ACC:
        return value.dtypes
    return None


def _chosen(spec: SettingSpec, value: SettingValue) -> SettingValue:
    if spec.choices and isinstance(value, str) and value not in spec.choices:
        hint = did_you_mean(value, spec.choices)
        raise SettingError(f"setting `{spec.name}` is one of {', '.join(spec.choices)}; found {value!r}", hint=hint)
    return value


def _named(spec: SettingSpec, value: VarValue, scope: Scope) -> SettingValue | UnresolvedSetting:
    name = value.ref.name
    if value.ref.indices:
        raise SettingError(f"setting `{spec.name}` takes no table entry: `{name}[...]` is one")
    if spec.type is SettingType.DTYPE and name in BY_NAME:
        return BY_NAME[name]
    if spec.type is SettingType.STR and scope.model.has_metadata_string(name):
        return _chosen(spec, scope.model.load_metadata_string(name))
    if spec.type is SettingType.NUMBER and scope.integer_problem(name) is not None:
        return _scalar_variable(spec, name, scope)
    if spec.type in _INTEGER or spec.type is SettingType.INT_LIST:
        return _integers(spec, (Name(name),), scope, is_list=spec.type is SettingType.INT_LIST)
    if spec.type in (SettingType.FLOAT, SettingType.SCALAR, SettingType.BOOL):
        return _scalar_variable(spec, name, scope)
    hint = near_dtype(name) if spec.type in (SettingType.DTYPE, SettingType.ACC) else None
    raise SettingError(f"setting `{spec.name}` takes {_expected(spec)}, found the name `{name}`", hint=hint)


def _scalar_variable(spec: SettingSpec, name: str, scope: Scope) -> RuntimeScalar:
    problem = scope.scalar_problem(name)
    if problem is not None:
        variable = scope.variables.get(name)
        hint = did_you_mean(name, scope.variables) if variable is None else None
        is_persistent = variable is not None and variable.storage is Storage.PERSISTENT
        code = "unknown-variable" if variable is None else "persistent-direct" if is_persistent else "setting-type"
        raise SettingError(f"setting `{spec.name}`: {problem}", code=code, hint=hint)
    return RuntimeScalar(name)


def _integers(
    spec: SettingSpec, exprs: Sequence[IntExpr], scope: Scope, *, is_list: bool
) -> SettingValue | UnresolvedSetting:
    takes = _LIST if is_list else _INTEGER | {SettingType.INT_LIST}
    if spec.type not in takes:
        raise SettingError(f"setting `{spec.name}` takes {_expected(spec)}, found an integer expression")
    names = [name for expr in exprs for name in symbolic.names(expr)]
    for name in names:
        problem = scope.integer_problem(name)
        if problem is not None:
            raise SettingError(f"setting `{spec.name}`: {problem}", code="unknown-variable", word=name)
    if any(not scope.is_size(name) for name in names):
        return RuntimeInts(tuple(exprs), is_list)
    try:
        values = tuple(symbolic.evaluate(expr, scope.sizes.__getitem__) for expr in exprs)
    except symbolic.DivisionError as error:
        raise SettingError(f"setting `{spec.name}`: {error}", code="bad-division") from error
    wide = next((value for value in values if value not in symbolic.INT64), None)
    if wide is not None:
        raise SettingError(
            f"setting `{spec.name}`: {symbolic.value_text(wide)} does not fit 64 bits", code="integer-range"
        )
    return integers_of(exprs, values) if is_list or spec.type is SettingType.INT_LIST else values[0]


def _expected(spec: SettingSpec) -> str:
    return f"one of {', '.join(spec.choices)}" if spec.choices else f"{spec.type.value}"


_SHOWN: Mapping[type, str] = {
    IntValue: "an integer",
    UIntValue: "an integer",
    DoubleValue: "a float",
    FloatValue: "a float",
    BoolValue: "a bool",
    StrValue: "a string",
    IntListValue: "a list of integers",
    DoubleListValue: "a list of floats",
    DTypeValue: "a dtype",
    DTypeListValue: "a list of dtypes",
}


def _shown(value: AttrValue) -> str:
    return _SHOWN.get(type(value), "an expression")
