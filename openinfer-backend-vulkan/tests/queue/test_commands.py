"""There are barriers where one command touches what another wrote, and nowhere else."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer_backend_vulkan.memory.blocks import Part, StorageBuffer
from openinfer_backend_vulkan.queue.hazards import barriers_before


@dataclass(frozen=True)
class Touching:
    """A command that reads and writes buffers, or letters in their place."""

    reads: tuple[object, ...]
    writes: tuple[object, ...]
    serial: int = 0


def command(text: str) -> Touching:
    """Return the command of ``"ab>c"``: it reads a and b and writes c."""
    reads, _, writes = text.partition(">")
    return Touching(tuple(reads), tuple(writes))


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ("a>b c>d e>f", []),
        ("a>b a>c", []),
        ("a>b b>c", [1]),
        ("a>b c>a", [1]),
        (">a >a", [1]),
        ("a>b b>c c>d", [1, 2]),
        ("a>b c>d b>e d>f", [2]),
        ("a>a a>a", [1]),
    ],
)
def test_barriers_precede_conflicts(sequence: str, expected: list[int]) -> None:
    assert barriers_before([command(text) for text in sequence.split()]) == expected


def test_parts_of_a_buffer_conflict_where_they_share_bytes() -> None:
    storage, other = StorageBuffer(1, 256, None, 0), StorageBuffer(2, 256, None, 0)
    low, high, across = Part(storage, 0, 64), Part(storage, 64, 64), Part(storage, 32, 64)

    def barriers(*writes: StorageBuffer | Part) -> list[int]:
        return barriers_before([Touching((), (place,)) for place in writes])

    assert barriers(low, high, other) == []
    assert barriers(low, across, high) == [1, 2]
    assert barriers(low, storage) == [1]


commands = st.builds(
    Touching,
    reads=st.lists(st.sampled_from("abcd"), max_size=2).map(tuple),
    writes=st.lists(st.sampled_from("abcd"), min_size=1, max_size=2).map(tuple),
)


@settings(deadline=None)
@given(st.lists(commands, max_size=8))
def test_every_conflict_has_a_barrier_between(sequence: list[Touching]) -> None:
    barriers = barriers_before(sequence)

    for first, second in itertools.combinations(range(len(sequence)), 2):
        a, b = sequence[first], sequence[second]
        conflict = {*a.writes} & {*b.reads, *b.writes} or {*a.reads} & {*b.writes}
        assert not conflict or any(first < barrier <= second for barrier in barriers)
