"""Runs of synthesised programs whose arrays are raw files: for programs in any language.

A folder holds the files of a bundle and those of a run:

================  ====================================================================================================
``run.json``      ``steps``, ``repeat``: as in `openinfer.synth.SynthTarget.build_and_run`; ``sizes``: those of every
                  step, in the order of the registers that have them; ``inputs``, ``states``: numbers of those that a
                  file has
``input0.bin``    the values of input 0, one step after the other, elements in row-major order and little-endian;
                  packed elements share bytes, and each step starts on a byte of its own; likewise for other inputs
``state0.bin``    the first value of state 0, in the same form
``output0.bin``   the program writes the values of output 0, in the same form
``result.json``   the program writes ``micros``, the microseconds of a step, and ``shapes`` where shapes of outputs
                  differ between steps: for each step a list with the shape of each output
================  ====================================================================================================
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.errors import SynthesisError
from openinfer.ir.types import TensorType
from openinfer.plan.steps import Register
from openinfer.synth.arrays import file_form, from_bytes, given_arrays, initial_arrays
from openinfer.synth.target import RunResult

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanOutput
    from openinfer.synth.bundle import Bundle
    from openinfer.synth.target import Array


def write_run(
    folder: Path,
    plan: ExecutionPlan,
    bundle: Bundle,
    inputs: Mapping[str, Array],
    *,
    steps: int | None = None,
    repeat: int = 1,
    initial: Mapping[str, Array] | None = None,
) -> None:
    """Write a bundle, and what one run of it is given, to a folder; parameters as in `SynthTarget.build_and_run`.

    Raises:
        SynthesisError: an array does not fit the program, or an input without a default has none.
    """
    arrays, begin = given_arrays(plan, inputs, steps, repeat), initial_arrays(plan, initial)
    for port in plan.inputs:
        if port.needed and port.default is None and port.name not in arrays:
            message = f"the program needs the input {port.name!r}: give it a value"
            raise SynthesisError(message, code="dynamic-unset")
    sizes = _sizes(plan, arrays, steps)
    for name, data in bundle.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    read: dict[str, list[int]] = {"inputs": [], "states": []}
    for number, port in enumerate(plan.inputs):
        if port.name in arrays:
            data = file_form(arrays[port.name], port.type, steps).tobytes()
            (folder / f"input{number}.bin").write_bytes(data)
            read["inputs"].append(number)
    for number, state in enumerate(plan.states):
        if state.name in begin:
            (folder / f"state{number}.bin").write_bytes(file_form(begin[state.name], state.type, None).tobytes())
            read["states"].append(number)
    run = {"steps": 1 if steps is None else steps, "repeat": repeat, "sizes": list(sizes.values()), **read}
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")


def read_run(folder: Path, plan: ExecutionPlan, steps: int | None) -> RunResult:
    """Return what a program has written to a folder.

    Steps of an output whose shape varies are an array of objects.

    Raises:
        SynthesisError: a file is missing, or does not hold what the plan says.
    """
    try:
        document = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise TypeError(f"result.json holds {type(document).__name__}, expected an object")
        result = cast("dict[str, Any]", document)
        shapes: list[list[list[int]]] = result.get("shapes", [])
        outputs = {
            port.name: _output(
                (folder / f"output{number}.bin").read_bytes(), port, [step[number] for step in shapes], steps
            )
            for number, port in enumerate(plan.outputs)
        }
        return RunResult(outputs, float(result["micros"]))
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        message = f"what the synthesised program wrote cannot be read: {type(error).__name__}: {error}"
        raise SynthesisError(message, code="tool-failed") from error


def _sizes(plan: ExecutionPlan, arrays: Mapping[str, Array], steps: int | None) -> dict[str, int]:
    """Return the sizes of a step: those that the shapes of inputs have, the largest where none has one.

    Raises:
        SynthesisError: shapes of inputs do not fit one another.
    """
    names = {register.number: register.size for register in plan.registers if register.size is not None}
    shapes = {name: array.shape if steps is None else array.shape[1:] for name, array in arrays.items()}
    sizes: dict[str, int] = {}
    for port in plan.inputs:
        for extent, length in zip(port.extents or (), shapes.get(port.name, ()), strict=False):
            if isinstance(extent, Register) and extent.number in names:
                sizes.setdefault(names[extent.number], length)
    sizes = {name: sizes.get(name, most) for name, most in plan.given_sizes.items()}
    for port in plan.inputs:
        wanted = plan.shape_of(port, sizes)
        shape = shapes.get(port.name, wanted)
        if shape != wanted and len(shape) == len(wanted):
            bound = ", ".join(f"{name}={size}" for name, size in sizes.items())
            message = f"input {port.name!r} has the shape {list(shape)}, expected {list(wanted)}, as {bound}"
            raise SynthesisError(message, code="insert-mismatch")
    return sizes


def _output(data: bytes, port: PlanOutput, shapes: list[list[int]], steps: int | None) -> Array:
    if port.extents is None:
        return from_bytes(data, port.type, steps)
    for shape in shapes:
        if not _fits(shape, port):
            raise ValueError(f"the shape {shape} of {port.name}, expected at most {list(port.type.shape)}")
    types = [TensorType(port.type.dtype, tuple(shape)) for shape in shapes]
    ends = np.cumsum([0, *(type_.nbytes for type_ in types)])
    if len(types) != (steps or 1) or ends[-1] != len(data):
        raise ValueError(f"{len(data)} bytes of {port.name} in shapes {shapes}")
    parts = [from_bytes(data[ends[n] : ends[n + 1]], type_, None) for n, type_ in enumerate(types)]
    if steps is None:
        return parts[0]
    stacked = np.empty(steps, dtype=object)
    stacked[:] = parts
    return stacked


def _fits(shape: list[int], port: PlanOutput) -> bool:
    """Whether an output may have a shape: extents that vary are at most those of its type, the others are equal."""
    extents, most = port.extents or (), port.type.shape
    if len(shape) != len(most):
        return False
    return all(
        0 <= length <= limit if isinstance(extent, Register) else length == limit
        for length, limit, extent in zip(shape, most, extents, strict=True)
    )
