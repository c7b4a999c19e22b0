"""A synthesised program against the simulator, step by step; where they differ, the first node that does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.errors import OpenInferError
from openinfer.synth.comparison import compare_steps, worst
from openinfer.tolerances import EXACT, OF_OUTPUTS, widened
from openinfer_oinf.progress import advance, expect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.simulate import Simulator
    from openinfer.synth.comparison import Difference
    from openinfer.synth.synthesizer import Synthesis
    from openinfer.synth.target import Array, BoardRun
    from openinfer.tolerances import Tolerance


MOST_RUNS = 10
"""Runs of a step that are timed at most."""

LONGEST_TIMING = 2.0
"""Seconds for them, by the time that the target takes without repeating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found over all sequences of steps.

    Attributes:
        differences: of each output, the largest of all steps of the sequence that differs most.
        micros: microseconds of a step by the wall clock, the mean over all sequences of usual inputs.
        repeat: how many runs of each step were timed after one that does not count; 1: it ran once, first use included.
        first: where outputs first differ beyond tolerance; None where they never do.
        inputs: what was drawn for each input, or that it was given.
        board: what the last sequence took on an emulated board; None where programs ran on this machine.
        instead: why they ran here and not on the board of the device; "" where they did not, or it has none.
    """

    differences: tuple[Difference, ...]
    micros: float
    repeat: int
    first: FirstDifference | None
    inputs: Mapping[str, str]
    board: BoardRun | None = None
    instead: str = ""

    @property
    def within(self) -> bool:
        """Whether every output of every step is as near as it has to be."""
        return self.first is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The first step whose outputs differ.

    Attributes:
        sequence, step: their numbers, from 1.
        outputs: those that differ in this step.
        inputs: of this sequence, stacked.
    """

    sequence: int
    step: int
    outputs: tuple[str, ...]
    inputs: Mapping[str, Array]


def verify(
    synthesis: Synthesis,
    simulator: Simulator,
    sequences: Sequence[Mapping[str, Array]],
    *,
    special: Mapping[str, Array] | None = None,
    steps: int,
    tolerances: Mapping[str, Tolerance] | None = None,
    timeout: float = 60.0,
    initial: Mapping[str, Array] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Verification:
    """Run sequences of steps as source and in the simulator, and compare the outputs of every step.

    Args:
        sequences: inputs stacked on a first axis of ``steps``; each sequence begins with the initial state.
        special: one more sequence, with special floats: they may take more time than others.
        tolerances: by element type, or under ``""`` for all floats, in place of `openinfer.tolerances.OF_OUTPUTS`.
        timeout: seconds that compiling and running a sequence may take, each.
        initial: what persistent variables hold before the first step of each sequence, where that is not the
            program's.
        texts: what was drawn for each input, for people.

    Raises:
        SynthesisError: compiling or running failed.
        OpenInferError: an input does not suit the program; the simulator names the statement.
    """
    table = widened(OF_OUTPUTS, tolerances or {})
    allowed = {port.name: table.get(port.type.dtype.name, EXACT) for port in synthesis.plan.outputs}
    # Plans leave out variables that no statement reads.
    read = {state.name for state in synthesis.plan.states}
    begin = {name: value for name, value in (initial or {}).items() if name in read}
    largest: dict[str, Difference] = {}
    micros: list[float] = []
    first: FirstDifference | None = None
    # The first run, special or not, takes as long as it takes, and says how often others may be repeated.
    numbered = [*enumerate(sequences, 1)]
    untimed = (len(numbered) + 1, special) if special is not None else numbered[0]
    repeat = 1
    board, instead = None, ""
    expect((len(numbered) + 1) * steps)
    for number, (sequence, inputs) in enumerate([untimed, *numbered]):
        expected = _simulated(synthesis, simulator, inputs, steps, initial or {})
        found = synthesis.run(inputs, steps=steps, repeat=repeat, timeout=timeout, initial=begin)
        board, instead = found.board, found.instead
        micros += [found.micros] if number else []
        repeat = repeat if number else _repeats(found.micros * steps / 1e6, timeout)
        _widen(largest, expected, found.outputs, allowed)
        difference_of_sequence = _first_of(sequence, inputs, expected, found.outputs, allowed, steps)
        if difference_of_sequence is not None and (first is None or sequence < first.sequence):
            first = difference_of_sequence
    return Verification(
        differences=tuple(largest.values()),
        micros=float(np.mean(micros)),
        repeat=repeat,
        first=first,
        inputs=texts or {},
        board=board,
        instead=instead,
    )


def _widen(
    largest: dict[str, Difference],
    expected: Mapping[str, Sequence[Array]],
    outputs: Mapping[str, Any],
    allowed: Mapping[str, Tolerance],
) -> None:
    """Keep the largest difference of each output so far."""
    for name, array in outputs.items():
        difference = compare_steps(name, expected[name], array, allowed[name])
        largest[name] = worst([largest.get(name, difference), difference])


def _repeats(seconds: float, timeout: float) -> int:
    """Return how often a sequence may be run, given the seconds of one run; one more does not count."""
    if not seconds > 0:
        return 1
    return max(1, min(MOST_RUNS, int(min(LONGEST_TIMING, timeout / 2) / seconds) - 1))


def _simulated(
    synthesis: Synthesis,
    simulator: Simulator,
    inputs: Mapping[str, Array],
    steps: int,
    initial: Mapping[str, Array],
) -> Mapping[str, list[Array]]:
    names = [port.name for port in synthesis.plan.outputs]
    made: dict[str, list[Array]] = {name: [] for name in names}
    with simulator.make_executor() as executor:
        executor.restore(initial)
        for step in range(steps):
            executor.step(**{name: stacked[step] for name, stacked in inputs.items()})
            for name in names:
                made[name].append(np.array(executor.result(name).array))
            advance(1)
    return made


def _first_of(
    sequence: int,
    inputs: Mapping[str, Array],
    expected: Mapping[str, list[Array]],
    found: Mapping[str, Array],
    allowed: Mapping[str, Tolerance],
    steps: int,
) -> FirstDifference | None:
    differences = [compare_steps(name, expected[name], array, allowed[name]) for name, array in found.items()]
    apart = [difference.name for difference in differences if not difference.within]
    for step in range(steps if apart else 0):
        beyond = tuple(name for name in apart if not _agrees(name, expected[name], found[name], step, allowed[name]))
        if beyond:
            return FirstDifference(sequence=sequence, step=step + 1, outputs=beyond, inputs=inputs)
    return None


def _agrees(name: str, expected: list[Array], found: Array, step: int, tolerance: Tolerance) -> bool:
    """Whether a step alone is near enough, measured by the magnitudes of all steps."""
    mixed = found.copy()
    for other, array in enumerate(expected):
        if other != step:
            mixed[other] = array
    return compare_steps(name, expected, mixed, tolerance).within


def first_node(
    first: FirstDifference, reference: Simulator, other: Simulator, initial: Mapping[str, Array] | None = None
) -> str:
    """Return which node differs first, when every node is a function of the target on its own, in one line.

    Args:
        other: a simulator of the same program on the device that runs the target's code.
        initial: as `verify` takes it.
    """
    from openinfer.inspect.divergence import compare_executors

    given: list[dict[str, Any]] = [
        {name: stacked[step] for name, stacked in first.inputs.items()} for step in range(first.step)
    ]
    try:
        with reference.make_executor() as left, other.make_executor() as right:
            for executor in (left, right):
                executor.restore(initial or {})
            found = compare_executors((left, right), (reference.device, other.device), given).divergence
    except OpenInferError as error:
        return f"the first node that differs is unknown: {error}"
    if found is None:
        return "no node differs when each runs on its own: what differs is how the plan fuses, orders or places them"
    finding = found.finding()
    line = f"line {finding.span.line}: " if finding.span is not None else ""
    return f"the first node that differs: {line}{finding.message}"
