"""Comparison of the outputs of an imported program with its original's, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.importers.expected_errors import Error, expected_errors
from openinfer.importers.original import DoubtedOriginal
from openinfer.synth.comparison import compare, worst

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from openinfer.importers.imported import ImportedModel
    from openinfer.importers.original import Original
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.plugins.environment import Environment
    from openinfer.synth.comparison import Difference
    from openinfer.tolerances import Tolerance

    Array = npt.NDArray[Any]

LARGEST_SCALE = 32768.0
"""Magnitude of inputs that counts at most, that of the large special floats: larger ones are masks, such as -3e38."""


class OutputComparison:
    """The differences of all steps so far, and what is to be known of them.

    Args:
        tolerances: by element type, or under ``""`` for all floats, in place of those that follow from the program.
    """

    def __init__(
        self,
        imported: ImportedModel,
        original: Original,
        tolerances: Mapping[str, Tolerance],
        program: ResolvedGraph,
        environment: Environment,
    ) -> None:
        self._imported = imported
        self._original = original
        self._overrides = tolerances
        self._program = program
        self._environment = environment
        self._notes: dict[str, str] = {}
        self._moves: dict[tuple[str, bool], list[_Move]] = {}
        self._step = ""
        self._added = 0
        self._scale = 1.0
        self._errors: dict[str, Error] | None = None
        self.differences: dict[str, Difference] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a reader should know, each once."""
        return (*self._notes.values(), *(self._moved(*key, moves) for key, moves in self._moves.items()))

    def note(self, text: str, of: str = "") -> None:
        """Add a note, the only one that is ``of`` something."""
        self._notes[of or text] = text

    def add(
        self,
        outputs: Mapping[str, Any],
        theirs: Mapping[str, Array],
        given: Mapping[str, Array],
        *,
        special: bool,
    ) -> bool:
        """Compare the outputs of a step with the original's; return whether one is beyond its tolerance.

        Args:
            given: what both ran on, by the names of the model.
            special: whether special floats are among it, so that results need not be finite.
        """
        is_beyond = False
        self._added += 1
        self._step = "the one with special floats" if special else str(self._added)
        largest = max([1.0, *(_magnitude(np.asarray(value)) for value in given.values())])
        self._scale = min(largest, LARGEST_SCALE)
        for name, ours in self._imported.report.outputs.items():
            difference = compare(name, theirs[name], np.asarray(outputs[name]), self.tolerance(ours))
            if not difference.within and difference.shapes is None and isinstance(self._original, DoubtedOriginal):
                difference = self._doubted(self._original, difference, np.asarray(outputs[name]), theirs[name], given)
            elif difference.not_finite and difference.within and not special:
                count = f"{difference.not_finite} of {difference.elements} elements are NaN or infinite"
                advice = "give inputs that fit with --input, or first values with --initial"
                self.note(f"output {name}: {count}, in the program too; {advice}", of=name)
            self.differences[name] = worst([self.differences.get(name, difference), difference])
            is_beyond |= not difference.within
        return is_beyond

    def tolerance(self, variable: str) -> Tolerance:
        """Return what is allowed of a variable of the program: as requested, or else as its statements round."""
        dtype = self._program.variables[variable].type.dtype
        override = self._overrides.get(dtype.name, self._overrides.get("") if dtype.is_float else None)
        if override is not None:
            return override
        if self._errors is None:
            self._errors = expected_errors(self._program, self._environment)
        return self._errors.get(variable, Error()).tolerance(dtype, self._scale)

    def _doubted(
        self,
        original: DoubtedOriginal,
        difference: Difference,
        ours: Array,
        theirs: Array,
        given: Mapping[str, Array],
    ) -> Difference:
        """Return how far an output is from what the original should have returned, which may be wrong itself."""
        name, tolerance = difference.name, difference.tolerance
        if not original.guards_overflow:
            return self._where_finite(ours, theirs, difference)
        again = original.unoptimised(given)[name]
        apart, without = compare(name, theirs, again, tolerance), compare(name, again, ours, tolerance)
        if apart.within:
            return difference
        self._moves.setdefault((name, without.within), []).append(_Move(self._step, apart))
        return without if without.within else difference

    def _moved(self, name: str, agrees: bool, moves: list[_Move]) -> str:
        """Return the note about what optimisations change of an output, in all steps alike."""
        apart = worst(move.apart for move in moves)
        share = f"{apart.largest:.3g}, {apart.relative:.3g} of the largest magnitude"
        mismatched = max(move.apart.mismatched for move in moves)
        finite = f", and {mismatched} elements to or from NaN or infinity" if mismatched else ""
        steps = f"step{'s' if len(moves) > 1 else ''} {' and '.join(_joined([move.step for move in moves]))}"
        by = f"move it by {'up to ' if len(moves) > 1 else ''}{share}{finite}"
        verdict = "agrees, which counts" if agrees else "differs too"
        return f"output {name}: the optimisations of {self._original.runner} {by} ({steps}); without them it {verdict}"

    def _where_finite(self, ours: Array, theirs: Array, difference: Difference) -> Difference:
        """Return the difference without elements that an evaluator lets overflow and the program does not."""
        if theirs.dtype.kind in "biu":
            return difference
        compared = np.isfinite(theirs.astype(np.float64)) | ~np.isfinite(ours.astype(np.float64))
        left_out = int(np.count_nonzero(~compared))
        if not left_out:
            return difference
        count = f"{left_out} of {theirs.size} elements are not compared"
        why = f"they are finite in the program, and not in {self._original.runner}, whose exponentials overflow"
        self.note(f"output {difference.name}: {count}: {why}; install onnxruntime to compare them")
        return compare(difference.name, theirs[compared], ours[compared], difference.tolerance)


@dataclass(frozen=True, slots=True)
class _Move:
    """How far optimisations of the original move an output in a step."""

    step: str
    apart: Difference


def _joined(words: list[str]) -> list[str]:
    """Return words to be joined by "and": all but the last with commas."""
    return [", ".join(words[:-1]), words[-1]] if len(words) > 1 else words


def _magnitude(values: Array) -> float:
    """Return the largest finite magnitude of floats; 0 for others."""
    if values.dtype.kind in "biu":
        return 0.0
    sizes = np.abs(values.astype(np.float64))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))
