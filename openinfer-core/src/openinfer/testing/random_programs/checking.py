"""Random programs on a device or by a synth target, and what is wrong with their results: those of cpu are right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import OpenInferError, SynthesisError
from openinfer.ir.graph import MemoryKind
from openinfer.packing import pack
from openinfer.simulate.values import Tensor
from openinfer.synth import Synthesizer
from openinfer.testing.programs import LONGEST_RUN
from openinfer.testing.random_programs.defined import defined_differences
from openinfer.testing.random_programs.drawing import drawn_sample
from openinfer.testing.random_programs.refusals import refusals_told
from openinfer.testing.random_programs.running import (
    Failed,
    HangError,
    executor_on,
    run_on,
    stepped,
    within,
)
from openinfer.testing.random_programs.sized_drawing import drawn_sized_sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.plan.values import PlanOutput
    from openinfer.plugins.environment import Environment
    from openinfer.synth import Synthesis
    from openinfer.testing.random_programs.running import Step
    from openinfer.testing.random_programs.sample import Array, Sample

REFERENCE = "cpu"
"""The device with the right results."""

SIZED = 4
"""One program in so many has sizes that change from step to step."""

TIMED_OUT = "tool-timeout"
"""Code of the error of a program, or of its compiler, that takes too long."""

TARGET_FAILED = "(any)"
"""Stands for the code of the error that a step of a target ends with: programs have words of their own."""


def random_sample(seed: int, number: int, environment: Environment) -> Sample:
    """Return the program of a number, which depends on that, the seed and the operators of the environment alone."""
    draw = drawn_sized_sample if number % SIZED == SIZED - 1 else drawn_sample
    return draw(seed, number, environment)


def wrong_on_device(sample: Sample, device: str, environment: Environment, *, gpu: bool = False) -> list[str]:
    """Return what is wrong with a program's results on a device, a line each, and errors of its steps.

    Args:
        gpu: whether the device may round as GPUs do, and take subnormals for zero.

    Raises:
        ProgramRefusedError: the device does not take the program.
        OpenInferError: what else it says before the first step, or what device cpu says.
    """
    expected = run_on(sample, REFERENCE, environment)
    with refusals_told(lambda: True):
        executor = executor_on(sample, device, environment)
    try:
        with within(int(LONGEST_RUN)), executor:
            steps = stepped(executor, sample.steps)
    except (OpenInferError, HangError) as error:
        return [_told(error)]
    program = expected.program
    return defined_differences(sample, program, expected.steps, steps, environment, gpu=gpu, flushes=gpu)


def wrong_on_target(sample: Sample, target: str, environment: Environment, *, gpu: bool = False) -> list[str]:
    """Return what is wrong with a program's results where a synth target writes it out, builds it and runs it.

    A run of a target takes the inputs of all steps as one array. Where steps have several shapes, a program that keeps
    state runs its first step only. A run ends at the first step that ends with an error; if that is the very first one,
    there is another run of a later step that has a result, which shows that the program can be built at all.

    Args:
        gpu: whether the target's programs may round as GPUs do, and take subnormals for zero.

    Raises:
        ProgramRefusedError: the target does not take the program.
        OpenInferError: what else it says before the program is built, or what device cpu says.
    """
    expected = run_on(sample, REFERENCE, environment)
    with refusals_told(lambda: sample.fits_at_limits(environment)):
        synthesizer = Synthesizer(target, environment=environment, limits=sample.limits_of_caches)
        synthesis = synthesizer.synthesize(sample.model(), sample.graph, sizes=sample.fixed_sizes)
    inputs = _inputs(sample, synthesis)
    lines: list[str] = []
    for run in _runs(sample, expected.steps, environment):
        wanted = _as_returned(run.expected, synthesis)
        try:
            actual = _steps_of_run(synthesis, inputs[run.first :], wanted)
        except OpenInferError as error:
            lines.append(f"step {run.first}{'' if len(wanted) == 1 else ' or later'}: {_told(error)}")
            continue
        lines += defined_differences(
            run.sample, expected.program, wanted, actual, environment, gpu=gpu, flushes=gpu, first=run.first
        )
    return lines


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class _Run:
    """Steps that a target runs one after the other, beginning with the first values of the program's state.

    Attributes:
        sample: a program whose values these steps have.
        first: the number of the first step.
        expected: what the steps leave on device cpu, up to the first that ends with an error.
    """

    sample: Sample
    first: int
    expected: Sequence[Step]


def _runs(sample: Sample, expected: Sequence[Step], environment: Environment) -> list[_Run]:
    """Return the runs of a target: of programs without state, one for each step."""
    if not any(declared.kind is MemoryKind.PERSISTENT for declared in sample.graph.vars.values()):
        return [_Run(sample, number, [step]) for number, step in enumerate(expected)]
    shapes = [{name: array.shape for name, array in inputs.items()} for inputs in sample.steps]
    names = {name for step in shapes for name in step}
    is_alike = all(len({step[name] for step in shapes if name in step}) == 1 for name in names)
    count = next((number for number, step in enumerate(expected) if isinstance(step, Failed)), len(expected) - 1) + 1
    runs = [_Run(sample, 0, expected[: count if is_alike else 1])]
    return [*runs, *_without_error(sample, environment)] if isinstance(expected[0], Failed) else runs


def _without_error(sample: Sample, environment: Environment) -> list[_Run]:
    """Return a run of one step that has a result where no step precedes it, if there is one."""
    for number, inputs in enumerate(sample.steps[1:], 1):
        alone = replace(sample, steps=(inputs,))
        steps = run_on(alone, REFERENCE, environment).steps
        if not isinstance(steps[0], Failed):
            return [_Run(alone, number, steps)]
    return []


def _inputs(sample: Sample, synthesis: Synthesis) -> list[dict[str, Array]]:
    """Return the inputs of steps, with the defaults of those that only some steps have."""
    ports = {port.name: port for port in synthesis.plan.inputs}
    names = {name for inputs in sample.steps for name in inputs if name in ports}
    steps: list[dict[str, Array]] = []
    for inputs in sample.steps:
        steps.append({})
        for name in sorted(names):
            type_, default = ports[name].type, ports[name].default
            filled = np.full(type_.shape, 0 if default is None else default).astype(storage_dtype(type_.dtype))
            steps[-1][name] = inputs.get(name, filled)
    return steps


def _as_returned(steps: Sequence[Step], synthesis: Synthesis) -> list[Step]:
    """Return steps with what a target returns: of results that statements may not write it has any value."""
    names = {port.name for port in synthesis.plan.outputs}
    return [
        Failed(TARGET_FAILED)
        if isinstance(step, Failed)
        else {name: value for name, value in step.items() if name in names}
        for step in steps
    ]


def _steps_of_run(synthesis: Synthesis, inputs: Sequence[Mapping[str, Array]], wanted: Sequence[Step]) -> list[Step]:
    """Return what a run yields, of which only the last step should end with an error, if any does.

    Raises:
        OpenInferError: a step that should not, or none, ends with this error.
    """
    count = len(wanted) - isinstance(wanted[-1], Failed)
    steps: list[Step] = []
    if count:
        outputs = _outputs(synthesis, inputs[:count])
        ports = {port.name: port for port in synthesis.plan.outputs}
        for number, step in enumerate(wanted[:count]):
            if not isinstance(step, Failed):
                steps.append({name: _tensor(outputs, ports[name], number) for name in step})
    if count < len(wanted):
        steps.append(_failed_step(synthesis, inputs[: count + 1]))
    return steps


def _failed_step(synthesis: Synthesis, inputs: Sequence[Mapping[str, Array]]) -> Step:
    """Return how a run ends whose last step should end with an error.

    Raises:
        OpenInferError: it ends with an error that no step of a program ends with.
    """
    try:
        _outputs(synthesis, inputs)
    except SynthesisError as error:
        if error.code == TIMED_OUT:
            raise
        return Failed(TARGET_FAILED)
    return {}


def _outputs(synthesis: Synthesis, inputs: Sequence[Mapping[str, Array]]) -> Mapping[str, Array]:
    stacked = {name: np.stack([step[name] for step in inputs]) for name in inputs[0]}
    return synthesis.run(stacked, steps=len(inputs), timeout=LONGEST_RUN).outputs


def _tensor(outputs: Mapping[str, Array], port: PlanOutput, step: int) -> Tensor:
    array, dtype = np.asarray(outputs[port.name][step]), port.type.dtype
    return Tensor(dtype, array.shape, pack(array, dtype) if dtype.is_packed else array)
