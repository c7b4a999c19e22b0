"""Barriers stand where one command touches what another wrote, and nowhere else."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer_backend_vulkan.commands import barriers_before


@dataclass(frozen=True)
class Touching:
    """A command that reads and writes buffers, here letters."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
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
def test_barriers_stand_before_conflicts(sequence: str, expected: list[int]) -> None:
    assert barriers_before([command(text) for text in sequence.split()]) == expected


commands = st.builds(
    Touching,
    reads=st.lists(st.sampled_from("abcd"), max_size=2).map(tuple),
    writes=st.lists(st.sampled_from("abcd"), min_size=1, max_size=2).map(tuple),
)


@given(st.lists(commands, max_size=8))
def test_every_conflict_has_a_barrier_between(sequence: list[Touching]) -> None:
    barriers = barriers_before(sequence)

    for first, second in itertools.combinations(range(len(sequence)), 2):
        a, b = sequence[first], sequence[second]
        conflict = {*a.writes} & {*b.reads, *b.writes} or {*a.reads} & {*b.writes}
        assert not conflict or any(first < barrier <= second for barrier in barriers)
