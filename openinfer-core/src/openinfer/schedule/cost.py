"""What a tile costs: cycles and registers, from the number of different elements that its copies read.

A body of a tile takes as long as the slowest of four: its arithmetic, its loads, the chain of additions into one total,
and what comes from the second cache: weights, because what the tiles before have read of them filled the first, and
images that do not fit the first. Lines of an image whose distances are large powers of two push out one another even
where the first cache has room for more of them: then every load of them comes from the second one.

What does not even fit the second cache is fetched ahead: weights as long as a tile walks along few places of its images
at a time, images as far as a tile is not wide. Other tiles wait for what they read for the first time; the tiles after
them find it nearer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import ceil, gcd, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from openinfer.affine import Index, Var
    from openinfer.arch import TargetInfo

LATENCY = 4
"""Cycles until the result of an addition may be added to."""

FAR_LINE = 2.0
"""Cycles for a line of 64 bytes from the second cache."""

PAST_LINE = 2.0
"""Cycles that a line of weights from past the second cache takes in addition where it is not fetched ahead."""

STREAMS = 8
"""How many sequences of addresses a processor follows to fetch their next lines ahead."""

NEXT = 4
"""How many places of a row of an image are fetched ahead."""

STREAMED_NEAR, STREAMED_FAR = 1.0, 2.5
"""Cycles for a line of 64 bytes that is read or written in passing: in the second cache, and past it."""

STEPPING = 3.0
"""Instructions of a core without vectors that move two addresses, and return to the begin of a loop."""

AGAIN = 0.5
"""Cycles for another iteration of a serial loop."""

GATHERED = 4.0
"""Loads that take as long as one element that lies apart from those of other lanes: it passes through memory, and the
load of the whole vector waits for its stores."""

FULL = 0.7
"""Share of the first cache that weights can have."""

WAYS = 8
"""Lines of the first cache whose addresses may differ by multiples of a way: an eighth of its size."""

AHEAD = 6
"""One of so many registers holds a number of a stream before it is used."""

STORING = 3
"""Registers in addition to the totals while results are stored: a bias, a constant to compare with, and the result."""

STARTED = 8.0
"""Cycles to begin and end a tile, in which nothing overlaps."""


class Operand:
    """What the terms of a fold read.

    Attributes:
        number: that of the element.
        lane_step: how far neighbouring lanes lie apart in the buffer; None: they are loaded one by one.
        is_packed: whether its elements lie in the order in which they are read.
        size: how many elements its buffer has, where it is not packed.
        loads: how many load one of its registers: the bytes of a word.
        pitch: elements of which the distances between the places that are read are multiples; 0: not known.
    """

    def __init__(
        self,
        number: int,
        at: Sequence[Index],
        lane_step: int | None,
        *,
        is_packed: bool,
        size: int = 0,
        loads: int = 1,
        pitch: int = 0,
    ) -> None:
        self.number = number
        self.lane_step = lane_step
        self.is_packed = is_packed
        self.size = size
        self.loads = loads
        self.pitch = pitch
        dims = self._dims = [[(axis, slope) for axis in i.variables() if (slope := i.coefficient(axis))] for i in at]
        # Copies along the only axis of a dimension read one element each.
        self._alone = [dim[0][0] for dim in dims if len(dim) == 1]
        self._together = [dim for dim in dims if len(dim) > 1]
        self._axes = {axis for index in at for axis in index.variables()}
        self._known: dict[tuple[tuple[int, int], ...], int] = {}

    def distinct(self, counts: Mapping[Var, tuple[int, int]]) -> int:
        """Return how many different elements copies read; ``counts`` has their number and distance for each axis."""
        total = 1
        for axis in self._alone:
            count = counts.get(axis)
            if count is not None:
                total *= count[0]
        for dim in self._together:
            every = [(counts.get(axis), slope) for axis, slope in dim]
            key = tuple([(count[0], slope * count[1]) for count, slope in every if count is not None])
            if len(key) < 2:
                total *= key[0][0] if key else 1
                continue
            if key not in self._known:
                reached = {0}
                for count, step in key:
                    reached = {offset + step * copy for offset in reached for copy in range(count)}
                self._known[key] = len(reached)
            total *= self._known[key]
        return total

    def steps_on(self, counts: Mapping[Var, int], others: Set[Var]) -> int:
        """Return how many places a tile lies after the one before it along a row: the last axis that is not of others.

        ``counts`` has the number of copies for each axis.
        """
        for dim in reversed(self._dims):
            for axis, slope in dim:
                if axis not in others:
                    return max(1, abs(slope) * counts.get(axis, 1))
        return 1

    def varies(self, axis: Var) -> bool:
        return axis in self._axes


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the places of a fold are cut into tiles.

    Attributes:
        lane: the axis in lanes, with ``lanes`` of them.
        tile: copies along each axis that is not folded; vector registers along the axis in lanes.
        taps: copies along folded axes, which are written out.
        parts: partial totals along folded axes.
        stream: number of the element that passes by.
        walked: share of the iterations over folded axes that are not left out.
        kept: share of the terms of the other iterations that are not left out.
        parts_of: how many places lie at each border of an axis and between them, where these have tiles of their own.
    """

    lane: Var
    lanes: int
    tile: Mapping[Var, int]
    taps: Mapping[Var, int]
    parts: Mapping[Var, int]
    stream: int | None
    walked: float = 1.0
    kept: float = 1.0
    parts_of: Mapping[Var, Sequence[int]] = field(default_factory=dict["Var", "Sequence[int]"])

    @property
    def accumulators(self) -> int:
        return prod(self.tile.values()) * prod(self.parts.values())

    @property
    def statements(self) -> int:
        return self.accumulators * prod(self.taps.values())

    def counts(self, *copies: Mapping[Var, int]) -> dict[Var, tuple[int, int]]:
        """Return the number of copies and their distance along each axis."""
        lane = self.lane.name
        return {
            axis: (count, self.lanes if axis.name == lane else 1)
            for counted in copies
            for axis, count in counted.items()
        }


@dataclass(frozen=True)
class Work:
    """What the terms of a fold do at one place: its reads, and how many vector instructions the rest takes.

    Attributes:
        lane: the axis in lanes.
        itemsize: bytes of an element in a lane.
        totals: how many totals advance together.
        width: registers that an element of an operand takes.
    """

    lane: Var
    operands: Sequence[Operand]
    instructions: int
    extents: Mapping[Var, int]
    folded: Sequence[Var]
    itemsize: int
    totals: int = 1
    width: int = 1

    @cached_property
    def terms(self) -> int:
        """How many terms a place has."""
        return prod(self.extents[axis] for axis in self.folded)

    @cached_property
    def sizes(self) -> Mapping[int, tuple[int, int]]:
        """By number of an operand, how many elements it has, and how often each of them is read."""
        return {
            operand.number: (
                prod(extent for axis, extent in self.extents.items() if operand.varies(axis)),
                prod(extent for axis, extent in self.extents.items() if not operand.varies(axis)),
            )
            for operand in self.operands
        }


def registers(work: Work, tiling: Tiling, target: TargetInfo) -> int:
    """Return how many vector registers a tile keeps in use: for totals, and for terms or results.

    The terms need what stays and what passes by: some numbers of it, since compilers load them ahead.
    """
    if tiling.stream is not None:
        whole = tiling.counts(tiling.tile, tiling.parts, tiling.taps)
        kept = sum(o.distinct(whole) for o in work.operands if o.number != tiling.stream)
        kept += target.registers // AHEAD
    elif len(work.operands) > 1:
        tile = tiling.counts(tiling.tile, tiling.parts)
        kept = sum(sorted(o.distinct(tile) for o in work.operands)[:-1])
    else:
        kept = 0
    return tiling.accumulators * work.totals + max(work.width * (kept + 1) + (work.instructions > work.width), STORING)


def cycles(work: Work, tiling: Tiling, target: TargetInfo) -> float:
    """Return how long all tiles of a stage take."""
    axes = list(tiling.tile)
    sizes = [_sizes(work, tiling, axis) for axis in axes]
    others = prod(extent for axis, extent in work.extents.items() if axis not in axes and axis not in work.folded)
    total = 0.0
    for sizing in product(*sizes):
        times = prod(number for number, _ in sizing)
        size = {axis: size for axis, (_, size) in zip(axes, sizing, strict=True)}
        total += times * _tile(work, tiling, size, target)
    return others * total


def _sizes(work: Work, tiling: Tiling, axis: Var) -> list[tuple[int, int]]:
    """Return how many tiles there are along an axis of each number of copies."""
    copies, lanes = tiling.tile[axis], tiling.lanes if axis == tiling.lane else 1
    sizes = Counter[int]()
    for places in tiling.parts_of.get(axis, (work.extents[axis],)):
        whole, rest = divmod(ceil(places / lanes), copies)
        sizes[copies] += whole
        sizes[rest] += 1 if rest else 0
    return [(number, size) for size, number in sizes.items() if number]


def moving(nbytes: float, within: float, target: TargetInfo) -> float:
    """Return the cycles to read or write bytes of a working set of ``within`` bytes."""
    if within <= FULL * target.l1_nbytes:
        return 0.0
    return nbytes / target.line_nbytes * (STREAMED_NEAR if within <= FULL * target.l2_nbytes else STREAMED_FAR)


def rate(work: Work, tiling: Tiling, target: TargetInfo) -> float:
    """Return how long a whole tile takes for each place that it computes."""
    lanes = 1 if tiling.lane in work.folded else tiling.lanes
    return _tile(work, tiling, tiling.tile, target) / (prod(tiling.tile.values()) * lanes)


def _tile(work: Work, tiling: Tiling, size: Mapping[Var, int], target: TargetInfo) -> float:
    """Return the cycles of one tile."""
    inner = {**tiling.parts, **tiling.taps}
    steps = 1.0
    for axis in work.folded:
        extent = work.extents[axis] / (tiling.lanes if axis.name == tiling.lane.name else 1)
        steps *= max(1.0, extent / inner.get(axis, 1))
    taps, parts = prod(tiling.taps.values()), prod(tiling.parts.values())
    copies = prod(size.values())
    arithmetic = tiling.kept * copies * taps * parts * work.instructions / target.multiply_adds
    counts = tiling.counts(size, tiling.parts, {} if tiling.stream is None else tiling.taps)
    loads = sum([_loads(o, o.distinct(counts), tiling.lanes) for o in work.operands])
    loads *= taps if tiling.stream is None else 1
    # Instructions of a core without vectors take turns; others overlap.
    apart, together = arithmetic + loads + STEPPING, max(arithmetic, loads / target.loads, LATENCY * taps)
    body = apart if target.takes_turns else together
    walked = tiling.walked * steps
    across = LATENCY * 5.0 * copies if tiling.lane in work.folded else 0.0
    busy = max(walked * body, _far(work, tiling, size, walked, target))
    busy += _waiting(work, tiling, size, target)
    return busy + walked * AGAIN + copies * (1.0 + parts / 2) + STARTED + across


def _loads(operand: Operand, distinct: int, lanes: int) -> float:
    return distinct * operand.loads * (lanes * GATHERED if operand.lane_step is None else 1.0)


def _far(work: Work, tiling: Tiling, size: Mapping[Var, int], walked: float, target: TargetInfo) -> float:
    """Return the cycles for what a tile has from the second cache: weights and images that do not fit the first.

    ``walked`` is the number of iterations over folded axes. What these read again of an image, as rows of a window,
    lies in the first cache by then, unless its lines collide.
    """
    total = 0.0
    for operand in work.operands:
        if _read_in_turn(work, tiling, size, operand) * work.itemsize <= FULL * target.l1_nbytes:
            continue
        if operand.is_packed or _collide(work, tiling, size, operand, target):
            vectors = walked * operand.distinct(tiling.counts(size, tiling.parts, tiling.taps))
        else:
            vectors = operand.distinct(tiling.counts(size, _terms(work, tiling)))
        total += vectors * FAR_LINE * tiling.lanes * work.itemsize / target.line_nbytes
    return total


def _collide(work: Work, tiling: Tiling, size: Mapping[Var, int], operand: Operand, target: TargetInfo) -> bool:
    """Whether the sets of the first cache that a tile's part of an image falls into have no room for its lines."""
    pitch, way = operand.pitch * work.itemsize, target.l1_nbytes // WAYS
    if operand.lane_step != 1 or pitch <= target.line_nbytes:
        return False
    sets = way // gcd(pitch, way)
    return operand.distinct(tiling.counts(size, _terms(work, tiling))) > FULL * WAYS * sets


def _waiting(work: Work, tiling: Tiling, size: Mapping[Var, int], target: TargetInfo) -> float:
    """Return a tile's share of the cycles in which tiles wait for what comes from past the second cache."""
    nbytes = {o: (work.sizes[o.number][0] if o.is_packed else o.size) * work.itemsize for o in work.operands}
    past = [operand for operand in work.operands if nbytes[operand] > target.l2_nbytes]
    if not past:
        return 0.0
    at_a_time = tiling.counts(size, tiling.parts, tiling.taps)
    places = sum(operand.distinct(at_a_time) for operand in work.operands if not operand.is_packed)
    late = 0.0
    for operand in past:
        if operand.is_packed:
            late += nbytes[operand] if places >= STREAMS else 0.0
        elif operand.lane_step == 1:
            late += nbytes[operand] * max(0.0, 1 - NEXT / operand.steps_on(size, {tiling.lane, *work.folded}))
    results = prod(extent for axis, extent in work.extents.items() if axis not in work.folded)
    own = prod(size.values()) * (1 if tiling.lane in work.folded else tiling.lanes)
    return late / target.line_nbytes * PAST_LINE * own / results


def _terms(work: Work, tiling: Tiling) -> dict[Var, int]:
    """Return how many places, or vectors of them, there are along each folded axis."""
    lanes = {axis: tiling.lanes if axis.name == tiling.lane.name else 1 for axis in work.folded}
    return {axis: max(1, ceil(work.extents[axis] / lanes[axis])) for axis in work.folded}


def _read_in_turn(work: Work, tiling: Tiling, size: Mapping[Var, int], operand: Operand) -> int:
    """Return how many elements of an operand are read before the first of them is read again."""
    if not operand.is_packed:
        # Of what is not in lanes the next terms find the rest of the line in the first cache.
        return operand.size if operand.lane_step else 0
    elements, again = work.sizes[operand.number]
    shared, own = 1, work.terms
    for axis, count in size.items():
        if operand.varies(axis):
            own *= count * (tiling.lanes if axis.name == tiling.lane.name else 1)
        else:
            shared *= count
    return elements if again <= shared else own
