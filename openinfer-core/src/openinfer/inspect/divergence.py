"""Compares two executors node by node, and finds where their values first differ."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import Diagnostic, summary
from openinfer.errors import ExecutionError
from openinfer.inspect.differences import Difference, difference, hollow
from openinfer.ir.nodes import Await, Op
from openinfer.simulate.devices.opening import Device
from openinfer.simulate.execute.touched import fetched, outputs_of
from openinfer.tolerances import BETWEEN_DEVICES, EXACT, Tolerance, widened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.events import TraceEvent
    from openinfer.ir.nodes import Node
    from openinfer.simulate.execute.executor import Executor
    from openinfer.simulate.execute.node_run import NodeRun
    from openinfer.simulate.values import Tensor

DOUBLED = (Device.VULKAN,)
"""Devices for which the tolerances of the table are twice as wide (``specification: dtypes.drift``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Where two devices first differ.

    Attributes:
        step: number of the step, from 1.
        event, node: the node after which they differ, as the reference ran it; None at the end of a step.
        variable: the value that differs; ``""`` where the devices run different statements.
        difference: how far; None where types or shapes differ, or the devices run different statements.
        reason: one line that says what differs.
    """

    step: int
    event: TraceEvent | None
    node: Node | None
    variable: str
    difference: Difference | None
    reason: str
    hint: str | None = None

    def finding(self) -> Diagnostic:
        """Return the divergence as a finding, with its place in the text where there is one."""
        after = f" after `{self.event.node_desc}`" if self.event is not None and self.variable else ""
        ended = " at the end of the step" if self.event is None else ""
        step = f" in step {self.step}" if self.step > 1 else ""
        return Diagnostic(
            code="divergence",
            message=f"{self.reason}{after}{ended}{step}",
            span=None if self.node is None else self.node.span,
            hint=self.hint,
            block=None if self.event is None else self.event.block_name,
            node_index=None if self.event is None else self.event.node_index,
            node_desc=None if self.event is None else self.event.node_desc,
        )


@dataclass(slots=True)
class Largest:
    """Largest differences of the values that one operator or kind of statement wrote, within the tolerance or not."""

    nodes: int = 0
    absolute: float = 0.0
    relative: float = 0.0
    ulps: int | None = 0

    def add(self, found: Difference) -> None:
        self.nodes += 1
        self.absolute = max(self.absolute, found.absolute)
        self.relative = max(self.relative, found.relative)
        self.ulps = None if self.ulps is None or found.ulps is None else max(self.ulps, found.ulps)


@dataclass(slots=True, kw_only=True)
class Comparison:
    """What was found between two devices.

    Attributes:
        reference, device: their names.
        steps: steps that were begun.
        nodes: nodes after which values were compared.
        largest: by operator or kind of statement.
        divergence: where they first differ beyond the tolerance; None if nowhere.
        hollow: why results that are the same say little, by name: they are empty, zero, or not finite.
    """

    reference: str
    device: str
    steps: int = 0
    nodes: int = 0
    largest: dict[str, Largest] = field(default_factory=dict[str, Largest])
    divergence: Divergence | None = None
    hollow: dict[str, str] = field(default_factory=dict[str, str])


def check_comparisons(comparisons: Iterable[Comparison]) -> None:
    """Check that devices agree.

    Raises:
        ExecutionError: ``divergence``, with a finding for every device that differs from the reference.
    """
    apart = [each.divergence.finding() for each in comparisons if each.divergence is not None]
    if apart:
        raise ExecutionError(summary(apart), diagnostics=apart)


class Tolerances:
    """The tolerance for each element type.

    Args:
        overrides: by name of the element type; ``""`` for all floats.
    """

    def __init__(self, devices: Iterable[str], overrides: Mapping[str, Tolerance] | None = None) -> None:
        doubled = any(name.partition(":")[0] in DOUBLED for name in devices)
        table = {name: tolerance.times(2 if doubled else 1) for name, tolerance in BETWEEN_DEVICES.items()}
        self._table = widened(table, overrides or {})

    def of(self, dtype: str) -> Tolerance:
        """Return the tolerance of an element type."""
        return self._table.get(dtype, EXACT)


def compare_executors(
    pair: tuple[Executor, Executor],
    names: tuple[str, str],
    inputs: Iterable[Mapping[str, Any]],
    tolerances: Tolerances | None = None,
) -> Comparison:
    """Run two executors of one program in step with each other, and compare every value that a node writes.

    It stops where they first differ beyond the tolerance. Nodes of consumer blocks are compared as they run, and again
    what ``entry`` takes back; all that the program writes, at the end of every step.

    Args:
        pair: the reference, and what is compared with it.
        names: of both devices.
        inputs: values for each step.
        tolerances: by default those of the element types for these devices.

    Raises:
        ExecutionError: a step failed on one of them.
    """
    found = Comparison(reference=names[0], device=names[1])
    for number, values in enumerate(inputs, start=1):
        found.steps = number
        for executor in pair:
            executor.insert(values)
        found.divergence = _step(pair, found, tolerances or Tolerances(names))
        if found.divergence is not None:
            break
    return found


def _step(pair: tuple[Executor, Executor], found: Comparison, tolerances: Tolerances) -> Divergence | None:
    nodes = {node.index: node for _, node in pair[0].program.graph.nodes()}
    with ExitStack() as stack:
        both: list[Iterator[NodeRun]] = [stack.enter_context(closing(each.iterate(consumers=True))) for each in pair]  # type: ignore[type-var]
        for left, right in zip_longest(*(_statements(runs, nodes) for runs in both)):
            one = None if left is None else left.event
            other = None if right is None else right.event
            if one is None or other is None or (one.block_name, one.node_index) != (other.block_name, other.node_index):
                node = None if one is None else nodes[one.node_index]
                return _other_way(found, one, other, node)
            found.nodes += 1
            node = nodes[one.node_index]
            names = node.kind.names if isinstance(node.kind, Await) else outputs_of(one, node)
            apart = _compared(pair, names, found, tolerances, one, node)
            if apart is not None:
                return apart
    written, outputs = pair[0].written(), tuple(pair[0].outputs())
    for name in outputs or written:
        reason = hollow(pair[0].result(name))
        if reason is not None:
            found.hollow[name] = reason + (f" in step {found.steps}" if found.steps > 1 else "")
    return _compared(pair, (*written, *outputs), found, tolerances, None, None)


def _statements(runs: Iterator[NodeRun], nodes: Mapping[int, Node]) -> Iterator[NodeRun]:
    """Yield what statements do, without the transfers of operators that run on another device than their program."""
    for run in runs:
        if run.event.kind != "Transfer" or not isinstance(nodes[run.event.node_index].kind, Op):
            yield run


def _compared(
    pair: tuple[Executor, Executor],
    names: Sequence[str],
    found: Comparison,
    tolerances: Tolerances,
    event: TraceEvent | None,
    node: Node | None,
) -> Divergence | None:
    """Compare values by name; note the largest differences, and return where they are beyond the tolerance."""
    both = [dict(fetched(each.fetch_raw, dict.fromkeys(names))) for each in pair]
    for name, expected in both[0].items():
        other = both[1].get(name)
        if other is None or (other.dtype, other.shape) != (expected.dtype, expected.shape):
            return Divergence(
                step=found.steps,
                event=event,
                node=node,
                variable=name,
                difference=None,
                reason=_types(name, expected, other, found),
            )
        apart = difference(expected, other, tolerances.of(expected.dtype.name))
        if event is not None:
            found.largest.setdefault(event.op_name or event.kind, Largest()).add(apart)
        if not apart.is_within:
            return Divergence(
                step=found.steps,
                event=event,
                node=node,
                variable=name,
                difference=apart,
                reason=f"`{name}` differs between {found.reference} and {found.device}",
                hint=_numbers(name, apart, found),
            )
    return None


def _numbers(name: str, apart: Difference, found: Comparison) -> str:
    """Return the element with the largest error, and statistics of the differences."""
    place = f"{name}[{', '.join(map(str, apart.where))}]" if apart.where else name
    values = f"{place} is {_shown(apart.expected)} on {found.reference}, {_shown(apart.found)} on {found.device}"
    ulps = "" if apart.ulps is None else f", max ulp {apart.ulps:,}"
    largest = f"max abs {apart.absolute:.6g}, max rel {apart.relative:.6g}{ulps}"
    return f"{values}; {apart.beyond} of {apart.elements} elements are beyond tolerance; {largest}"


def _shown(value: float | bool | None) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _types(name: str, expected: Tensor, other: Tensor | None, found: Comparison) -> str:
    if other is None:
        return f"`{name}` has a value on {found.reference} and none on {found.device}"
    texts = [f"{each.dtype}{list(each.shape)}" for each in (expected, other)]
    return f"`{name}` is {texts[0]} on {found.reference} and {texts[1]} on {found.device}"


def _other_way(found: Comparison, one: TraceEvent | None, other: TraceEvent | None, node: Node | None) -> Divergence:
    """Return that two devices run different statements: a condition or bound differs between them."""
    ways = ["the end of the step" if each is None else f"`{each.node_desc}`" for each in (one, other)]
    reason = f"{found.reference} comes to {ways[0]}, {found.device} to {ways[1]}: a condition or a bound differs"
    return Divergence(step=found.steps, event=one, node=node, variable="", difference=None, reason=reason)
