"""Why a device that runs whole programs takes the nodes of one one by one, each in a call of its own.

The executor asks about a program that it binds, ``openinfer check --device`` about one that it only plans.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Severity
from openinfer.ir.concurrency import is_concurrent
from openinfer.ir.findings import of_node
from openinfer.ir.graph import walk
from openinfer.ir.nodes import CacheReset, Return
from openinfer.ir.resolved import Storage
from openinfer.simulate.devices.programs import keeps_state
from openinfer.simulate.state.program_memory import written_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedVar
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanOutput

BY_NODE = frozenset(("no-outputs", "cache-limit", "shape-mismatch", "setting-type"))
"""Codes of programs that every device runs node by node: without results, with caches that have no bound, or with
statements that fit no shape that a variable may have: only a step that reaches one is refused."""

CODE = "unsupported"


def notes(device: str, reasons: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return reasons as notes about a program on a device."""
    lead = f"{device} runs the program node by node, which is slower"
    return tuple(replace(reason, message=f"{lead}: {reason.message}", severity=Severity.NOTE) for reason in reasons)


def before_plan(resolved: ResolvedGraph, *, state: bool, fits: bool) -> Diagnostic | None:
    """Return why no plan of a program is run.

    Args:
        state: whether the device runs programs that keep state.
        fits: whether it runs node by node whatever it cannot run whole (`DeviceSpec.fitting_programs`).
    """
    if resolved.refused:
        return replace(next(iter(resolved.refused.values())), code=CODE, related=())
    if resolved.placed:
        number, other = min(resolved.placed.items())
        block, node = next((block, node) for block, node in resolved.graph.nodes() if node.index == number)
        hint = "`openinfer ops --coverage` shows what the device runs itself"
        return _at(f"this operator runs on {other}", block.name, node, hint)
    if fits and is_concurrent(resolved.graph):
        return Diagnostic(code=CODE, message="it hands variables over to consumers with `yield`")
    keeps = keeps_state(resolved)
    if not state or not (keeps or fits):
        return None
    reset = next(((block, node) for block, node in resolved.graph.nodes() if _resets_entries(node)), None)
    if keeps and reset is not None:
        block, node = reset
        message = "which entries of a cache are there depends on resets of single ones"
        return _at(message, block.name, node, "reset the whole cache")
    written = sorted(n for n in written_names(resolved) if resolved.variables[n].storage is Storage.DYNAMIC)
    if written:
        message = f"it writes the dynamic variable `{written[0]}`, which can be fetched after it"
        return Diagnostic(code=CODE, message=message, hint="write to a volatile variable")
    return None


def after_plan(resolved: ResolvedGraph, plan: ExecutionPlan, *, state: bool) -> Diagnostic | None:
    """Return why a program is not run as its plan says.

    Args:
        state: whether the device runs it as a program that may keep state, whose results may have other shapes in
            each step.
    """
    shared = sorted({port.name for port in plan.inputs} & {port.name for port in plan.outputs})
    if shared:
        message = f"it returns its input `{shared[0]}`"
        return Diagnostic(code=CODE, message=message, hint="return a copy: `op identity`")
    nodes = resolved.graph.blocks["entry"].nodes
    returns = [node for node in walk(nodes) if isinstance(node.kind, Return)]
    if not returns or nodes[-1] is not returns[-1]:
        hint = "end block entry with `return NAME;`"
        return Diagnostic(code=CODE, message="block entry does not end with a return", hint=hint)
    if len(returns) > 1:
        return _at("which return is taken is known from the nodes only", "entry", returns[0])
    varying = next((port.name for port in plan.outputs if takes_shape(port, plan, resolved.variables)), None)
    if varying is not None and not state:
        return Diagnostic(code=CODE, message=f"the shape of `{varying}` is known at run time only")
    return None


def takes_shape(port: PlanOutput, plan: ExecutionPlan, variables: Mapping[str, ResolvedVar]) -> bool:
    """Whether a step gives a result another shape than the buffer of its variable has, be it the same in every step.

    Variables have their types at the sizes of the step, and a plan for many sizes has the largest ones.
    """
    if plan.given_sizes:
        return variables[port.name].varying
    return port.extents is not None or port.type != variables[port.name].type


def _resets_entries(node: Node) -> bool:
    return isinstance(node.kind, CacheReset) and bool(node.kind.target.slots)


def _at(message: str, block: str, node: Node, hint: str | None = None) -> Diagnostic:
    return of_node(Diagnostic(code=CODE, message=message, span=node.span, hint=hint), block, node)
