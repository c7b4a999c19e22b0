"""`If`, `Loop` and `Scan` as branches and loops of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias

from openinfer.dtypes import BOOL, I64
from openinfer.importers.onnx_files.branches import Side
from openinfer.importers.onnx_files.loops import Carried, Loop, needed
from openinfer.importers.onnx_files.node import NeedsValueError, Node
from openinfer.importers.onnx_files.sizes import is_number, names_of
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dims import Dim, Size
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.emitter import Emitter
    from openinfer.importers.onnx_files.source import SourceGraph, TensorInfo
    from openinfer.importers.onnx_files.values import Call, Setting

Scope: TypeAlias = "dict[str, Value]"

Translate: TypeAlias = "Callable[[SourceGraph, Scope], bool]"
"""Translates a graph into the calls being made; adds its values to the scope, returns whether all nodes could be."""

MOST_TURNS = 1 << 16
"""Iterations of the longest loop that a condition may end early: those that are left are counted through."""

LARGEST_COUNT = (
    f"give the node its first input (M) in the model: a constant up to {MOST_TURNS}, or an INT64 input of the graph, "
    "which --set fixes or each step gives"
)

ROWS_OF_A_CONDITION = (
    "results with a row for each turn, whose number a condition of the running program decides; hand on a state of the "
    "largest size that turns write their rows to, and the number of turns"
)

SCAN_WITHOUT_BATCH = 9
"""Opset from which on Scan has no dim for the batch."""


def control_flow(node: Node, scope: Mapping[str, Value], translate: Translate) -> Sequence[Value] | None:
    """Return the results of a node with graphs inside; None where a node of theirs cannot be translated."""
    return {"If": _if, "Loop": _loop, "Scan": _scan}[node.op](node, scope, translate)


# If


def _if(node: Node, scope: Mapping[str, Value], translate: Translate) -> Sequence[Value] | None:
    condition = node.given(0)
    if condition.dims and any(dim != 1 for dim in condition.dims):
        node.refuse("its condition has several elements, expected one")
    sides: list[Side] = []
    for attribute, name in (("then_branch", "when_true"), ("else_branch", "when_false")):
        body = node.get(attribute)
        inner = dict(scope)
        with node.emit.side() as calls:
            if not translate(body, inner):
                raise NeedsValueError(node.source, 0)
            results = [node.emit.materialised(inner[info.name]) for info in body.outputs]
        sides.append(Side(name, calls, results))
    then, otherwise = sides
    alike = [(a.dtype, a.dims) == (b.dtype, b.dims) for a, b in zip(then.results, otherwise.results, strict=True)]
    if not all(alike):
        # Which shape leaves it depends on the condition.
        raise NeedsValueError(node.source, 0)
    return node.emit.branch(condition, then, otherwise)


# Loop


def _loop(node: Node, scope: Mapping[str, Value], translate: Translate) -> Sequence[Value] | None:
    body: SourceGraph = node.get("body")
    initial = [node.emit.materialised(node.given(position)) for position in range(2, len(node.inputs))]
    condition = node.input(1)
    if condition is not None and condition.is_known and not bool(condition.array().reshape(-1)[0]):
        return _counted(node, body, 0, initial, scope, translate)
    is_counted = _condition_stays(body) and (condition is None or condition.is_known)
    count = _count(node, is_counted=is_counted)
    results = len(body.outputs) - 1 - len(initial)
    if not is_counted and results:
        node.refuse(ROWS_OF_A_CONDITION)
    if is_counted:
        return _counted(node, body, count, initial, scope, translate)
    return _while(node, body, count, initial, scope, translate)


def _condition_stays(body: SourceGraph) -> bool:
    """Whether the condition that a body gives is the one it takes, or always true."""
    name = body.outputs[0].name
    writers = {output: inner for inner in body.nodes for output in inner.outputs}
    while name in writers and writers[name].op in ("Identity", "Cast"):
        name = writers[name].inputs[0]
    if name == body.inputs[1].name:
        return True
    made = writers[name].attributes.get("value") if name in writers and writers[name].op == "Constant" else None
    payload = body.payloads.get(name) or made
    return payload is not None and bool(payload.load().reshape(-1)[0])


def _count(node: Node, *, is_counted: bool) -> Size | Value:
    """Return the maximum number of iterations."""
    given = node.input(0)
    if given is None:
        node.refuse(f"no largest number of turns; {LARGEST_COUNT}")
    found = given.integers()
    if found is None:
        if given.dtype is not I64:
            node.refuse(f"its number of turns is {given.dtype}, expected i64")
        return given if not given.dims else node.call("reshape", given, shape=())
    if not is_counted and is_number(found[0]) and found[0] > MOST_TURNS:
        reason = f"up to {found[0]} turns until a condition ends them, expected at most {MOST_TURNS}"
        node.refuse(f"{reason}; {LARGEST_COUNT}")
    return max(found[0], 0) if isinstance(found[0], int) else found[0]


def _counted(
    node: Node,
    body: SourceGraph,
    count: Size | Value,
    initial: list[Value],
    scope: Mapping[str, Value],
    translate: Translate,
) -> Sequence[Value] | None:
    """Return the results of turns that no condition ends."""
    needs_counter = _has_branches(body)
    given = [node.number(0, I64), *initial] if needs_counter else initial

    def turn(index: Dim, taken: list[Value]) -> tuple[list[Value], list[Row]] | None:
        number = taken[0] if needs_counter else Value("", I64, (), elements=(index,))
        inner = dict(scope)
        inner[body.inputs[0].name] = number
        inner[body.inputs[1].name] = node.number(True, BOOL)
        inner |= _named(body.inputs[2:], taken[1:] if needs_counter else taken)
        if not translate(body, inner):
            return None
        made = [inner[info.name] for info in body.outputs[1:]]
        states, rows = made[: len(initial)], made[len(initial) :]
        if needs_counter:
            states = [node.call("add", number, node.number(1, I64)), *states]
        return states, [Row(row) for row in rows]

    found = turns(node, count, given, len(body.outputs) - 1 - len(initial), turn, node.source.title)
    return None if found is None else found[1:] if needs_counter else found


def _while(
    node: Node,
    body: SourceGraph,
    count: Size | Value,
    initial: list[Value],
    scope: Mapping[str, Value],
    translate: Translate,
) -> Sequence[Value] | None:
    """Return the results of turns that a condition ends: the rest of them change nothing."""
    condition = node.input(1) or node.number(True, BOOL)
    given = [node.reshaped(condition, ()), node.number(0, I64), *initial]

    def turn(_index: Dim, taken: list[Value]) -> tuple[list[Value], list[Row]] | None:
        inner = dict(scope) | _named([body.inputs[1], body.inputs[0], *body.inputs[2:]], taken)
        with node.emit.side() as calls:
            if not translate(body, inner):
                return None
            goes_on = node.reshaped(inner[body.outputs[0].name], ())
            made = [goes_on, node.call("add", taken[1], node.number(1, I64))]
            made += [node.emit.materialised(inner[info.name]) for info in body.outputs[1:]]
        _check_states(node, taken, made)
        sides = Side("turn", calls, made), Side("turns_ended", [], list(taken))
        return list(node.emit.branch(taken[0], *sides)), []

    found = turns(node, count, given, 0, turn, node.source.title)
    return None if found is None else found[2:]


def _has_branches(body: SourceGraph) -> bool:
    """Whether blocks of a body could read the number of the turn, which only the loop's own statements may."""
    return any(inner.op in ("If", "Loop", "Scan") for inner in body.nodes)


def _named(infos: Sequence[TensorInfo], values: Sequence[Value]) -> Scope:
    return {info.name: value for info, value in zip(infos, values, strict=True)}


# Scan


def _scan(node: Node, scope: Mapping[str, Value], translate: Translate) -> Sequence[Value] | None:
    if node.opset < SCAN_WITHOUT_BATCH:
        node.refuse(f"opset {node.opset}, whose Scan has a dim for the batch: export with opset 9 or later")
    body: SourceGraph = node.get("body")
    many = int(node.get("num_scan_inputs"))
    states = [node.emit.materialised(node.given(place)) for place in range(len(node.inputs) - many)]
    scanned = [node.given(len(states) + place) for place in range(many)]
    axes = [int(axis) % x.rank for axis, x in zip(node.get("scan_input_axes", [0] * many), scanned, strict=True)]
    backward = node.get("scan_input_directions", [0] * many)
    results = len(body.outputs) - len(states)
    out_axes = node.get("scan_output_axes", [0] * results)
    out_backward = node.get("scan_output_directions", [0] * results)
    count = scanned[0].dims[axes[0]]

    def turn(index: Dim, taken: list[Value]) -> tuple[list[Value], list[Row]] | None:
        elements = [
            node.call("select", x, axis=axis, index=_place(index, count, is_backward=bool(reverse)))
            for x, axis, reverse in zip(scanned, axes, backward, strict=True)
        ]
        inner = dict(scope) | _named(body.inputs, [*taken, *elements])
        if not translate(body, inner):
            return None
        made = [inner[info.name] for info in body.outputs]
        rows = [Row(row, bool(reverse)) for row, reverse in zip(made[len(states) :], out_backward, strict=True)]
        return made[: len(states)], rows

    found = turns(node, count, states, results, turn, node.source.title)
    if found is None:
        return None
    sequences = [_moved(node, x, int(axis)) for x, axis in zip(found[len(states) :], out_axes, strict=True)]
    return [*found[: len(states)], *sequences]


def _place(index: Dim, count: Size, *, is_backward: bool) -> Size:
    if not is_backward:
        return index
    return count - 1 - index


def _moved(node: Node, sequence: Value, axis: int) -> Value:
    """Return a sequence whose first dim is at another place."""
    if not axis % sequence.rank:
        return sequence
    rest = list(range(1, sequence.rank))
    rest.insert(axis % sequence.rank, 0)
    return node.call("transpose", sequence, perm=tuple(rest))


# Turns


@dataclass(frozen=True, slots=True)
class Row:
    """What each turn adds to a sequence, from its end where it is backward."""

    value: Value
    is_backward: bool = False


Turn: TypeAlias = "Callable[[Dim, list[Value]], tuple[list[Value], list[Row]] | None]"
"""From the number of a turn and the states it takes to those it hands on, and rows; None where a node fails."""


class Writer(Protocol):
    """What writes calls for a node of a model."""

    @property
    def emit(self) -> Emitter: ...

    def call(self, op: str, *inputs: Value | None, **settings: Setting) -> Value: ...

    def number(self, value: float | bool, dtype: DType) -> Value: ...

    def refuse(self, reason: str) -> NoReturn: ...


def turns(
    node: Writer, count: Size | Value, initial: list[Value], results: int, turn: Turn, title: str
) -> list[Value] | None:
    """Return the states that the last turn hands on, and the rows of all turns; None where a node of theirs fails.

    Args:
        results: how many rows each turn adds.
        title: what a comment says of the loop.
    """
    if isinstance(count, Value) and results:
        node.refuse("rows for each turn, whose number only the running program knows, expected a number or a size")
    if count == 0:
        return _no_turns(node, initial, turn)
    emit = node.emit
    dim = 0 if isinstance(count, Value) else count
    taken = [Value("", state.dtype, state.dims) for state in initial]
    collected: list[Value] = []
    filled: list[Value] = []
    with emit.body(None if isinstance(count, Value) else count) as (index, calls):
        made = turn(index, taken)
        if made is None:
            return None
        states = [emit.materialised(state) for state in made[0]]
        _check_states(node, taken, states)
        for row in made[1]:
            value = emit.materialised(row.value)
            filled.append(Value("", value.dtype, (dim, *value.dims)))
            collected.append(emit.with_row(filled[-1], _place(index, dim, is_backward=row.is_backward), value))
        written = [*_apart(node, list(calls), states), *collected]
        if any(str(index) in names_of(*value.dims) for call in calls for value in call.outputs):
            node.refuse("shapes that differ from turn to turn")
        calls[:] = needed(calls, written)
    rows = [node.call("expand", node.number(0, value.dtype), shape=value.dims) for value in filled]
    after = [Value("", value.dtype, value.dims) for value in written]
    stems = [f"state{place or ''}" for place in range(len(states))] + ["rows"] * len(rows)
    carried = [Carried(*each) for each in zip([*initial, *rows], [*taken, *filled], written, after, stems, strict=True)]
    emit.loop(Loop("turns", str(index), calls, count, carried, title=title))
    return after


def _no_turns(node: Writer, initial: list[Value], turn: Turn) -> list[Value] | None:
    """Return states as they are, and sequences without rows, whose types are those of the rows of a turn."""
    with node.emit.body() as (index, _):
        made = turn(index, [Value("", state.dtype, state.dims) for state in initial])
    if made is None:
        return None
    rows = [row.value for row in made[1]]
    if any(str(index) in names_of(*row.dims) for row in rows):
        node.refuse("shapes that differ from turn to turn")
    empty = [node.call("expand", node.number(0, row.dtype), shape=(0, *row.dims)) for row in rows]
    return [*initial, *empty]


def _check_states(node: Writer, taken: Sequence[Value], made: Sequence[Value]) -> None:
    for before, after in zip(taken, made, strict=True):
        if (before.dtype, before.dims) != (after.dtype, after.dims):
            node.refuse("a state whose type or shape changes from turn to turn")


def _apart(node: Writer, calls: Sequence[Call], states: Sequence[Value]) -> list[Value]:
    """Return states each of which calls of the turn make, for it alone."""
    made = [value for call in calls for value in call.outputs]
    found: list[Value] = []
    for state in states:
        is_own = any(state is value for value in made) and not any(state is other for other in found)
        found.append(state if is_own else node.call("identity", state))
    return found
