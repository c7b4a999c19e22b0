"""docs/architecture/README.md is the reference of the IR: it names every node, with the words that its text has."""

from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType

import pytest

from openinfer import affine, compute, layout, loops, schedule

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture" / "README.md"
ROOMS = (affine, compute, layout, loops, schedule)
NOT_NODES = {"Accesses", "Builder", "Operand"}
"""What is counted or what writes definitions, and no part of the data."""


def nodes(room: ModuleType) -> list[type]:
    public = (getattr(room, name) for name in room.__all__)
    return [each for each in public if isinstance(each, type) and (is_dataclass(each) or issubclass(each, Enum))]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_the_reference_names_every_node(room: ModuleType) -> None:
    text = PAGE.read_text(encoding="utf-8")

    missing = [node.__name__ for node in nodes(room) if f"`{node.__name__}`" not in text]

    assert [name for name in missing if name not in NOT_NODES] == []


@pytest.mark.parametrize("kind", [loops.Bind, loops.Memory], ids=lambda kind: kind.__name__)
def test_the_reference_explains_every_word_of_loop_programs(kind: type[Enum]) -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert [member.value for member in kind if f"| `{member.value}` |" not in text] == []
