"""Memories of a device: which values lie in which of them, by how much each holds.

Values that steps touch most often for each of their bytes get the memory that is nearest to the core. As many of them
as fit go there, and the others to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.plan.findings import about

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.arch import MemoryBank
    from openinfer.errors import SynthesisError
    from openinfer.plan.values import PlanValue

NEAREST = ("tcm", "sram", "external")
"""Kinds of memory that hold values, the nearest to the core first."""

_CODE = "over-budget"

LONGEST_MAP = 12
"""Values that an error lists."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where some values lie.

    Attributes:
        offsets: of each value the number of its memory, and the offset in it.
        used: bytes that are used of each memory.
    """

    offsets: Mapping[int, tuple[int, int]]
    used: tuple[int, ...]


def writable(banks: Sequence[MemoryBank]) -> tuple[MemoryBank, ...]:
    """Return the memories that values may lie in, the nearest to the core first."""
    return tuple(bank for kind in NEAREST for bank in banks if bank.kind == kind)


def spread(
    values: Mapping[int, PlanValue],
    touches: Mapping[int, int],
    banks: Sequence[MemoryBank],
    place: Callable[[Sequence[int]], tuple[dict[int, int], int]],
) -> Placed:
    """Return where values lie.

    Args:
        values: by number, those that need memory.
        touches: how many steps read or write each.
        banks: memories that values may lie in, in the order in which they are filled.
        place: returns the offsets of some values in one memory, and the bytes that they take together.

    Raises:
        SynthesisError: ``over-budget``: they do not fit; the message names the largest that is left and the others.
    """
    every = place(list(values))
    if banks and every[1] <= banks[0].nbytes:
        return Placed({v: (0, offset) for v, offset in every[0].items()}, (every[1], *[0] * (len(banks) - 1)))
    left = sorted(values, key=lambda v: (-touches.get(v, 0) / max(1, values[v].stored.nbytes), v))
    offsets: dict[int, tuple[int, int]] = {}
    used: list[int] = []
    for number, bank in enumerate(banks):
        small = [value for value in left if values[value].stored.nbytes <= bank.nbytes]
        found, total = _most(small, bank.nbytes, place)
        used.append(total)
        offsets |= {value: (number, offset) for value, offset in found.items()}
        left = [value for value in left if value not in found]
    if left:
        raise _over_budget([values[value] for value in left], list(values.values()), banks, every[1])
    return Placed(offsets, tuple(used))


def _most(
    values: Sequence[int], nbytes: int, place: Callable[[Sequence[int]], tuple[dict[int, int], int]]
) -> tuple[dict[int, int], int]:
    """Return the places of as many of the first values as fit into some bytes, by bisection."""
    low, high, best = 0, len(values), (dict[int, int](), 0)
    while low < high:
        middle = (low + high + 1) // 2
        found = place(values[:middle])
        if found[1] <= nbytes:
            low, best = middle, found
        else:
            high = middle - 1
    return best


def _over_budget(
    left: Sequence[PlanValue], every: Sequence[PlanValue], banks: Sequence[MemoryBank], needed: int
) -> SynthesisError:
    largest = max(left, key=lambda value: (value.stored.nbytes, -value.number))
    room = ", ".join(f"{bank.name} {bank.nbytes:,}" for bank in banks)
    has = f"the memories of the device are {room}" if banks else "the device has no memory but flash"
    message = f"the intermediate results take {needed:,} bytes, {has}: {largest.name} does not fit"
    ordered = sorted(every, key=lambda value: (-value.stored.nbytes, value.number))
    sizes = [f"{value.name} {value.stored.nbytes:,}" for value in ordered[:LONGEST_MAP]]
    sizes += [f"{len(ordered) - LONGEST_MAP} more"] if len(ordered) > LONGEST_MAP else []
    hint = f"make {largest.name} ({largest.type}) smaller, such as by other sizes; bytes of values: {', '.join(sizes)}"
    return about(_CODE, message, hint)
