"""Places in the arena: offsets at which values that must not share bytes lie apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.plan.accesses import members

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

ALIGNMENT = 64
"""Bytes at whose multiples values start: a cache line, and the widest vector register."""

_ROWS = 512
"""Values whose conflicts are looked up at a time, a multiple of 8."""

FEW, MOST = 8, 64
"""Values above this share of the arena are tried in another order, where there are no more values than that."""


def place(
    sizes: Mapping[int, int],
    classes: Mapping[int, str],
    conflicts: Mapping[int, int],
    level: Mapping[int, int] | None = None,
    apart: Mapping[tuple[int, int], int] | None = None,
    least: Mapping[int, int] | None = None,
) -> tuple[dict[int, int], int]:
    """Return the offset of each value, and the size of the arena.

    Greedy by size: the largest value first, each at the lowest free offset. Where few values are large, each of them is
    tried as the first one too, as long as that makes the arena smaller. Values share bytes only within a class
    (their element type), because C code must not reach one object through two types.

    Args:
        sizes: bytes of each value that needs memory.
        classes: name of the element type of each.
        conflicts: for values, others (as bits) that they do not share bytes with; one of two may name the other.
        level: for values, others (as bits) that they share bytes with only where both start at the same offset; one of
            two may name the other.
        apart: result of `openinfer.plan.overlap.distances`; pairs that it has may overlap in spite of a conflict.
        least: for some values, the offset from which on to look for a place; these are placed first, in their order,
            and no other order is tried.
    """
    order = sorted(sizes, key=lambda v: (-sizes[v], v))
    partners = _both_ways(sizes, level or {})
    if least:
        order = [*least, *(value for value in order if value not in least)]
        return _in_order(order, sizes, classes, conflicts, partners, apart or {}, least)
    best = _in_order(order, sizes, classes, conflicts, partners, apart or {})
    tried = [value for value in order if FEW * sizes[value] > best[1]]
    if len(order) > MOST:
        return best
    if apart:
        # Results lie before their operands, so that of equal ones the last is to lie lowest.
        backwards = sorted(sizes, key=lambda v: (-sizes[v], -v))
        other = _in_order(backwards, sizes, classes, conflicts, partners, apart)
        best, order = min((best, order), (other, backwards), key=lambda choice: choice[0][1])
    while True:
        orders = [[value, *(other for other in order if other != value)] for value in tried]
        choices = [(_in_order(order, sizes, classes, conflicts, partners, apart or {}), order) for order in orders]
        (offsets, total), order = min(choices, key=lambda choice: choice[0][1], default=(best, order))
        if total >= best[1]:
            return best
        best = offsets, total


def _both_ways(values: Mapping[int, int], related: Mapping[int, int]) -> dict[int, int]:
    """Return a relation between some values with the other direction."""
    symmetric: dict[int, int] = {}
    for value, others in related.items():
        for other in members(others):
            if value != other and value in values and other in values:
                symmetric[value] = symmetric.get(value, 0) | 1 << other
                symmetric[other] = symmetric.get(other, 0) | 1 << value
    return symmetric


def _in_order(
    order: Sequence[int],
    sizes: Mapping[int, int],
    classes: Mapping[int, str],
    conflicts: Mapping[int, int],
    partners: Mapping[int, int],
    apart: Mapping[tuple[int, int], int],
    least: Mapping[int, int] | None = None,
) -> tuple[dict[int, int], int]:
    ranks_of = {value: rank for rank, value in enumerate(order)}
    near: dict[int, list[_Near]] = {}
    for (result, operand), distance in apart.items():
        near.setdefault(result, []).append(_Near(ranks_of[operand], min(distance, sizes[result]), None))
        near.setdefault(operand, []).append(_Near(ranks_of[result], None, min(distance, sizes[result])))
    clashes = _Clashes.of(order, classes, conflicts)
    offsets: dict[int, int] = {}
    # What is placed already, sorted by offset: ranks in the order of placing, where they begin and where they end.
    placed = np.empty((3, len(order)), np.int64)
    for rank, value in enumerate(order):
        ranks, starts, ends = placed[:, :rank]
        taken = clashes.among(rank, ranks)
        others = _Taken(ranks, starts, ends, near.get(value, ()), sizes[value])
        level = [ranks_of[other] for other in members(partners.get(value, 0))]
        if level:
            offsets[value] = _level_or_apart(others, taken, np.isin(ranks, level) & ~taken, (least or {}).get(value))
        else:
            offsets[value] = _first_gap(*others.bounds(taken), (least or {}).get(value, 0))
        at = int(np.searchsorted(starts, offsets[value]))
        placed[:, at + 1 : rank + 1] = placed[:, at:rank]
        placed[:, at] = rank, offsets[value], aligned(offsets[value] + sizes[value])
    return offsets, int(placed[2].max(initial=0))


@dataclass(frozen=True, slots=True)
class _Clashes:
    """Which of some values, by their rank, must not share bytes.

    Attributes:
        classes: a number for the element type of each.
        bits: a row for each rank: bit r says that it is in conflict with rank r.
    """

    classes: npt.NDArray[np.int64]
    bits: npt.NDArray[np.uint8]

    @staticmethod
    def of(order: Sequence[int], classes: Mapping[int, str], conflicts: Mapping[int, int]) -> _Clashes:
        width = max(order, default=0) // 8 + 1
        ranks = np.full(8 * width, -1, np.int64)
        ranks[np.array(order, np.int64)] = np.arange(len(order))
        bits = np.zeros((len(order), -(-len(order) // 8)), np.uint8)
        for first in range(0, len(order), _ROWS):
            some = order[first : first + _ROWS]
            rows = np.frombuffer(b"".join(conflicts[value].to_bytes(width, "little") for value in some), np.uint8)
            # Nearly all bytes are 0.
            at = np.flatnonzero(rows)
            byte, bit = np.nonzero(np.unpackbits(rows[at, None], axis=1, bitorder="little"))
            naming, named = first + at[byte] // width, ranks[at[byte] % width * 8 + bit]
            naming, named = naming[named >= 0], named[named >= 0]
            np.bitwise_or.at(bits, (naming, named // 8), np.uint8(1) << (named % 8).astype(np.uint8))
            np.bitwise_or.at(bits, (named, naming // 8), np.uint8(1) << (naming % 8).astype(np.uint8))
        names = {name: number for number, name in enumerate(dict.fromkeys(classes[value] for value in order))}
        return _Clashes(np.array([names[classes[value]] for value in order], np.int64), bits)

    def among(self, rank: int, others: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of some ranks must not share bytes with one."""
        named = np.unpackbits(self.bits[rank], bitorder="little")[others]
        clash: npt.NDArray[np.bool_] = (named != 0) | (self.classes[others] != self.classes[rank])
        return clash


@dataclass(frozen=True, slots=True)
class _Near:
    """What a value may overlap.

    Attributes:
        rank: that of the other value.
        below: how far the value reaches from its start where it lies below the other; None: as far as it goes.
        above: how far the other reaches where the value lies above it; None: as far as it goes.
    """

    rank: int
    below: int | None
    above: int | None


@dataclass(frozen=True, slots=True)
class _Taken:
    """What is placed when another value of some size is."""

    ranks: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    near: Sequence[_Near]
    size: int

    def bounds(self, which: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return for some placed values the offset up to which the value fits below, and that from which it fits above.

        Sorted by the former.
        """
        below, above = self.starts[which] - self.size, self.ends[which]
        if not self.near:
            return below, above
        ranks, starts = self.ranks[which], self.starts[which]
        for other in self.near:
            at = np.flatnonzero(ranks == other.rank)
            if other.below is not None:
                below[at] = starts[at] - other.below
            if other.above is not None:
                above[at] = [aligned(int(start) + other.above) for start in starts[at]]
        kept = np.flatnonzero(below < above)
        kept = kept[np.argsort(below[kept], kind="stable")]
        return below[kept], above[kept]


def _level_or_apart(
    others: _Taken, taken: npt.NDArray[np.bool_], matched: npt.NDArray[np.bool_], wanted: int | None
) -> int:
    """Return an offset apart from what is taken, and from what is matched unless that starts there too.

    That is ``wanted`` where it can be, or else the lowest.
    """
    if wanted is not None and _is_free(wanted, *others.bounds(taken | (matched & (others.starts != wanted)))):
        return wanted
    gap = _first_gap(*others.bounds(taken | matched))
    for start in others.starts[matched].tolist():
        if start < gap and _is_free(start, *others.bounds(taken | (matched & (others.starts != start)))):
            gap = start
    return gap


def _is_free(offset: int, below: npt.NDArray[np.int64], above: npt.NDArray[np.int64]) -> bool:
    return bool(((offset <= below) | (offset >= above)).all())


def _first_gap(below: npt.NDArray[np.int64], above: npt.NDArray[np.int64], least: int = 0) -> int:
    """Return the lowest offset from ``least`` on that no pair forbids: it is at most ``below`` or at least ``above``.

    ``below`` is sorted, ``above`` and ``least`` are aligned.
    """
    offsets = np.maximum.accumulate(np.concatenate(([least], above)))
    fits = offsets[:-1] <= below
    return int(offsets[int(fits.argmax())] if fits.any() else offsets[-1])


def aligned(nbytes: int, unit: int = ALIGNMENT) -> int:
    """Return a number of bytes rounded up to a multiple of ``unit``."""
    return -(-nbytes // unit) * unit
