"""Inputs and outputs of synthesised programs: checks, and their form in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.diagnostics import did_you_mean
from openinfer.errors import SynthesisError
from openinfer.packing import pack, unpack
from openinfer.plan.steps import Register
from openinfer.synth.npy_harness import npy_descr

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanInput, PlanOutput

    Array = npt.NDArray[Any]


def file_form(array: Array, type: TensorType, steps: int | None) -> Array:
    """Return an array of the type's elements as it is in a file: f8 and bf16 as bits, packed types as bytes.

    Args:
        steps: how many there are on the first axis; None: one, without that axis.
    """
    if not type.dtype.is_packed:
        return array.view(npy_descr(type.dtype))
    if steps is None:
        return pack(array, type.dtype)
    return np.stack([pack(each, type.dtype) for each in array])


def from_file(array: Array, type: TensorType, steps: int | None) -> Array:
    """Return what the program wrote as an array of the type's elements, packed ones a byte each."""
    if not type.dtype.is_packed:
        return array.view(storage_dtype(type.dtype))
    if steps is None:
        return unpack(array, type.dtype, type.shape)
    return np.stack([unpack(each, type.dtype, type.shape) for each in array])


def from_npy(file: Path, port: PlanOutput, steps: int | None) -> Array:
    """Return what the program wrote to a file of an output.

    Steps of a result whose shape varies lie in it as arrays one after the other; they are returned as an array of
    objects.
    """
    if port.extents is None or steps is None:
        return from_file(np.load(file, allow_pickle=False), port.type, steps)
    found = np.empty(steps, dtype=object)
    with file.open("rb") as opened:
        for step in range(steps):
            found[step] = from_file(np.load(opened, allow_pickle=False), port.type, None)
    return found


def from_bytes(data: bytes, type: TensorType, steps: int | None) -> Array:
    """Return the elements of a raw file: the bytes of arrays in their file form, one for each step."""
    form = np.uint8 if type.dtype.is_packed else np.dtype(npy_descr(type.dtype))
    shape = (type.nbytes,) if type.dtype.is_packed else type.shape
    return from_file(np.frombuffer(data, form).reshape(shape if steps is None else (steps, *shape)), type, steps)


def given_arrays(plan: ExecutionPlan, inputs: Mapping[str, Array], steps: int | None, repeat: int) -> dict[str, Array]:
    """Return the inputs as arrays of the plan's types, packed ones unpacked to a byte an element.

    Raises:
        SynthesisError: a name is not an input, an array has another type, or there is nothing to run.
    """
    for number, what in ((steps, "steps"), (repeat, "repeat")):
        if number is not None and number < 1:
            raise SynthesisError(f"{what} is {number}, expected 1 or more")
    ports = {port.name: port for port in plan.inputs}
    for name in inputs:
        if name not in ports:
            hint = did_you_mean(name, ports) or f"its inputs are {', '.join(ports) or 'none'}"
            raise SynthesisError(f"the program has no input {name!r}: {hint}", code="unknown-variable")
    return {name: _checked(np.asarray(given), name, ports[name], steps) for name, given in inputs.items()}


def initial_arrays(plan: ExecutionPlan, initial: Mapping[str, Array] | None) -> dict[str, Array]:
    """Return first values of persistent variables as arrays of the plan's types, packed ones a byte an element.

    Raises:
        SynthesisError: a name is not that of a plain persistent variable, or an array has another type.
    """
    states = {state.name: state for state in plan.states}
    arrays: dict[str, Array] = {}
    for name, value in (initial or {}).items():
        if name not in states:
            hint = did_you_mean(name, states) or f"they are {', '.join(states) or 'none'}"
            raise SynthesisError(f"no persistent variable is {name!r}: {hint}", code="unknown-variable")
        array, type = np.asarray(value), states[name].type
        if array.shape != type.shape or array.dtype != storage_dtype(type.dtype):
            message = f"the first value of {name!r} is {array.dtype}{list(array.shape)}, expected {type}"
            raise SynthesisError(message, code="insert-mismatch")
        arrays[name] = np.ascontiguousarray(array).reshape(type.shape)
    return arrays


def _checked(array: Array, name: str, port: PlanInput, steps: int | None) -> Array:
    type = port.type
    shape = type.shape if steps is None else (steps, *type.shape)
    if port.extents is not None and array.ndim == len(shape):
        # Sizes of a step are those of its inputs; the program itself compares them.
        found = array.shape[len(shape) - len(type.shape) :]
        own = [
            min(most, extent) if isinstance(wanted, Register) else wanted
            for most, extent, wanted in zip(type.shape, found, port.extents, strict=True)
        ]
        shape = (*shape[: len(shape) - len(own)], *own)
    if array.shape != shape or array.dtype != storage_dtype(type.dtype):
        message = f"input {name!r} is {array.dtype}{list(array.shape)}, expected {type.dtype}{list(shape)}"
        raise SynthesisError(message, code="insert-mismatch")
    return np.ascontiguousarray(array).reshape(shape)
