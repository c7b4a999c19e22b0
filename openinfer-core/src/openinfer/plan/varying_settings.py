"""Integer settings that are known at run time only, as parameters with the values that an operator accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.affine import Index
from openinfer.ir.nodes import Op
from openinfer.ir.resolved import RuntimeInts
from openinfer.ir.values import ExprListValue, ExprValue, VarValue
from openinfer.plan.findings import at_node
from openinfer.plan.setting_ranges import MOST_LOW, setting_range
from openinfer.plan.settings import RuntimeSettingError, known_setting
from openinfer.plan.sizes import size
from openinfer.plan.steps import PlaceStep, Register
from openinfer.plan.varying_calls import Parameter
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp, SettingValue
    from openinfer.ir.values import AttrValue
    from openinfer.model import Model
    from openinfer.plan.calls import Operation
    from openinfer.plan.draft import Draft
    from openinfer.plan.given_sizes import GivenSizes
    from openinfer.plan.indices import Interval
    from openinfer.plan.steps import IndexExpr, Step
    from openinfer.plan.varying_calls import Sample
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
    ) -> None:
        self.op = op
        self._runtime = runtime
        self._known: dict[str, SettingValue] = dict(op.settings)
        self.unknown: dict[str, IntExpr] = {}
        for setting, value in op.runtime_settings.items():
            if setting not in runtime:
                self._known[setting] = known_setting(setting, value, resolved, model, loop_indices)
        self._numbers: dict[str, list[int | str | Index]] = {}
        for setting, value in runtime.items():
            row: list[int | str | Index] = []
            for expr in value.exprs:
                size = _given(expr, given, resolved)
                if size is not None:
                    row.append(size)
                    continue
                alone = RuntimeInts((expr,), is_list=False)
                try:
                    known = known_setting(setting, alone, resolved, model, loop_indices)
                    row.append(known if isinstance(known, int) else 0)
                except RuntimeSettingError:
                    name = f"s{len(self.unknown)}"
                    self.unknown[name] = expr
                    row.append(name)
            self._numbers[setting] = row

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
        self,
        draft: Draft,
        form: Callable[[Mapping[str, int]], Sample | None],
        shapes: Sequence[tuple[int | Register, ...] | None],
        at: Operation,
    ) -> tuple[tuple[Parameter, ...], tuple[Step, ...]]:
        """Return a parameter for each unknown setting, and the steps that find the values of these.

        Args:
            form: what the operator does with settings; None where it refuses them.
            shapes: extents of its inputs.

        Raises:
            SynthesisError: ``unsupported``: they cannot be found.
        """
        if not self.settings.unknown:
            return (), ()
        shown = ", ".join(symbolic.text(expr) for expr in self.settings.unknown.values())
        extents = [extent for shape in shapes for extent in shape or ()]
        if len(self.settings.unknown) > 1 or any(isinstance(extent, Register) for extent in extents):
            message = f"{self.settings.op.op} depends on {shown} and on other sizes that are known at run time only"
            hint = "let one setting vary, on inputs whose shape is known"
            raise at_node("unsupported", message, at.origin.block, at.node, hint=hint)
        (name,) = self.settings.unknown

        @cache
        def form_at(value: int) -> Sample | None:
            return form({name: value})

        found = setting_range(form_at, (extent for extent in extents if isinstance(extent, int)))
        if found is None:
            tried = f"none of 0 to {MOST_LOW - 1} for {shown}"
            message = f"{self.settings.op.op} accepts {tried}, which is known at run time only"
            raise at_node("unsupported", message, at.origin.block, at.node)
        value, low, high, given = self.values[name], found.low, found.high, self.ranges[name]
        if given is not None and low <= given[0] and given[1] <= high:
            low, high = given
        elif not found.is_plain:
            register = Register(draft.register(f"{at.name}.{self.settings.op.op}.{name}", most=high))
            step = PlaceStep(origin=at.origin, register=register.number, value=value, range=found)
            return (self._parameter(name, size(draft, register), (low, high), form_at, at),), (step,)
        return (self._parameter(name, value, (low, high), form_at, at),), ()

    def _parameter(
        self,
        name: str,
        value: IndexExpr,
        values: Interval,
        form: Callable[[int], Sample | None],
        at: Operation,
    ) -> Parameter:
        """Return a parameter between two values, tried at some of those at which the operator does the same things."""
        low, high = values
        checked = sorted({low, min(low + 1, high), (low + high) // 2, max(high - 1, low), high})
        near = (high, high - 1, high - 2, (low + high) // 2, low + 2, low + 1, low)
        kinds: dict[tuple[object, ...], list[int]] = {}
        for each in dict.fromkeys(each for each in near if low <= each <= high):
            sample = form(each)
            if sample is not None:
                kinds.setdefault(sample.kind, []).append(each)
        tried = max(kinds.values(), key=len)
        if len(tried) == 1 and low < high:
            message = f"{self.settings.op.op} does something else at each of the values {low} to {high} of a setting"
            hint = "write the statement once for each value, in blocks that `branch` chooses"
            raise at_node("unsupported", message, at.origin.block, at.node, hint=hint)
        first, second, third = (*tried, tried[-1], tried[-1])[:3]
        return Parameter(
            name=name,
            value=value,
            low=low,
            high=high,
            tried=(first, second, third),
            is_extent=False,
            checked=tuple(checked),
        )
