"""Programs around models, run on arrays."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from openinfer.synth.arrays import file_form, from_npy
from openinfer.synth.c_host.toolchain import run_tool
from openinfer.synth.target import RunResult

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.target import Array

_TIMING = re.compile(r"microseconds per step: ([0-9.]+)")


def run_program(
    plan: ExecutionPlan,
    directory: Path,
    inputs: Mapping[str, Array],
    steps: int | None,
    repeat: int,
    timeout: float,
    initial: Mapping[str, Array],
) -> RunResult:
    """Run the program that was built in a directory; parameters are those of `openinfer.synth.SynthTarget`.

    Raises:
        SynthesisError: it cannot be started, fails, or takes too long.
    """
    arguments = [str(directory / plan.options.prefix)]
    if repeat > 1:
        arguments += ["--repeat", str(repeat)]
    if steps is not None:
        arguments += ["--steps", str(steps)]
    for number, port in enumerate(plan.inputs):
        if port.name in inputs:
            file = f"input{number}.npy"
            np.save(directory / file, file_form(inputs[port.name], port.type, steps), allow_pickle=False)
            arguments += ["--input", f"{port.name}={file}"]
    for number, state in enumerate(plan.states):
        if state.name in initial:
            file = f"initial{number}.npy"
            np.save(directory / file, file_form(initial[state.name], state.type, None), allow_pickle=False)
            arguments += ["--initial", f"{state.name}={file}"]
    for number, port in enumerate(plan.outputs):
        arguments += ["--output", f"{port.name}=output{number}.npy"]
    said = run_tool(arguments, directory, timeout, "the synthesised program")
    outputs: dict[str, Array] = {
        port.name: from_npy(directory / f"output{number}.npy", port, steps) for number, port in enumerate(plan.outputs)
    }
    timing = _TIMING.search(said)
    return RunResult(outputs, float(timing.group(1)) if timing else float("nan"))
