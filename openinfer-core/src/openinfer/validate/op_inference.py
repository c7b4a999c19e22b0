"""Types that an operator yields without a declaration of its outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.dtypes import F32, I8
from openinfer.errors import PluginError
from openinfer.ir.language import with_variables
from openinfer.ir.resolved import RuntimeInts, RuntimeScalar
from openinfer.ir.types import TensorType
from openinfer.ir.values import ExprListValue, ExprValue, VarValue
from openinfer.ops.applying import call_of
from openinfer.ops.schema import OpTypeError, SettingType
from openinfer.symbolic import Const, Name
from openinfer.validate.settings import SettingError, setting_value
from openinfer.validate.signature import match_signature
from openinfer.validate.stored_scales import with_stored_scales

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.findings import Findings
    from openinfer.ir.nodes import Op
    from openinfer.ir.resolved import SettingValue, UnresolvedSetting
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.ops.schema import OpSchema, SettingSpec
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr
    from openinfer.validate.scope import Scope
    from openinfer.validate.signature import Matched

    Settings = Mapping[str, SettingValue | UnresolvedSetting]


class DependsOnDeclarationError(Exception):
    """What an operator yields is what its outputs are declared as."""


def yielded(
    schema: OpSchema, types: Sequence[TensorType | None], settings: Mapping[str, SettingValue], count: int
) -> tuple[TensorType, ...]:
    """Return the types that an operator yields to ``count`` outputs, whatever they are declared as.

    Raises:
        DependsOnDeclarationError: they are those of the declaration, in part or whole.
        OpTypeError: the operator does not take these types or settings.
        PluginError: the operator's rule failed.
    """
    own = next((kind for kind in types if kind is not None), TensorType(F32))
    answers = [
        _answer(schema, types, settings, (kind,) * count) for kind in (own, TensorType(F32), TensorType(I8, (7,)))
    ]
    first = answers[0]
    if all(isinstance(answer, OpTypeError) for answer in answers):
        alone = _answer(schema, types, settings, ())
        if isinstance(alone, OpTypeError):
            raise alone
        raise DependsOnDeclarationError
    if isinstance(first, OpTypeError) or any(answer != first for answer in answers):
        raise DependsOnDeclarationError
    return first


def _answer(
    schema: OpSchema,
    types: Sequence[TensorType | None],
    settings: Mapping[str, SettingValue],
    declared: Sequence[TensorType],
) -> tuple[TensorType, ...] | OpTypeError:
    try:
        return call_of(schema, types, settings, declared).outputs
    except OpTypeError as error:
        return error


@dataclass(frozen=True, slots=True)
class InferredOp:
    """An operator statement whose results have types by themselves.

    Attributes:
        inputs: as `Matched.inputs`, with the scales that the model supplies.
        dtypes: element types of the results.
        setting_exprs: integer expressions of each setting.
        late_names: names in them whose values only the running program knows.
    """

    op: Op
    matched: Matched
    scope: Scope
    inputs: tuple[Ref | None, ...]
    types: tuple[TensorType | None, ...]
    dtypes: tuple[DType, ...]
    setting_exprs: tuple[tuple[IntExpr, ...], ...]
    late_names: tuple[str, ...]

    def shapes(
        self, dims: Sequence[Sequence[IntExpr] | None], sizes: Mapping[str, int], late: Mapping[str, int]
    ) -> Sequence[tuple[int, ...]] | None:
        """Return the shapes of the results at some sizes, or None where the operator takes none such.

        Args:
            dims: extents of each input.
            late: values of the late names.
        """
        try:
            types = [
                None if kind is None or own is None else replace(kind, shape=_evaluated(own, sizes))
                for kind, own in zip(self.types, dims, strict=True)
            ]
            scope = replace(self.scope, sizes=sizes) if self.setting_exprs else self.scope
            _, settings = _supplied(self.matched, scope)
            known = known_settings(self.matched.schema, settings, {**sizes, **late})
            found = yielded(self.matched.schema, types, known, len(self.op.outputs))
        except (DependsOnDeclarationError, OpTypeError, PluginError, SettingError, symbolic.DivisionError, ValueError):
            return None
        return [kind.shape for kind in found]


def _evaluated(dims: Sequence[IntExpr], sizes: Mapping[str, int]) -> tuple[int, ...]:
    extents = tuple(symbolic.evaluate(dim, sizes.__getitem__) for dim in dims)
    if min(extents, default=0) < 0:
        raise ValueError(f"an extent of {extents} is negative")
    return extents


def infer_op(op: Op, environment: Environment, scope: Scope, findings: Findings) -> InferredOp | None:
    """Return what a statement yields by itself; None where that is not known, or not yet."""
    matched = match_signature(op, environment, findings, lambda ref: scope.type_of(ref.name))
    if matched is None:
        return None
    try:
        inputs, settings = _supplied(matched, scope)
        types = tuple(None if ref is None else scope.type_of(ref.name) for ref in inputs)
        if any(kind is None and ref is not None for ref, kind in zip(inputs, types, strict=True)):
            return None
        known = known_settings(matched.schema, settings, scope.sizes)
        found = yielded(matched.schema, types, known, len(op.outputs))
    except (DependsOnDeclarationError, OpTypeError, PluginError, SettingError):
        return None
    exprs = tuple(filter(None, (_exprs(name, value) for name, value in matched.settings.items())))
    late = dict.fromkeys(name for value in settings.values() for name in _late(value, scope))
    return InferredOp(op, matched, scope, inputs, types, tuple(kind.dtype for kind in found), exprs, tuple(late))


def _supplied(matched: Matched, scope: Scope) -> tuple[tuple[Ref | None, ...], Settings]:
    """Return inputs and settings, with what the model supplies.

    Raises:
        SettingError: a setting takes no such value, or a name in it has no type yet.
        OpTypeError, PluginError: as `with_stored_scales`.
    """
    specs = ((name, matched.schema.setting(name), value) for name, value in matched.settings.items())
    settings = {name: setting_value(spec, value, scope) for name, spec, value in specs if spec is not None}
    return with_stored_scales(matched.schema, matched.inputs, settings, scope)


def _exprs(setting: str, value: AttrValue) -> tuple[IntExpr, ...]:
    value = with_variables(setting, value)
    if isinstance(value, VarValue):
        return (Name(value.ref.name),) if not value.ref.indices else ()
    if isinstance(value, ExprValue):
        return (value.expr,)
    return value.exprs if isinstance(value, ExprListValue) else ()


def _late(value: SettingValue | UnresolvedSetting, scope: Scope) -> Iterator[str]:
    if isinstance(value, RuntimeInts):
        for expr in value.exprs:
            yield from (name for name in symbolic.names(expr) if not scope.is_size(name))


def known_settings(schema: OpSchema, settings: Settings, values: Mapping[str, int]) -> dict[str, SettingValue]:
    """Return settings with stand-ins for those that only the running program knows.

    ``values`` are values for names in them; settings with other names get a value of the right kind.
    """
    found: dict[str, SettingValue] = {}
    for name, value in settings.items():
        spec = schema.setting(name)
        if spec is not None and isinstance(value, RuntimeInts | RuntimeScalar):
            found[name] = _tried(value, values, spec)
        elif not isinstance(value, RuntimeInts | RuntimeScalar):
            found[name] = value
    return found


def _tried(value: UnresolvedSetting, values: Mapping[str, int], spec: SettingSpec) -> SettingValue:
    names = () if isinstance(value, RuntimeScalar) else (n for expr in value.exprs for n in symbolic.names(expr))
    if isinstance(value, RuntimeScalar) or any(name not in values for name in names):
        return stand_in(spec, value)
    numbers = tuple(symbolic.evaluate(expr, values.__getitem__) for expr in value.exprs)
    return numbers if value.is_list or spec.type is SettingType.INT_LIST else numbers[0]


_STAND_INS: Mapping[SettingType, SettingValue] = {
    SettingType.FLOAT: 1.0,
    SettingType.BOOL: False,
    SettingType.INT_LIST: (0,),
}


def stand_in(spec: SettingSpec, value: UnresolvedSetting) -> SettingValue:
    """Return a value of the right kind for a setting that is only known at run time, so that types can be inferred."""
    if isinstance(value, RuntimeInts) and value.is_list:
        return tuple(expr.value if isinstance(expr, Const) else 1 for expr in value.exprs)
    return _STAND_INS.get(spec.type, 1 if spec.type is SettingType.SCALAR else 0)
