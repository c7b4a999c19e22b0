"""Random programs on a device or by a synth target, and what is wrong with their results: those of cpu are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import OpenInferError
from openinfer.ir.graph import MemoryKind
from openinfer.packing import pack
from openinfer.simulate.values import Tensor
from openinfer.synth import Synthesizer
from openinfer.testing.programs import LONGEST_RUN
from openinfer.testing.random_programs.defined import defined_differences
from openinfer.testing.random_programs.drawing import drawn_sample
from openinfer.testing.random_programs.running import Failed, run_on
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

TARGET_FAILED = "failed"
"""Stands for the code of the error that a step of a target ends with: programs have words of their own."""


def random_sample(seed: int, number: int, environment: Environment) -> Sample:
    """Return the program of a number, which depends on that, the seed and the operators of the environment alone."""
    draw = drawn_sized_sample if number % SIZED == SIZED - 1 else drawn_sample
    return draw(seed, number, environment)


def wrong_on_device(sample: Sample, device: str, environment: Environment) -> list[str]:
    """Return what is wrong with a program's results on a device, a line each.

    Raises:
        OpenInferError: what the device or a kernel says before the first step.
    """
    expected = run_on(sample, REFERENCE, environment)
    found = run_on(sample, device, environment)
    return defined_differences(sample, expected.program, expected.steps, found.steps, environment)


def wrong_on_target(sample: Sample, target: str, environment: Environment) -> list[str]:
    """Return what is wrong with a program's results where a synth target writes it out, builds it and runs it.

    A run of a target takes the inputs of all steps as one array. Where steps have several shapes, a program that keeps
    state runs its first step only. A run ends at the first step that ends with an error.

    Raises:
        OpenInferError: what the target or its tools say.
    """
    expected = run_on(sample, REFERENCE, environment)
    synthesizer = Synthesizer(target, environment=environment, limits=sample.limits_of_caches)
    synthesis = synthesizer.synthesize(sample.model(), sample.graph, sizes=sample.fixed_sizes)
    lines: list[str] = []
    for first, end in _runs(sample):
        wanted = _comparable(expected.steps[first:end], synthesis)
        found = _ran(synthesis, _inputs(sample, synthesis)[first:end], wanted)
        lines += defined_differences(sample, expected.program, wanted[: len(found)], found, environment)
    return lines


def _runs(sample: Sample) -> list[tuple[int, int]]:
    """Return the first step and the end of each run of a target."""
    shapes = [{name: array.shape for name, array in inputs.items()} for inputs in sample.steps]
    if any(declared.kind is MemoryKind.PERSISTENT for declared in sample.graph.vars.values()):
        names = {name for step in shapes for name in step}
        is_alike = all(len({step[name] for step in shapes if name in step}) == 1 for name in names)
        return [(0, len(shapes) if is_alike else 1)]
    return [(number, number + 1) for number in range(len(shapes))]


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


def _comparable(steps: Sequence[Step], synthesis: Synthesis) -> list[Step]:
    """Return steps with what a target returns: of results that statements may not write it has any value."""
    names = {port.name for port in synthesis.plan.outputs}
    return [
        Failed(TARGET_FAILED)
        if isinstance(step, Failed)
        else {name: value for name, value in step.items() if name in names}
        for step in steps
    ]


def _ran(synthesis: Synthesis, inputs: Sequence[Mapping[str, Array]], wanted: Sequence[Step]) -> list[Step]:
    """Return what a run yields, up to the first step that should end with an error."""
    count = next((number for number, step in enumerate(wanted) if isinstance(step, Failed)), len(wanted))
    steps: list[Step] = []
    if count:
        outputs = _outputs(synthesis, inputs[:count])
        ports = {port.name: port for port in synthesis.plan.outputs}
        for number, step in enumerate(wanted[:count]):
            if not isinstance(step, Failed):
                steps.append({name: _tensor(outputs, ports[name], number) for name in step})
    if count < len(wanted):
        try:
            _outputs(synthesis, inputs[: count + 1])
        except OpenInferError:
            steps.append(Failed(TARGET_FAILED))
        else:
            steps.append({})
    return steps


def _outputs(synthesis: Synthesis, inputs: Sequence[Mapping[str, Array]]) -> Mapping[str, Array]:
    stacked = {name: np.stack([step[name] for step in inputs]) for name in inputs[0]}
    return synthesis.run(stacked, steps=len(inputs), timeout=LONGEST_RUN).outputs


def _tensor(outputs: Mapping[str, Array], port: PlanOutput, step: int) -> Tensor:
    array, dtype = np.asarray(outputs[port.name][step]), port.type.dtype
    return Tensor(dtype, array.shape, pack(array, dtype) if dtype.is_packed else array)
