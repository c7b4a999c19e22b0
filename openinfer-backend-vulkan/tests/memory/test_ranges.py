"""Free parts of memory: what is taken never overlaps, and what is given back can be taken again."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from openinfer_backend_vulkan.memory.ranges import FreeRanges

SIZE = 64


class Machine(RuleBasedStateMachine):
    """Takes and gives back at random, and keeps its own map of every byte."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges = FreeRanges(SIZE)
        self.taken: dict[int, int] = {}

    def is_free(self, offset: int, size: int) -> bool:
        return offset + size <= SIZE and all(
            offset + size <= begin or begin + length <= offset for begin, length in self.taken.items()
        )

    @rule(size=st.integers(1, 24), alignment=st.sampled_from([1, 2, 4, 8]))
    def take(self, size: int, alignment: int) -> None:
        fitting = [offset for offset in range(0, SIZE, alignment) if self.is_free(offset, size)]

        offset = self.ranges.take(size, alignment)

        assert offset == (fitting[0] if fitting else None)
        if offset is not None:
            self.taken[offset] = size

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        if self.taken:
            offset = data.draw(st.sampled_from(sorted(self.taken)))
            self.ranges.give_back(offset, self.taken.pop(offset))

    @invariant()
    def unused_when_nothing_is_taken(self) -> None:
        assert self.ranges.is_unused == (not self.taken)


TestFreeRanges = Machine.TestCase


def test_neighbours_join() -> None:
    ranges = FreeRanges(30)
    offsets = [ranges.take(10, 1) for _ in range(3)]

    for offset in (offsets[0], offsets[2], offsets[1]):
        assert offset is not None
        ranges.give_back(offset, 10)

    assert ranges.take(30, 1) == 0


@pytest.mark.parametrize("size", [31, 1000])
def test_what_does_not_fit_is_refused(size: int) -> None:
    assert FreeRanges(30).take(size, 1) is None
