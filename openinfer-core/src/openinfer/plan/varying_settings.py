"""Integer settings that are known at run time only, as parameters with the values that an operator accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.affine import Index
from openinfer.ir.nodes import Op
from openinfer.ir.resolved import RuntimeInts
from openinfer.ir.values import ExprListValue, ExprValue, VarValue
from openinfer.plan.settings import RuntimeSettingError, known_setting
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp, SettingValue
    from openinfer.ir.values import AttrValue
    from openinfer.model import Model
    from openinfer.plan.given_sizes import GivenSizes
    from openinfer.plan.operands import LoopIndex, Register, ValueRef
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
        known_parts = (resolved, model, loop_indices)
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
                    known = known_setting(setting, alone, *known_parts)
                except RuntimeSettingError:
                    known = None
                if isinstance(known, int):
                    row.append(known)
                    continue
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


def _given(expr: IntExpr, given: GivenSizes | None, resolved: ResolvedGraph) -> Index | None:
    """Return an expression over sizes of steps, and other sizes, as a polynomial; None where it is something else."""
    if given is None or any(name in resolved.variables or name not in resolved.sizes for name in symbolic.names(expr)):
        return None
    return given.index(expr)


@dataclass(frozen=True, slots=True)
class BoundSettings:
    """Settings of a statement, with what names mean in those that are known at run time only."""

    settings: VaryingSettings
    meanings: Mapping[str, int | LoopIndex | ValueRef | Register]
