"""Projects that a synth target writes, built and run as users do: with `make` and files of arrays."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plugins.environment import Environment
from openinfer.simulate.values import Tensor
from openinfer.synth import Synthesizer
from openinfer.synth.arrays import file_form, from_npy
from openinfer.synth.c_host.statuses import STATUSES
from random_programs.c_batches import LONGEST_BUILD, LONGEST_RUN, SHOWN, STATUS
from random_programs.running import Failed, Step
from random_programs.sample import Array, Sample

_NUMBERS = {status.text: status.number for status in STATUSES}


class EmittedError(Exception):
    """A project that does not compile, or a program that ends without a status."""


def run_emitted(sample: Sample, target: str, environment: Environment, expected: Sequence[Step]) -> tuple[Step, ...]:
    """Write a program for a target, build and run it.

    The program ends with the first step that fails, so that those after the first one that is expected to fail are
    left out.

    Raises:
        OpenInferError: the target refuses it.
        EmittedError: the project does not compile, or the program ends without a status.
    """
    synthesis = Synthesizer(target, environment=environment, limits=sample.limits).synthesize(
        sample.model(), sample.graph
    )
    with tempfile.TemporaryDirectory(prefix="openinfer-") as name:
        folder = Path(name)
        synthesis.emit(folder)
        _run(["make", "-s"], folder, LONGEST_BUILD, "does not compile")
        steps = next((n for n, step in enumerate(expected) if isinstance(step, Failed)), len(expected))
        ran: list[Step] = []
        if steps:
            ran += _stepped(sample, synthesis.plan, folder, steps)
        if len(ran) == steps < len(expected):
            ran += _stepped(sample, synthesis.plan, folder, steps + 1)[-1:]
    return tuple(ran)


def _stepped(sample: Sample, plan: ExecutionPlan, folder: Path, steps: int) -> list[Step]:
    """Run some steps; return what each gives, or the status that ended them after the ones before."""
    arguments = [f"./{plan.options.prefix}", "--steps", str(steps)]
    for port in plan.inputs:
        arrays = [inputs[port.name] for inputs in sample.steps[:steps] if port.name in inputs]
        forms = [file_form(array, port.type, None) for array in arrays]
        with Path(folder, f"{port.name}.npy").open("wb") as file:
            for form in forms if port.extents is not None else [np.stack(forms)]:
                np.save(file, form, allow_pickle=False)
        arguments += ["--input", f"{port.name}={port.name}.npy"]
    for port in plan.outputs:
        arguments += ["--output", f"{port.name}=made.{port.name}.npy"]
    said = _run(arguments, folder, LONGEST_RUN, "crashes", may_fail=True)
    if said is not None:
        return [Failed(said)]
    made = {port.name: from_npy(folder / f"made.{port.name}.npy", port, steps) for port in plan.outputs}
    return [dict(_tensors(plan, made, step)) for step in range(steps)]


def _tensors(plan: ExecutionPlan, made: Mapping[str, Array], step: int) -> Iterator[tuple[str, Tensor]]:
    for port in plan.outputs:
        array = np.asarray(made[port.name][step])
        yield port.name, Tensor(port.type.dtype, array.shape, np.ascontiguousarray(array))


def _run(command: Sequence[str], folder: Path, seconds: float, manner: str, *, may_fail: bool = False) -> str | None:
    """Run a command; return the code of the status that it ends with, where it may fail.

    Raises:
        EmittedError: it fails otherwise.
    """
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EmittedError(f"hangs: {command[0]} runs longer than {seconds:g} s") from error
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout)[:SHOWN].strip()
    number = _NUMBERS.get(said.partition(": step: ")[2])
    if may_fail and number is not None:
        return STATUS.get(number, f"status {number}")
    raise EmittedError(f"{manner}: {said or f'status {done.returncode}'}")
