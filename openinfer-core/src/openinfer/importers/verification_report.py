"""The result of a comparison of an imported program with its original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.synth.comparison import Difference

MOST_DISTANCES = 3
"""Distances in steps of which a report says how many elements have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of a comparison.

    Attributes:
        runner: what ran the original.
        steps: how many inputs were compared.
        with_specials: whether a further step was compared, with special floats among the inputs.
        inputs: what was drawn for each input, or that it was given, by its name in the model.
        outputs: the largest difference of each output over all steps, by its name in the model.
        notes: what else is to be known of the numbers, one sentence each.
        first: the value that differs first, by its name in the model, and its place in the program; empty where
            all agree, or the runner cannot return what nodes write.
    """

    runner: str
    steps: int
    with_specials: bool
    inputs: Mapping[str, str]
    outputs: Mapping[str, Difference]
    notes: tuple[str, ...] = ()
    first: str = ""

    @property
    def agrees(self) -> bool:
        """Whether every output is within its tolerance."""
        return all(difference.within for difference in self.outputs.values())

    def __str__(self) -> str:
        verdict = "agrees" if self.agrees else "DIFFERS"
        special = ", and one with special values" if self.with_specials else ""
        return "\n".join(
            [
                f"{verdict} with {self.runner} over {counted(self.steps, 'step')}{special}",
                *(f"input {name}: {text}" for name, text in self.inputs.items()),
                *(f"output {name}: {difference_text(difference)}" for name, difference in self.outputs.items()),
                *(f"note: {note}" for note in self.notes),
                *([f"first: {self.first}"] if self.first else []),
            ]
        )


def difference_text(difference: Difference) -> str:
    """Return how far an output is from the original's, and how far it may be, in a line."""
    if difference.shapes:
        return "shape {}, the original's is {}".format(*difference.shapes)
    tolerance = difference.tolerance
    if difference.is_integer:
        text = _steps_text(difference)
        allowed = _allowed_steps(difference)
    else:
        text = f"largest difference {difference.largest:.3g}, {difference.relative:.3g} of the largest magnitude"
        allowed = f"allowed {tolerance.relative:.3g} of it, or {tolerance.absolute:.3g}"
    if difference.mismatched:
        text += f"; {difference.mismatched} of {difference.elements} elements are NaN or infinite in one alone"
    if difference.beyond:
        text += f"; {difference.beyond} of {difference.elements} elements are beyond"
    return f"{text} ({allowed})"


def _steps_text(difference: Difference) -> str:
    unequal = sum(count for _, count in difference.steps)
    if not unequal:
        return f"all of {counted(difference.elements, 'element')} equal"
    listed = [f"{count} by {distance}" for distance, count in difference.steps[:MOST_DISTANCES]]
    further = sum(count for _, count in difference.steps[MOST_DISTANCES:])
    listed += [f"{further} by up to {difference.steps[-1][0]}"] if further else []
    return f"{unequal} of {counted(difference.elements, 'element')} differ: {', '.join(listed)}"


def _allowed_steps(difference: Difference) -> str:
    tolerance = difference.tolerance
    if not tolerance.absolute and not tolerance.relative:
        return "none allowed"
    share = f", or {tolerance.relative:.3g} of the largest magnitude" if tolerance.relative else ""
    return f"allowed {tolerance.absolute:g}{share}"
