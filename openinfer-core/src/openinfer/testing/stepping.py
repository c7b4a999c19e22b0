"""Whole programs carried out on a device or by a synth target, step by step, and what is wrong with their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.testing.programs import LONGEST_RUN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plugins.environment import Environment
    from openinfer.simulate import Executor
    from openinfer.simulate.state.snapshot import Snapshot
    from openinfer.testing.whole_programs import Array, Values, WholeProgram


def wrong_on_device(program: WholeProgram, device: str, environment: Environment) -> list[str]:
    """Return what is wrong with a program's results on a device, a line each.

    A program with state is run a second time, and continued from the snapshots of the first.

    Raises:
        OpenInferError: what the device or a kernel says.
    """
    simulator = Simulator(_model(program), device=device, limits=dict(program.limits), environment=environment)
    with simulator.make_executor(graph(program.text)) as executor:
        if not program.has_state:
            return _wrong(program, [_step(executor, program, number) for number in range(len(program.inputs))])
        snapshots: list[Snapshot] = []
        results: list[Values] = []
        for number in range(len(program.inputs)):
            snapshots.append(executor.snapshot())
            results.append(_step(executor, program, number))
        lines = _wrong(program, results)
        # Backwards, so that what a step restores is never what it would find anyway.
        for number in reversed(range(len(program.inputs))):
            executor.restore(snapshots[number])
            lines += _differences(program, number, _step(executor, program, number), " after a snapshot")
    return lines


def wrong_on_target(program: WholeProgram, target: str, environment: Environment) -> list[str]:
    """Return what is wrong with a program's results where a synth target writes it out, builds it and runs it.

    Raises:
        OpenInferError: what the target, its tools or the program say.
        ValueError: the program keeps state, and its steps have inputs or results of several shapes: a run of a target
            takes those of all steps as one array.
    """
    synthesizer = Synthesizer(target, environment=environment, limits=dict(program.limits))
    synthesis = synthesizer.synthesize(_model(program), graph(program.text))
    if not program.is_stackable:
        if program.has_state:
            raise ValueError(f"{program.name}: steps of several shapes cannot be stacked")
        return _wrong(program, [synthesis.run(step, timeout=LONGEST_RUN).outputs for step in program.inputs])
    count = len(program.inputs)
    stacked = {name: np.stack([step[name] for step in program.inputs]) for name in program.inputs[0]}
    outputs = synthesis.run(stacked, steps=count, timeout=LONGEST_RUN).outputs
    return _wrong(program, [{name: array[number] for name, array in outputs.items()} for number in range(count)])


def _model(program: WholeProgram) -> Model:
    return Model.from_arrays(dict(program.tensors), sizevars=dict(program.sizes))


def _step(executor: Executor, program: WholeProgram, number: int) -> dict[str, Array]:
    executor.step(**program.inputs[number])
    return {name: executor.fetch_raw(name).array for name in program.results[number]}


def _wrong(program: WholeProgram, results: Sequence[Values]) -> list[str]:
    return [line for number, values in enumerate(results) for line in _differences(program, number, values, "")]


def _differences(program: WholeProgram, number: int, results: Values, when: str) -> list[str]:
    """Return what is wrong with the results of one step."""
    lines: list[str] = []
    for name, expected in program.results[number].items():
        result = results[name]
        wanted = f"{expected.dtype}{list(expected.shape)} {expected.tolist()}"
        if (result.dtype, result.shape) != (expected.dtype, expected.shape) or not np.array_equal(result, expected):
            shown = f"{result.dtype}{list(result.shape)} {result.tolist()}"
            lines.append(f"{program.name}, step {number}{when}: {name} is {shown}, expected {wanted}")
    return lines
