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
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp, SettingValue
    from openinfer.ir.values import AttrValue
    from openinfer.model import Model
    from openinfer.plan.given_sizes import GivenSizes
    from openinfer.plan.operands import LoopIndex, Register, ValueRef
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr


def with_given_sizes(
    op: ResolvedOp, node: Node, environment: Environment, given_sizes: GivenSizes | None
) -> ResolvedOp:
    """Return an operator whose settings that depend on sizes of steps are evaluated when it runs."""
    if given_sizes is None or not isinstance(node.kind, Op):
        return op
    settings, runtime = dict(op.settings), dict(op.runtime_settings)
    schema = environment.op(op.op)
    for written, value in node.kind.settings.items():
        spec = schema.setting(written)
        exprs = _expressions(value)
        if spec is None or spec.name not in settings or given_sizes.most.keys().isdisjoint(_names(exprs)):
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


@dataclass(frozen=True, slots=True)
class VaryingSettings:
    """The settings of a statement, of which some are known at run time only.

    Attributes:
        known: the others, with their values.
        varying: the numbers of these, and whether they are a list: an index is over sizes of steps, an expression over
            the names in ``meanings``.
    """

    op: ResolvedOp
    known: Mapping[str, SettingValue]
    varying: Mapping[str, tuple[tuple[int | Index | IntExpr, ...], bool]]
    meanings: Mapping[str, int | LoopIndex | ValueRef | Register]


def varying_settings(
    op: ResolvedOp,
    resolved: ResolvedGraph,
    model: Model,
    runtime: Mapping[str, RuntimeInts],
    loop_indices: frozenset[str],
    given_sizes: GivenSizes | None,
    meaning: Callable[[str], int | LoopIndex | ValueRef | Register],
) -> VaryingSettings:
    """Return the settings of an operator.

    Args:
        runtime: those that are known at run time only.
        given_sizes: sizes of steps, over which settings are indices; without them, such settings are expressions.
        meaning: returns what a name in an expression means.
    """

    def number(setting: str, expr: IntExpr) -> int | Index | IntExpr:
        size = _given(expr, given_sizes, resolved)
        if size is not None:
            return size
        alone = RuntimeInts((expr,), is_list=False)
        try:
            value = known_setting(setting, alone, resolved, model, loop_indices)
        except RuntimeSettingError:
            return expr
        return value if isinstance(value, int) else expr

    fixed = {
        setting: known_setting(setting, value, resolved, model, loop_indices)
        for setting, value in op.runtime_settings.items()
        if setting not in runtime
    }
    varying = {
        setting: (tuple(number(setting, expr) for expr in value.exprs), value.is_list)
        for setting, value in runtime.items()
    }
    unknown = [item for numbers, _ in varying.values() for item in numbers if not isinstance(item, int | Index)]
    meanings = {name: meaning(name) for expr in unknown for name in symbolic.names(expr)}
    return VaryingSettings(op, {**op.settings, **fixed}, varying, meanings)


def _given(expr: IntExpr, given_sizes: GivenSizes | None, resolved: ResolvedGraph) -> Index | None:
    """Return an expression over sizes of steps, and other sizes, as a polynomial; None where it is something else."""
    if given_sizes is None or any(
        name in resolved.variables or name not in resolved.sizes for name in symbolic.names(expr)
    ):
        return None
    return given_sizes.index(expr)
