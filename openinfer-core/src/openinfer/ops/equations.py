"""Equations of sums of products, such as ``"bij,bjk->bik"``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ops.schema import OpTypeError
from openinfer.ops.shapes import common_extent, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation for inputs of known shapes: a number for each label.

    Dims that an ellipsis stands for have labels too, counted from the last; a dim of 1 broadcasts there.

    Attributes:
        inputs: labels of each input, one per dim.
        output: labels of the result; others are summed over.
        extents: extent of each label.
    """

    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(self.extents[label] for label in self.output)

    @property
    def summed(self) -> tuple[int, ...]:
        """Labels that are summed over."""
        return tuple(label for label in range(len(self.extents)) if label not in self.output)


def equation_of(text: str, shapes: Sequence[tuple[int, ...]]) -> Equation:
    """Return an equation read for inputs of these shapes.

    Without ``->`` the result has the dims of ellipses and then, in alphabetical order, letters that occur once.

    Raises:
        OpTypeError: the equation cannot be read, or does not fit the inputs.
    """
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise OpTypeError(
            f"equation {text!r} is for {len(terms)} inputs, found {len(shapes)}", code="arity", settings=("equation",)
        )
    labelled = [_labels(term, len(shape), text) for term, shape in zip(terms, shapes, strict=True)]
    dims: dict[str, list[int]] = {}
    for labels, shape in zip(labelled, shapes, strict=True):
        for label, extent in zip(labels, shape, strict=True):
            dims.setdefault(label, []).append(extent)
    extents = {label: _extent(label, of, text, shapes) for label, of in dims.items()}
    wanted = _output(right, extents, text) if arrow else _implicit(labelled)
    numbers = {label: number for number, label in enumerate(extents)}
    return Equation(
        inputs=tuple(tuple(numbers[label] for label in labels) for labels in labelled),
        output=tuple(numbers[label] for label in wanted),
        extents=tuple(extents.values()),
    )


def _labels(term: str, rank: int, text: str) -> list[str]:
    """Return a label for each dim; those of an ellipsis are numbers, 0 for its last."""
    before, ellipsis, after = term.partition(ELLIPSIS)
    letters = before + after
    if not all(letter.isascii() and letter.isalpha() for letter in letters):
        raise OpTypeError(
            f"equation {text!r} has {term!r}: expected letters and at most one '...'",
            code="setting-type",
            settings=("equation",),
        )
    free = rank - len(letters)
    if free < 0 or (free and not ellipsis):
        raise OpTypeError(f"equation {text!r} has {term!r} for an input of {rank} dims", settings=("equation",))
    return [*before, *(str(place) for place in reversed(range(free))), *after]


def _extent(label: str, extents: Sequence[int], text: str, shapes: Sequence[tuple[int, ...]]) -> int:
    """Return the extent of a label; the dims of an ellipsis broadcast."""
    if label.isdigit():
        extent, other = common_extent(extents)
    else:
        extent, other = extents[0], next((extent for extent in extents if extent != extents[0]), None)
    if other is None:
        return extent
    listed = ", ".join(map(shown, shapes))
    what = "a dim of '...'" if label.isdigit() else repr(label)
    raise OpTypeError(f"equation {text!r} for shapes {listed}: {what} is {extent} and {other}", settings=("equation",))


def _output(right: str, extents: dict[str, int], text: str) -> list[str]:
    free = sum(label.isdigit() for label in extents)
    before, ellipsis, after = right.partition(ELLIPSIS)
    wanted = [*before, *(str(place) for place in reversed(range(free)) if ellipsis), *after]
    unknown = [label for label in wanted if label not in extents]
    if unknown or len(set(wanted)) < len(wanted):
        found = f"{unknown[0]!r}, which no input has" if unknown else "a letter twice"
        raise OpTypeError(f"the result of equation {text!r} has {found}", code="setting-type", settings=("equation",))
    return wanted


def _implicit(labelled: Sequence[Sequence[str]]) -> list[str]:
    counts = Counter(label for labels in labelled for label in labels)
    free = sorted((label for label in counts if label.isdigit()), key=int, reverse=True)
    return [*free, *sorted(label for label, count in counts.items() if count == 1 and not label.isdigit())]
