"""A device of many threads as schedules see it, and how rows and columns are dealt out to groups of its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.dtypes import DType

WORD_NBYTES = 16
"""What a thread loads or stores at once at most."""

REGISTERS = 32
"""Elements of a row that a thread holds at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileShape:
    """Matrices that a subgroup of a device multiplies at once: rows by depth, by depth by columns, plus a total.

    Attributes:
        factor: element type of both factors.
        total: element type of what is added up.
    """

    rows: int
    columns: int
    depth: int
    factor: DType
    total: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """A device of many threads; the defaults are what every device has.

    Attributes:
        busy: threads that keep the device busy.
        group: most threads of a group.
        subgroup: threads that hand over values without memory; 1: none do.
        shared_nbytes: memory that the threads of a group share.
        is_software: whether threads are lanes of a processor, whose caches hold what is read again.
        tiles: what its matrix units multiply; empty: it has none.
    """

    busy: int = 1 << 15
    group: int = 128
    subgroup: int = 1
    shared_nbytes: int = 16384
    is_software: bool = False
    tiles: tuple[TileShape, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSchedule:
    """How a group of threads folds rows.

    Attributes:
        threads: threads of a row.
        lanes: neighbouring elements that a thread takes at once.
        turns: how often a thread takes elements, each time after those of all others.
        rows: rows of a group.
        is_across: whether neighbouring threads take neighbouring rows, and not neighbouring elements of one row.
        is_held: whether a thread keeps its elements of a row in registers.
    """

    threads: int
    lanes: int
    turns: int
    rows: int = 1
    is_across: bool = False
    is_held: bool = True


def along_row(
    length: int, columns: int, count: int, bits: tuple[int, int], step: int, device: Threads
) -> RowSchedule | None:
    """Return how rows are folded whose elements are neighbours; None: a thread for each is as good.

    Args:
        length, count: elements of a row, and how many rows there are.
        columns: how many rows differ in the last index only.
        bits: those of the narrowest and of the widest element.
        step: a number that divides the distance of rows and their length.
    """
    if length < (SHORTEST_OF_SOFTWARE if device.is_software else 2 * SHORTEST):
        return None
    least, most = bits
    # Elements of few bits fill words of 32 at least.
    widest = max(WORD_NBYTES * 8 // most, min(8, 32 // least))
    lanes = max(n for n in (1, 2, 4, 8) if n <= widest and step % n == 0)
    wanted = -(-length // (lanes * (4 if count * length > device.busy * 4 * lanes else 2)))
    threads = min(max(_power_above(wanted), SHORTEST), _power_below(min(device.group, MOST_THREADS)))
    rows = 1
    while threads * rows < FEWEST_THREADS and columns % (2 * rows) == 0 and threads * rows * 2 <= device.group:
        rows *= 2
    turns = -(-length // (threads * lanes))
    return RowSchedule(threads=threads, lanes=lanes, turns=turns, rows=rows, is_held=turns * lanes <= REGISTERS)


def across_rows(length: int, count: int, columns: int, device: Threads) -> RowSchedule | None:
    """Return how rows are folded whose places are neighbours; None: a thread for each keeps the device busy.

    Args:
        length, count: elements of a row, and how many rows there are.
        columns: how many neighbouring rows there are.
    """
    if length < 2 * SHORTEST or count >= 2 * device.busy or device.is_software:
        return None
    rows = next((n for n in (32, 16, 8) if columns % n == 0), None)
    if rows is None:
        return None
    most = min(device.group, MOST_THREADS) // rows
    wanted = min(max(2 * device.busy // count, 2), length // 8)
    threads = min(_power_below(max(wanted, 2)), most)
    turns = -(-length // threads)
    return RowSchedule(threads=threads, lanes=1, turns=turns, rows=rows, is_across=True, is_held=turns <= REGISTERS)


SHORTEST = 16
"""Fewest threads of a row."""

SHORTEST_OF_SOFTWARE = 256
"""Fewest elements of a row that lanes of a processor fold together: to join costs them more."""

FEWEST_THREADS = 128
"""Fewest threads of a group, if there are so many rows."""

MOST_THREADS = 512
"""Most threads of a group that folds."""


def _power_above(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def _power_below(number: int) -> int:
    return 1 << (number.bit_length() - 1)
