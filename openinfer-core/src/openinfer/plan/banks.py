"""Memories of a device: which values lie in which of them, by how much each holds.

Values that steps touch most often for each of their bytes get the memory that is nearest to the core. As many of them
as fit go there, and the others to the next one. Each memory has two parts: an arena of intermediate results, which
share bytes, and the states, which keep theirs between steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from openinfer.plan.findings import about
from openinfer.plan.places import aligned
from openinfer.plan.values import StateMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from openinfer.arch import MemoryBank
    from openinfer.errors import SynthesisError
    from openinfer.plan.values import PlanValue

NEAREST = ("tcm", "sram", "external")
"""Kinds of memory that hold values, the nearest to the core first."""

STATE_ALIGNMENT = 8
"""Bytes at whose multiples states start: those of the widest element."""

_CODE = "over-budget"

LONGEST_MAP = 12
"""Values that an error lists."""

PASSED_OVER = 16
"""Values that do not fit and are passed over for others before a memory counts as full."""

ASSIGNMENTS, TURNS = 16, 10_000
"""Ways of spreading the states that are tried with the intermediate results, and steps of the search for them."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where some values lie.

    Attributes:
        offsets: of each value the number of its memory, and the offset in the part of it that is for such values.
        used: bytes of the arena in each memory.
    """

    offsets: Mapping[int, tuple[int, int]]
    used: tuple[int, ...]


def writable(banks: Sequence[MemoryBank]) -> tuple[MemoryBank, ...]:
    """Return the memories that values may lie in, the nearest to the core first."""
    return tuple(bank for kind in NEAREST for bank in banks if bank.kind == kind)


def states_nbytes(values: Iterable[PlanValue], bank: int) -> int:
    """Return the bytes of the states in a memory."""
    states = [(v, v.memory) for v in values if isinstance(v.memory, StateMemory) and v.memory.bank == bank]
    return max((memory.offset + _room(value) for value, memory in states), default=0)


def spread(
    values: Mapping[int, PlanValue],
    touches: Mapping[int, int],
    banks: Sequence[MemoryBank],
    place: Callable[[Sequence[int]], tuple[dict[int, int], int]],
    *,
    states_first: bool = False,
) -> Placed:
    """Return where values lie.

    Args:
        values: by number, those that need memory: states (`StateMemory`) and intermediate results.
        touches: how many steps read or write each.
        banks: memories that values may lie in, in the order in which they are filled.
        place: returns the offsets of some intermediate results in one memory, and the bytes that they take together.
        states_first: whether states are in nearer memories than intermediate results, regardless of accesses.

    Raises:
        SynthesisError: ``over-budget``: they do not fit; the message names the largest that is left and the others.
    """
    spreading = _Spreading(values, banks, place)

    def order(value: int) -> tuple[bool, float, int]:
        is_later = states_first and not spreading.is_state(value)
        return is_later, -touches.get(value, 0) / max(1, values[value].stored.nbytes), value

    by_use = sorted(values, key=order)
    every = spreading.content(by_use)
    if banks and every.nbytes <= banks[0].nbytes:
        return _placed([every, *[_Content({}, 0, 0)] * (len(banks) - 1)])
    contents, left = spreading.filled(by_use)
    if not left:
        return _placed(contents)
    better = next(spreading.searched(by_use), None)
    if better is None:
        raise _over_budget(values, left, banks, contents, every)
    return _placed(better)


@dataclass(frozen=True, slots=True)
class _Content:
    """What lies in one memory: the offset of each value in its part, and the bytes of both parts."""

    offsets: dict[int, int]
    arena_nbytes: int
    states_nbytes: int

    @property
    def nbytes(self) -> int:
        """Bytes that hold both, whichever comes first."""
        return self.arena_nbytes + aligned(self.states_nbytes) if self.arena_nbytes else self.states_nbytes


def _placed(contents: Sequence[_Content]) -> Placed:
    offsets = {value: (bank, at) for bank, content in enumerate(contents) for value, at in content.offsets.items()}
    return Placed(offsets, tuple(content.arena_nbytes for content in contents))


def _room(state: PlanValue) -> int:
    return aligned(max(1, state.stored.nbytes), STATE_ALIGNMENT)


@dataclass(frozen=True, slots=True)
class _Spreading:
    """Fills memories with values; its attributes are arguments of `spread`."""

    values: Mapping[int, PlanValue]
    banks: Sequence[MemoryBank]
    place: Callable[[Sequence[int]], tuple[dict[int, int], int]]

    def is_state(self, value: int) -> bool:
        return isinstance(self.values[value].memory, StateMemory)

    def content(self, chosen: Iterable[int]) -> _Content:
        """Return where some values lie in a memory of any size."""
        states, others = list[int](), list[int]()
        for value in chosen:
            (states if self.is_state(value) else others).append(value)
        offsets, arena_nbytes = self.place(others) if others else ({}, 0)
        offsets, end = dict(offsets), 0
        for value in sorted(states):
            offsets[value] = end
            end += _room(self.values[value])
        return _Content(offsets, arena_nbytes, end)

    def filled(
        self, order: Sequence[int], before: Sequence[Sequence[int]] | None = None, *, passed_over: int = 0
    ) -> tuple[list[_Content], list[int]]:
        """Return what lies in each memory where one after the other is filled in an order, and what is left.

        Args:
            before: values that lie in each of them already.
        """
        contents: list[_Content] = []
        left = list(order)
        for number, bank in enumerate(self.banks):
            small = [value for value in left if self.values[value].stored.nbytes <= bank.nbytes]
            contents.append(self._most([] if before is None else before[number], small, bank.nbytes, passed_over))
            left = [value for value in left if value not in contents[-1].offsets]
        return contents, left

    def _most(self, before: Sequence[int], order: Sequence[int], nbytes: int, passed_over: int) -> _Content:
        """Return as many of the first values as fit into some bytes, by bisection.

        Args:
            before: values that lie there already.
            passed_over: how many values that do not fit are left out, for those after them.
        """
        best, chosen, rest = self.content(before), list(before), list(order)
        while rest:
            low, high = 0, len(rest)
            while low < high:
                middle = (low + high + 1) // 2
                content = self.content([*chosen, *rest[:middle]])
                if content.nbytes <= nbytes:
                    low, best = middle, content
                else:
                    high = middle - 1
            chosen, rest = [*chosen, *rest[:low]], rest[low + 1 :]
            if not passed_over:
                break
            passed_over -= 1
        return best

    def searched(self, by_use: Sequence[int]) -> Iterator[list[_Content]]:
        """Yield contents of the memories that hold all values: states first, the largest ones first."""
        states = sorted((v for v in by_use if self.is_state(v)), key=lambda v: (-_room(self.values[v]), v))
        others = [value for value in by_use if not self.is_state(value)]
        by_size = sorted(others, key=lambda v: (-self.values[v].stored.nbytes, v))
        rooms = [bank.nbytes for bank in self.banks]
        for ways in islice(_assignments([_room(self.values[v]) for v in states], rooms), ASSIGNMENTS):
            before = [[v for v, way in zip(states, ways, strict=True) if way == bank] for bank in range(len(rooms))]
            for order, passed_over in ((others, 0), (by_size, PASSED_OVER)):
                contents, left = self.filled(order, before, passed_over=passed_over)
                if not left:
                    yield contents


def _assignments(sizes: Sequence[int], rooms: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each of some sizes, the largest first, the number of the room that it lies in; equal ones in order.

    The search ends after `TURNS` steps.
    """
    left, ways, at = list(rooms), list[int](), 0
    for _ in range(TURNS):
        if len(ways) == len(sizes):
            yield list(ways)
            room = None
        else:
            room = next((room for room in range(at, len(left)) if left[room] >= sizes[len(ways)]), None)
        if room is not None:
            left[room] -= sizes[len(ways)]
            ways.append(room)
            at = room if len(ways) < len(sizes) and sizes[len(ways)] == sizes[len(ways) - 1] else 0
        elif ways:
            room = ways.pop()
            left[room] += sizes[len(ways)]
            at = room + 1
        else:
            return


def _over_budget(
    values: Mapping[int, PlanValue],
    left: Sequence[int],
    banks: Sequence[MemoryBank],
    contents: Sequence[_Content],
    needed: _Content,
) -> SynthesisError:
    """Return the error that names the largest value that is left, with where the others could lie."""
    largest = values[min(left, key=lambda v: (-values[v].stored.nbytes, v))]
    parts = [f"the intermediate results take {needed.arena_nbytes:,} bytes"] if needed.arena_nbytes else []
    parts += [f"the persistent variables take {needed.states_nbytes:,} bytes"] if needed.states_nbytes else []
    room = ", ".join(f"{bank.name} {bank.nbytes:,}" for bank in banks)
    has = f"the memories of the device are {room}" if banks else "the device has no memory but flash"
    message = f"{', '.join((*parts, has))}: {largest.name} does not fit"
    names = {value: banks[bank].name for bank, content in enumerate(contents) for value in content.offsets}
    ordered = sorted(values, key=lambda v: (-values[v].stored.nbytes, v))
    sizes = [
        f"{values[v].name} {values[v].stored.nbytes:,}{f' in {names[v]}' if v in names else ''}"
        for v in ordered[:LONGEST_MAP]
    ]
    sizes += [f"{len(ordered) - LONGEST_MAP} more"] if len(ordered) > LONGEST_MAP else []
    limits = " or limits (--limit)" if isinstance(largest.memory, StateMemory) else ""
    by = f"make {largest.name} ({largest.type}) smaller, such as by other sizes{limits}"
    return about(_CODE, message, f"{by}; bytes of values: {', '.join(sizes)}")
