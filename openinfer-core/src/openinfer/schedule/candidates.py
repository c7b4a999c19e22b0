"""What the terms of a fold use, and how many copies of a place are worth a look."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from openinfer.compute import Position, Read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.compute import Element, Stage
    from openinfer.expr.linear import Program


def tensor_of(stage: Stage, number: int) -> str:
    """Return the tensor that an element is read from.

    Raises:
        TypeError: it is not read.
    """
    element = stage.elements[number]
    if not isinstance(element, Read):
        raise TypeError(f"element {number} is not read")
    return element.tensor


def bytes_of_words(terms: Sequence[Program]) -> dict[int, list[int]]:
    """Return the elements that words are made of, by the first of them, which counts for all: a word is a register."""
    by_word: dict[int, list[int]] = {}
    for term in terms:
        for step in term.instructions:
            if step.function == "word":
                parts = [term.instructions[operand] for operand in step.operands]
                numbers = [part.index for part in parts if part.function == "input"]
                by_word.update({numbers[0]: numbers} if numbers else {})
    return by_word


def variables_of(elements: Sequence[Element], number: int) -> frozenset[Var]:
    """Return the variables of the place whose number an element is."""
    element = elements[number] if number >= 0 else None
    return element.at.variables() if isinstance(element, Position) else frozenset()


def is_window(stage: Stage, numbers: Sequence[int], axis: Var) -> bool:
    """Return whether a folded axis walks a dimension of some elements together with an axis that is not folded."""
    reads = (stage.elements[number] for number in numbers)
    indices = (index for read in reads if isinstance(read, Read) for index in read.at)
    return any(axis in index.variables() and len(index.variables()) > 1 for index in indices)


def lane_steps(address: Index, lane: Var, extents: Mapping[Var, int]) -> tuple[int | None, int]:
    """Return how far neighbouring lanes lie apart, and what the distances of all other places are multiples of.

    None: lanes are loaded one by one, since they do not follow one another.
    """
    step = address.coefficient(lane)
    others = (axis for axis in address.variables() if axis != lane and extents.get(axis, 1) > 1)
    return step if step in (0, 1) else None, gcd(*(address.coefficient(axis) or 0 for axis in others))


def column_counts(extent: int, most: int) -> list[int]:
    """Return how many copies there may be along the innermost axis."""
    parts = {-(-extent // count) for count in (1, 2, 3, 4)}
    return sorted(count for count in {*parts, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 24} if count <= min(extent, most))


def row_counts(extent: int) -> list[int]:
    """Return how many copies there may be along the next axis."""
    return [count for count in (1, 2, 3, 4, 5) if count <= extent]


def block_counts(registers: int) -> list[int]:
    """Return how many registers there may be along the axis in lanes."""
    return [count for count in (1, 2, 3, 4, 5, 6, 8) if count <= registers]
