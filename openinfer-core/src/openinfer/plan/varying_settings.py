"""Integer settings that are known at run time only, as parameters with the values that an operator accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.affine import Index
from openinfer.compute.parametric import ParametricError
from openinfer.ir.nodes import Op
from openinfer.ir.resolved import RuntimeInts
from openinfer.ir.values import ExprListValue, ExprValue, VarValue
from openinfer.plan.findings import at_node
from openinfer.plan.setting_ranges import MOST_LOW
from openinfer.plan.setting_search import PolynomialRange, RangeSearch
from openinfer.plan.settings import RuntimeSettingError, known_setting
from openinfer.plan.steps import PlaceStep, Register
from openinfer.symbolic import Const, Name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp, SettingValue
    from openinfer.ir.values import AttrValue
    from openinfer.model import Model
    from openinfer.plan.calls import Operation
    from openinfer.plan.draft import Draft
    from openinfer.plan.given_sizes import GivenSizes
    from openinfer.plan.indices import Interval
    from openinfer.plan.parameters import Parameter
    from openinfer.plan.setting_search import Form, Shape
    from openinfer.plan.steps import IndexExpr, Step
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr


def with_given_sizes(op: ResolvedOp, node: Node, environment: Environment, given: GivenSizes | None) -> ResolvedOp:
    """Return an operator whose settings that depend on sizes of steps are evaluated when it runs."""
    if given is None or not isinstance(node.kind, Op):
        return op
    settings, runtime = dict(op.settings), dict(op.runtime_settings)
    schema = environment.op(op.op)
    for written, value in node.kind.settings.items():
        spec = schema.setting(written)
        exprs = _expressions(value)
        if spec is None or spec.name not in settings or given.most.keys().isdisjoint(_names(exprs)):
            continue
        is_list = isinstance(settings.pop(spec.name), tuple)
        runtime[spec.name] = RuntimeInts(exprs, is_list)
    return replace(op, settings=settings, runtime_settings=runtime)


def _expressions(value: AttrValue) -> tuple[IntExpr, ...]:
    match value:
        case ExprValue(expr=expr):
            return (expr,)
        case ExprListValue(exprs=exprs):
            return tuple(exprs)
        case VarValue(ref=ref) if not ref.indices:
            return (Name(ref.name),)
        case _:
            return ()


def _names(exprs: Sequence[IntExpr]) -> set[str]:
    return {name for expr in exprs for name in symbolic.names(expr)}


class VaryingSettings:
    """The settings of an operator at values of those that are known at run time only.

    Args:
        given: sizes of steps, over which settings are polynomials; without them, such settings are unknown.
        tested: settings that are unknown though their values are numbers, or follow from sizes of steps.

    Attributes:
        unknown: expressions of these, by name of parameter.
    """

    def __init__(
        self,
        op: ResolvedOp,
        resolved: ResolvedGraph,
        model: Model,
        runtime: Mapping[str, RuntimeInts],
        loop_indices: frozenset[str],
        given: GivenSizes | None = None,
        tested: frozenset[str] = frozenset(),
    ) -> None:
        self.op = op
        self._parts = (resolved, model, runtime, loop_indices)
        self._runtime = runtime
        self._given = given
        self._known: dict[str, SettingValue] = dict(op.settings)
        self.unknown: dict[str, IntExpr] = {}
        for setting, value in op.runtime_settings.items():
            if setting not in runtime:
                self._known[setting] = known_setting(setting, value, resolved, model, loop_indices)
        known_parts = (resolved, model, loop_indices)
        self._numbers: dict[str, list[int | str | Index]] = {}
        for setting, value in runtime.items():
            row: list[int | str | Index] = []
            for expr in value.exprs:
                size = None if setting in tested else _given(expr, given, resolved)
                if size is not None:
                    row.append(size)
                    continue
                alone = RuntimeInts((expr,), is_list=False)
                try:
                    known = None if setting in tested else known_setting(setting, alone, *known_parts)
                except RuntimeSettingError:
                    known = None
                if isinstance(known, int):
                    row.append(known)
                    continue
                name = f"s{len(self.unknown)}"
                self.unknown[name] = expr
                row.append(name)
            self._numbers[setting] = row

    def tested(self, names: Collection[str]) -> VaryingSettings:
        """Return the settings with all numbers of some as unknown ones, which are tested or clipped at run time."""
        resolved, model, runtime, loop_indices = self._parts
        known = {name: value for name, value in self.op.settings.items() if name not in names}
        at_run_time = dict(runtime)
        for name in names:
            match self.op.settings.get(name):
                case int() as number:
                    at_run_time[name] = RuntimeInts((Const(number),), is_list=False)
                case tuple() as numbers:
                    at_run_time[name] = RuntimeInts(
                        tuple(Const(n) for n in numbers if isinstance(n, int)), is_list=True
                    )
                case _:
                    pass
        op = replace(self.op, settings=known)
        return VaryingSettings(op, resolved, model, at_run_time, loop_indices, self._given, frozenset(names))

    @property
    def program_sizes(self) -> Mapping[str, int]:
        """The sizes of the program."""
        resolved, *_ = self._parts
        return resolved.sizes

    @property
    def sized(self) -> frozenset[str]:
        """The settings that depend on sizes of steps."""
        return frozenset(name for name, row in self._numbers.items() if any(isinstance(item, Index) for item in row))

    @property
    def most_numbers(self) -> int:
        """How many numbers the longest setting has that is a list, is known at run time only, or depends on sizes."""
        known = (len(value) for value in self.op.settings.values() if isinstance(value, tuple) and _is_list(value))
        return max((*known, *map(len, self._numbers.values())), default=0)

    @property
    def lists(self) -> tuple[str, ...]:
        """The settings that are lists of integers."""
        known = [name for name, value in self.op.settings.items() if _is_list(value)]
        return (*known, *(name for name, value in self._runtime.items() if value.is_list))

    @property
    def sizes(self) -> tuple[str, ...]:
        """The parameters of sizes of steps that settings depend on."""
        items = [item for row in self._numbers.values() for item in row if isinstance(item, Index)]
        return tuple(sorted({var.name for item in items for var in item.variables()}))

    def at(self, sizes: Mapping[str, int]) -> Mapping[str, SettingValue]:
        """Return all settings at values of the parameters."""
        found = dict(self._known)
        for setting, row in self._numbers.items():
            numbers = tuple(
                item.evaluate(sizes) if isinstance(item, Index) else sizes[item] if isinstance(item, str) else item
                for item in row
            )
            found[setting] = numbers if self._runtime[setting].is_list else numbers[0]
        return found

    def bound(self, values: Mapping[str, IndexExpr], ranges: Mapping[str, Interval | None]) -> BoundSettings:
        """Return the settings with what those that are not known are, and the intervals of these."""
        return BoundSettings(self, values, ranges)


def _is_list(value: SettingValue) -> bool:
    return isinstance(value, tuple) and all(type(item) is int for item in value)


def _given(expr: IntExpr, given: GivenSizes | None, resolved: ResolvedGraph) -> Index | None:
    """Return an expression over sizes of steps, and other sizes, as a polynomial; None where it is something else."""
    if given is None or any(name in resolved.variables or name not in resolved.sizes for name in symbolic.names(expr)):
        return None
    return given.index(expr)


@dataclass(frozen=True, slots=True)
class BoundSettings:
    """Settings of a statement, with the values of those that are known at run time only."""

    settings: VaryingSettings
    values: Mapping[str, IndexExpr]
    ranges: Mapping[str, Interval | None]

    def parameters(
        self, draft: Draft, form: Form, extents: Sequence[Parameter], shapes: Sequence[Shape | None], at: Operation
    ) -> tuple[tuple[Parameter, ...], tuple[Step, ...], Mapping[str, PolynomialRange]]:
        """Return a parameter for each unknown setting, the steps that find the values of these, and their ranges.

        Args:
            form: what the operator does at values of all parameters; None where it refuses them.
            extents: parameters that extents of its inputs depend on.
            shapes: of its inputs, over these.

        Raises:
            SynthesisError: ``unsupported``: they cannot be found.
        """
        if not self.settings.unknown:
            return (), (), {}
        found = RangeSearch(form, extents, shapes, tuple(self.settings.unknown))
        separate: dict[str, PolynomialRange] = {}
        for name, expr in self.settings.unknown.items():
            try:
                known = found.range_of(name)
            except ParametricError as error:
                known, why = None, f": {error}"
            else:
                why = f": it takes none of 0 to {MOST_LOW - 1}"
            if known is None:
                shown = symbolic.text(expr)
                message = f"{self.settings.op.op} has no form for every {shown}, which is known at run time only{why}"
                raise at_node("unsupported", message, at.origin.block, at.node)
            given = self.ranges[name]
            separate[name] = known if given is None else known.within(given)
        ranges = found.joint(separate)
        tried = found.tried(ranges)
        if tried is None:
            shown = " and ".join(symbolic.text(expr) for expr in self.settings.unknown.values())
            message = f"{self.settings.op.op} does something else at each value of {shown}, known at run time only"
            hint = "write the statement once for each value, in blocks that `branch` chooses"
            raise at_node("unsupported", message, at.origin.block, at.node, hint=hint)
        made: list[Parameter] = []
        steps: list[Step] = []
        sizes = {p.name: p.value for p in extents}
        for name, known in ranges.items():
            value = self.values[name]
            if not known.is_taken:
                register = Register(
                    draft.register(f"{at.name}.{self.settings.op.op}.{name}", most=found.largest(known.high, ranges))
                )
                place = known.placed(sizes)
                steps.append(PlaceStep(origin=at.origin, register=register.number, value=value, range=place))
                value = draft.size(register)
            sizes[name] = value
            made.append(found.parameter(name, value, ranges, tried))
        return tuple(made), tuple(steps), ranges
