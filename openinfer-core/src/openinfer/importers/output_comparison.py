"""Comparison of the outputs of an imported program with its original's, step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.importers.expected_errors import Error, expected_errors
from openinfer.importers.original import DoubtedOriginal
from openinfer.synth.comparison import compare, united, worst

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from openinfer.importers.imported import ImportedModel
    from openinfer.importers.large_floats import Reach
    from openinfer.importers.original import Original
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.plugins.environment import Environment
    from openinfer.synth.comparison import Difference
    from openinfer.tolerances import Tolerance

    Array = npt.NDArray[Any]
    Measure = Callable[[str, Array, Array], Difference]

REACH_MARGIN = 4.0
"""Times that an output may be off by what rounding large floats otherwise moves it."""

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
        reach: Mapping[str, Reach] | None = None,
    ) -> bool:
        """Compare the outputs of a step with the original's; return whether one is beyond its tolerance.

        Args:
            given: what both ran on, by the names of the model.
            reach: what large floats among it do to outputs, in a step with special floats, whose results need not be
                finite.
        """
        is_beyond = False
        self._added += 1
        self._step = "the one with special floats" if reach is not None else str(self._added)
        largest = max([1.0, *(_magnitude(np.asarray(value)) for value in given.values())])
        self._scale = min(largest, LARGEST_SCALE)
        for name, ours in self._imported.report.outputs.items():
            measure = self._measure(ours, None if reach is None else reach[name])
            difference = measure(name, theirs[name], np.asarray(outputs[name]))
            if not difference.within and difference.shapes is None and isinstance(self._original, DoubtedOriginal):
                ran = np.asarray(outputs[name]), theirs[name]
                difference = self._doubted(self._original, difference, measure, *ran, given)
            elif difference.not_finite and difference.within and reach is None:
                count = f"{difference.not_finite} of {difference.elements} elements are NaN or infinite"
                advice = "give inputs that fit with --input, or first values with --initial"
                self.note(f"output {name}: {count}, in the program too; {advice}", of=name)
            self.differences[name] = worst([self.differences.get(name, difference), difference])
            is_beyond |= not difference.within
        return is_beyond

    def tolerance(self, variable: str) -> Tolerance:
        """Return what is allowed of a variable of the program: as requested, or else as its statements round."""
        return self._override(variable) or self._expected(variable, self._scale)

    def share(self) -> float:
        """Return the largest share of an input that counts as a rounding error in an output."""
        return max((self._expected(ours, 1.0).absolute for ours in self._imported.report.outputs.values()), default=0.0)

    def _override(self, variable: str) -> Tolerance | None:
        dtype = self._program.variables[variable].type.dtype
        return self._overrides.get(dtype.name, self._overrides.get("") if dtype.is_float else None)

    def _expected(self, variable: str, scale: float) -> Tolerance:
        if self._errors is None:
            self._errors = expected_errors(self._program, self._environment)
        dtype = self._program.variables[variable].type.dtype
        return self._errors.get(variable, Error()).tolerance(dtype, scale)

    def _measure(self, variable: str, reach: Reach | None) -> Measure:
        """Return what compares the values of an output: elements that large floats reach apart from the others."""
        is_float = self._program.variables[variable].type.dtype.is_float
        if reach is None or not is_float or self._override(variable) is not None:
            return partial(compare, tolerance=self.tolerance(variable))
        narrow, wide = self._expected(variable, 1.0), self._expected(variable, self._scale)
        absolute = min(wide.absolute, max(narrow.absolute, REACH_MARGIN * reach.moved))
        reached = replace(narrow, absolute=absolute)

        def measure(name: str, expected: Array, values: Array) -> Difference:
            if expected.shape != values.shape or expected.shape != reach.reached.shape:
                return compare(name, expected, values, wide)
            apart = [
                compare(name, expected[group], values[group], tolerance)
                for group, tolerance in ((reach.reached, reached), (~reach.reached, narrow))
            ]
            return united(apart)

        return measure

    def _doubted(
        self,
        original: DoubtedOriginal,
        difference: Difference,
        measure: Measure,
        ours: Array,
        theirs: Array,
        given: Mapping[str, Array],
    ) -> Difference:
        """Return how far an output is from what the original should have returned, which may be wrong itself."""
        name = difference.name
        if not original.guards_overflow:
            return self._where_finite(ours, theirs, difference)
        again = original.unoptimised(given)[name]
        apart, without = measure(name, theirs, again), measure(name, again, ours)
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
