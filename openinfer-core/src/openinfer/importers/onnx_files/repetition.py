"""Finds repeated layers: runs of calls that do the same to other weights, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.values import Cache, Value

if TYPE_CHECKING:
    from collections.abc import Hashable

    from openinfer.importers.onnx_files.values import Call, Program, Setting

LEAST_LAYERS = 3
"""Fewest layers that become a loop."""

LEAST_CALLS = 3
"""Fewest calls of a layer that becomes the body of a loop."""

MOST_CALLS = 20_000
"""Longest program that is searched; longer ones stay flat."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A run of layers.

    Attributes:
        start: place of the first call.
        period: calls of a layer.
        count: layers.
        weights: for each weight or cache that the first layer reads those of all layers, by identity of the first.
        carried: for each value that a layer takes from the one before: what the first layer reads, by the place within
            the layer of the call and its result that write it.
    """

    start: int
    period: int
    count: int
    weights: Mapping[int, tuple[Value, ...]]
    carried: Mapping[tuple[int, int], Value]

    @property
    def end(self) -> int:
        return self.start + self.period * self.count


def repetition(program: Program) -> Repetition | None:
    """Return the run of layers that covers most of a program; None where there is none."""
    if len(program.calls) > MOST_CALLS:
        return None
    signatures = _numbered([_signature(call) for call in program.calls])
    for start, period, count in sorted(runs(signatures), key=lambda c: (-c[1] * c[2], c[1])):
        found = _best(program, signatures, start, period, count)
        if found is not None:
            return found
    return None


def _numbered(signatures: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(signature, len(numbers)) for signature in signatures]


def _signature(call: Call) -> Hashable:
    inputs = tuple(None if value is None else (*_type(value), value.is_known) for value in call.inputs)
    settings = tuple(sorted((name, _plain(value)) for name, value in call.settings.items()))
    return (call.op, inputs, settings, tuple(map(_type, call.outputs)), call.declared)


def _type(value: Value) -> tuple[str, str]:
    return value.dtype.name, str(value.dims)


def _plain(setting: Setting) -> str:
    return "value" if isinstance(setting, Value) else f"{type(setting).__name__} {setting!r}"


def runs(signatures: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield starts, periods and counts of runs in which every call equals the one a period later."""
    numbers = np.asarray(signatures)
    for period in range(LEAST_CALLS, len(numbers) // LEAST_LAYERS + 1):
        same = np.zeros(len(numbers) - period + 2, np.int8)
        same[1:-1] = numbers[:-period] == numbers[period:]
        changes = np.diff(same)
        starts, ends = np.flatnonzero(changes == 1), np.flatnonzero(changes == -1)
        long = ends - starts >= period * (LEAST_LAYERS - 1)
        for start, end in zip(starts[long].tolist()[::-1], ends[long].tolist()[::-1], strict=True):
            yield start, period, (end - start) // period + 1


def _best(program: Program, signatures: Sequence[int], start: int, period: int, count: int) -> Repetition | None:
    """Return the part of a run with the most layers, and of its rotations that which hands on the least."""
    best: Repetition | None = None
    for shift in range(period * (count - LEAST_LAYERS + 1)):
        if best is not None and shift >= period:
            break
        most = min(count, (len(program.calls) - start - shift) // period)
        for layers in range(most, LEAST_LAYERS - 1, -1):
            found = _aligned(program, signatures, start + shift, period, layers)
            if found is not None:
                best = found if best is None or _rank(found) < _rank(best) else best
                break
    return best


def _rank(found: Repetition) -> tuple[int, int, int]:
    # Of two loops alike, that whose layers hand on integers of 8 bits is better than one that hands on their sums.
    return (-found.count, len(found.carried), sum(value.dtype.bits for value in found.carried.values()))


def _aligned(program: Program, signatures: Sequence[int], start: int, period: int, count: int) -> Repetition | None:
    """Return the layers from a place on, if each reads what the first reads, of its own or of the layer before."""
    calls = program.calls
    places = {
        id(value): (place, result)
        for place in range(start, start + period * count)
        for result, value in enumerate(calls[place].outputs)
    }
    weights: dict[int, tuple[Value, ...]] = {}
    carried: dict[tuple[int, int], Value] = {}
    same: set[int] = set()
    for offset in range(period):
        layers = [calls[start + layer * period + offset] for layer in range(count)]
        if len({signatures[start + layer * period + offset] for layer in range(count)}) > 1:
            return None
        for values in zip(*(list(call.reads()) for call in layers), strict=True):
            if not _fits(values, places, start, period, weights, carried):
                return None
            if all(value is values[0] for value in values):
                same.add(id(values[0]))
    starts = {id(value) for value in carried.values()}
    if len(starts) < len(carried) or (starts | weights.keys()) & same:
        # One value would be two variables of the body, or a table and a constant.
        return None
    found = Repetition(start, period, count, weights, carried)
    return found if carried and _is_closed(program, found) else None


def _fits(
    values: Sequence[Value],
    places: Mapping[int, tuple[int, int]],
    start: int,
    period: int,
    weights: dict[int, tuple[Value, ...]],
    carried: dict[tuple[int, int], Value],
) -> bool:
    """Take in what the layers read at one place; return whether a loop can read it."""
    first, second = values[0], values[1]
    if all(value is first for value in values):
        return id(first) not in places
    if first.is_known or isinstance(first, Cache):
        if not all(_is_alike(value, first) for value in values):
            return False
        return weights.setdefault(id(first), tuple(values)) == tuple(values)
    written = [places.get(id(value)) for value in values]
    if written[1] is None or second.is_known:
        return False
    offset = written[1][0] - start - period
    layer_offset, result = (offset if offset >= 0 else offset + period), written[1][1]
    expected = [
        (start + (layer + (offset >= 0) - 1) * period + layer_offset, result) for layer in range(1, len(values))
    ]
    if written[1:] != expected:
        return False
    if offset >= 0:
        return written[0] == (start + layer_offset, result)
    return written[0] is None and carried.setdefault((layer_offset, result), first) is first


def _is_alike(value: Value, first: Value) -> bool:
    """Whether one table may hold two weights or two caches."""
    if isinstance(first, Cache):
        same = isinstance(value, Cache) and (value.axis, value.length) == (first.axis, first.length)
        if not same:
            return False
    return value.is_known == first.is_known and value.dims == first.dims and value.dtype is first.dtype


def _is_closed(program: Program, found: Repetition) -> bool:
    """Whether calls after the layers read only what the last layer hands on."""
    inside = {
        id(value): (place, result)
        for place in range(found.start, found.end)
        for result, value in enumerate(program.calls[place].outputs)
    }
    last = found.end - found.period
    for value in _read_after(program, found.end):
        place = inside.get(id(value))
        if place is not None and (place[0] - last, place[1]) not in found.carried:
            return False
    return True


def _read_after(program: Program, end: int) -> Iterator[Value]:
    for call in program.calls[end:]:
        yield from call.reads()
    for _, value in program.outputs:
        yield value
