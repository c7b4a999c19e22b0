"""Results of a statement whose operands have extents that are not numbers: its shape rule runs once, on sizes.

Where the rule asks what only the running program knows, both answers are followed. An extent of the result is known
where all ways agree on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import filterfalse
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.dims import Condition, Dim, NeedsNumberError, Relation, Space, evaluated, expression, index_of, sources
from openinfer.dtypes import Kind
from openinfer.errors import OpenInferError, PluginError
from openinfer.ir.language import with_variables
from openinfer.ir.resolved import Computed, RuntimeInts, RuntimeScalar, integers_of
from openinfer.ir.types import LARGEST_SIZE, TensorType
from openinfer.ir.values import ExprListValue, ExprValue, VarValue
from openinfer.ops.counting import counted_places
from openinfer.ops.schema import OpTypeError, SettingType
from openinfer.symbolic import Const, Name
from openinfer.validate.op_inference import DependsOnDeclarationError, inferred_call, stand_in, yielded
from openinfer.validate.settings import setting_value
from openinfer.validate.stored_scales import with_stored_scales

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from openinfer.affine import Index
    from openinfer.dims import Path, Size
    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue, UnresolvedSetting
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.symbolic import IntExpr
    from openinfer.validate.scope import Scope
    from openinfer.validate.signature import Matched

    Dims: TypeAlias = Sequence[IntExpr | None]
    """Extents as expressions of sizes; None for what is known only when the program runs."""
    Result: TypeAlias = tuple[DType, Dims]
    Types: TypeAlias = tuple[TensorType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An operator with its operands.

    Attributes:
        inputs, types: operands and their types; the shapes of those with ``dims`` are not used.
        dims: extents of each input as expressions; None: its type has them.
        settings: values, those of ``exprs`` excepted.
        exprs: integer settings as expressions, by name.
        count: number of outputs.
        step_sizes: sizes that differ from step to step: those are named in results, like all others, and no rule relies
            on their value.
        ranks: of each output, where they are known.
    """

    schema: OpSchema
    inputs: Sequence[Ref | None]
    types: Sequence[TensorType | None]
    dims: Sequence[Dims | None]
    settings: Mapping[str, SettingValue | UnresolvedSetting]
    exprs: Mapping[str, tuple[IntExpr, ...]]
    count: int
    scope: Scope
    step_sizes: frozenset[str]
    ranks: Sequence[int | None]


def supplied(
    matched: Matched, scope: Scope
) -> tuple[tuple[Ref | None, ...], Mapping[str, SettingValue | UnresolvedSetting]]:
    """Return inputs and settings, with what the model supplies.

    Raises:
        SettingError: a setting takes no such value, or a name in it has no type yet.
        OpTypeError, PluginError: as `with_stored_scales`.
    """
    specs = ((name, matched.schema.setting(name), value) for name, value in matched.settings.items())
    settings = {name: setting_value(spec, value, scope) for name, spec, value in specs if spec is not None}
    return with_stored_scales(matched.schema, matched.inputs, settings, scope)


def integer_settings(
    matched: Matched, settings: Mapping[str, SettingValue | UnresolvedSetting], *, named: bool
) -> dict[str, tuple[IntExpr, ...]]:
    """Return the integer settings that are not numbers, by name.

    Args:
        named: whether a size is an expression and not a number.
    """
    late = {name: value.exprs for name, value in settings.items() if isinstance(value, RuntimeInts)}
    if not named:
        return late
    written = {name: _written(name, value) for name, value in matched.settings.items() if _is_integer(settings[name])}
    return {name: exprs for name, exprs in written.items() if _names(exprs)} | late


def _is_integer(value: SettingValue | UnresolvedSetting) -> bool:
    return all(map(_is_integer, value)) if isinstance(value, tuple) else type(value) in (int, Computed)


def _written(setting: str, value: AttrValue) -> tuple[IntExpr, ...]:
    """Return the expressions of a setting as the program has them."""
    value = with_variables(setting, value)
    if isinstance(value, VarValue):
        return (Name(value.ref.name),)
    if isinstance(value, ExprValue):
        return (value.expr,)
    return value.exprs if isinstance(value, ExprListValue) else ()


def results(statement: Statement) -> Sequence[Result]:
    """Return the types that a statement yields.

    Raises:
        DependsOnDeclarationError, OpTypeError, PluginError: as `openinfer.validate.op_inference.yielded`.
        NeedsNumberError: their ranks, or the way through the rule, depend on what only the running program knows.
    """
    if not statement.exprs and not any(statement.dims) and not _flags(statement):
        settings = _settings(statement, _Symbols(Space()))
        return of_numbers(inferred_call(statement.schema, statement.types, settings, statement.count), statement.schema)
    return _counted(_results_on_sizes(statement), statement.schema)


def of_numbers(call: OpCall, schema: OpSchema) -> Sequence[Result]:
    """Return what a call yields whose operands and settings are numbers."""
    return _counted([(kind.dtype, tuple(map(Const, kind.shape))) for kind in call.outputs], schema)


def _counted(made: Sequence[Result], schema: OpSchema) -> Sequence[Result]:
    """Return types whose first extent only the running program knows, where the operator counts rows."""
    places = counted_places(schema)
    return [(dtype, (None, *dims[1:]) if number in places else dims) for number, (dtype, dims) in enumerate(made)]


def _results_on_sizes(statement: Statement) -> Sequence[Result]:
    numbers: dict[str, int] = {}
    while True:
        symbols = _symbols(statement, numbers)
        try:
            paths = symbols.space.explore(
                lambda symbols=symbols: _applied(statement, symbols), (OpenInferError, ArithmeticError)
            )
        except NeedsNumberError as error:
            # Sizes that are the same in every step have a number; it takes the place of their names in results.
            needed = {name: statement.scope.sizes[name] for name in error.sizes & symbols.fixed - numbers.keys()}
            if not needed:
                raise
            numbers |= needed
        else:
            return _merged(statement, symbols, paths)


@dataclass(frozen=True, slots=True)
class _Symbols:
    """Sizes that the rule of a statement runs on.

    Attributes:
        sizes: sizes of the model by name.
        late: what only the running program knows: loop indices and scalars in settings, by name.
        extents: extents of variables that have none, by variable and axis.
        fixed: sizes that are the same in every step.
    """

    space: Space
    sizes: dict[str, Size] = field(default_factory=dict[str, "Size"])
    late: dict[str, Dim] = field(default_factory=dict[str, Dim])
    extents: dict[tuple[str, int], Dim] = field(default_factory=dict[tuple[str, int], Dim])
    fixed: set[str] = field(default_factory=set[str])

    def in_dims(self, expr: IntExpr) -> int:
        """Return the value of an extent."""
        return symbolic.evaluate(expr, self.sizes.__getitem__)  # pyright: ignore[reportArgumentType]

    def in_settings(self, expr: IntExpr) -> int:
        """Return the value of a setting, in which a variable hides a size of the same name."""
        return symbolic.evaluate(expr, ({**self.sizes, **self.late}).__getitem__)  # pyright: ignore[reportArgumentType]


def _symbols(statement: Statement, numbers: Mapping[str, int]) -> _Symbols:
    symbols, scope = _Symbols(Space()), statement.scope
    in_dims = _names(expr for dims in statement.dims for expr in dims or () if expr is not None)
    in_settings = _names(expr for exprs in statement.exprs.values() for expr in exprs)
    for name in dict.fromkeys((*in_dims, *filter(scope.is_size, in_settings))):
        value = scope.sizes[name]
        if name in statement.step_sizes:
            symbols.sizes[name] = symbols.space.size(name, 0, LARGEST_SIZE)
        else:
            symbols.sizes[name] = numbers[name] if name in numbers else symbols.space.size(name, value, value)
            symbols.fixed.add(name)
    for name in dict.fromkeys((*filterfalse(scope.is_size, in_settings), *_flags(statement))):
        symbols.late[name] = symbols.space.size(f"`{name}`", *_bounds(scope.type_of(name)))
    for ref, dims in zip(statement.inputs, statement.dims, strict=True):
        for axis, dim in enumerate(dims or ()):
            if dim is None and ref is not None:
                extent = symbols.space.size(f"{ref.name}.shape[{axis}]", 0, LARGEST_SIZE)
                symbols.extents[ref.name, axis] = extent
    return symbols


def _flags(statement: Statement) -> list[str]:
    """Return the variables that settings of truth values read."""
    specs = ((statement.schema.setting(name), value) for name, value in statement.settings.items())
    return [
        value.name
        for spec, value in specs
        if isinstance(value, RuntimeScalar) and spec is not None and spec.type is SettingType.BOOL
    ]


def _names(exprs: Iterable[IntExpr]) -> list[str]:
    return [name for expr in exprs for name in symbolic.names(expr)]


def _bounds(kind: TensorType | None) -> tuple[int | None, int | None]:
    """Return the least and largest value of a scalar."""
    if kind is None or kind.dtype.is_float:
        return None, None
    return (0, 1) if kind.dtype.kind is Kind.BOOL else (kind.dtype.minimum, kind.dtype.maximum)


def _applied(statement: Statement, symbols: _Symbols) -> Types:
    """Return what the operator yields, on sizes."""
    operands = zip(statement.inputs, statement.types, statement.dims, strict=True)
    types = [
        kind if kind is None or ref is None or dims is None else replace(kind, shape=_shape(ref, dims, symbols))
        for ref, kind, dims in operands
    ]
    return yielded(statement.schema, types, _settings(statement, symbols), statement.count)


def _shape(ref: Ref, dims: Dims, symbols: _Symbols) -> tuple[int, ...]:
    shape: list[int] = []
    for axis, dim in enumerate(dims):
        extent = symbols.extents[ref.name, axis] if dim is None else symbols.in_dims(dim)
        if extent < 0:
            raise OpTypeError(f"`{ref.name}` has the extent {extent}, which must not be negative")
        shape.append(extent)  # pyright: ignore[reportArgumentType]
    return tuple(shape)


def _settings(statement: Statement, symbols: _Symbols) -> dict[str, SettingValue]:
    return {name: _setting(statement, name, value, symbols) for name, value in statement.settings.items()}


def _setting(
    statement: Statement, name: str, value: SettingValue | UnresolvedSetting, symbols: _Symbols
) -> SettingValue:
    spec = statement.schema.setting(name)
    exprs = statement.exprs.get(name)
    if spec is not None and exprs is not None:
        numbers = tuple(map(symbols.in_settings, exprs))
        is_list = value.is_list if isinstance(value, RuntimeInts) else isinstance(value, tuple)
        return integers_of(exprs, numbers) if is_list or spec.type is SettingType.INT_LIST else numbers[0]
    if isinstance(value, RuntimeScalar) and spec is not None:
        return bool(symbols.late[value.name]) if spec.type is SettingType.BOOL else stand_in(spec, value)
    return value  # pyright: ignore[reportReturnType]


def _merged(statement: Statement, symbols: _Symbols, paths: Sequence[Path[Types]]) -> Sequence[Result]:
    """Return what all ways agree on."""
    for path in paths:
        if isinstance(path.error, DependsOnDeclarationError | PluginError):
            raise path.error
    taken = [path for path in paths if path.value is not None]
    if not taken:
        raise paths[0].error or OpTypeError(f"{statement.schema.name} takes no such inputs")
    alike = [path for path in taken if _has_ranks(path, statement.ranks)]
    first = alike[0].value if alike else None
    other = next((path.value for path in alike if _kinds(path) != _kinds(alike[0])), None)
    if first is None or other is not None:
        ways = " or ".join(", ".join(map(str, kinds)) for kinds in (first, other) if kinds is not None)
        raise NeedsNumberError(f"yields {ways}")
    if len(alike) < len(taken):
        return [(kind.dtype, (None,) * len(kind.shape)) for kind in first]
    return [
        (kind.dtype, tuple(_agreed(number, axis, statement, symbols, alike) for axis in range(len(kind.shape))))
        for number, kind in enumerate(first)
    ]


def _has_ranks(path: Path[Types], ranks: Sequence[int | None]) -> bool:
    return all(rank in (None, len(kind.shape)) for kind, rank in zip(path.value or (), ranks, strict=False))


def _kinds(path: Path[Types]) -> list[tuple[str, int]]:
    return [(kind.dtype.name, len(kind.shape)) for kind in path.value or ()]


def _agreed(
    number: int, axis: int, statement: Statement, symbols: _Symbols, paths: Sequence[Path[Types]]
) -> IntExpr | None:
    """Return the extent of a result that is right on every way; None where there is none, or no expression for it."""
    extents = [index_of(path.value[number].shape[axis]) for path in paths if path.value is not None]

    def is_certain(condition: Condition) -> bool:
        return all(path.knowledge.certain(condition) for path in paths)

    for extent in dict.fromkeys(extents):
        names = sources(extent)
        if not names <= symbols.sizes.keys() or not all(map(_agrees_with(extent), extents, paths)):
            continue
        written = expression(extent, is_certain)
        if written is not None:
            return written
        if names <= symbols.fixed:
            return Const(evaluated(extent, statement.scope.sizes))
    return None


def _agrees_with(extent: Index) -> Callable[[Index, Path[Types]], bool]:
    return lambda other, path: path.knowledge.certain(Condition(extent - other, Relation.EQUAL)) is True
