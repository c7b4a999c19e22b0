"""Calls of whole programs: compiled once, without their weights, for every model that they fit."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.errors import DeviceError
from openinfer.plan.places import ALIGNMENT
from openinfer_synth_c.blob import blob_of
from openinfer_synth_c.leaving import LONG_WORK, run_until_stopped
from openinfer_synth_c.library import load_library, lock_of
from openinfer_synth_c.project import program_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.plan.execution_plan import ExecutionPlan

    Array: TypeAlias = npt.NDArray[Any]


def bind_plan(plan: ExecutionPlan, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], bool]:
    """Return a call that runs a step of a plan on arrays in the order of its ports; whether it was done is returned.

    Each call has an instance of the model for itself, so that threads run several at once.

    Raises:
        SynthesisError: the plan holds something that cannot be written out in C.
        DeviceError: it cannot be compiled.
    """
    blob = blob_of(plan, largest_embedded=0)
    source = program_source(plan, blob)
    library = load_library(source.files, () if plan.arch is None else plan.arch.compiler.flags)
    instance = _aligned(bytes(source.instance.nbytes))
    given = [instance, *([] if blob is None else [_aligned(blob.data)])]
    given += [_aligned(bytes(memory.nbytes)) for memory in source.instance.memories]
    status = library["model_init"](*(ctypes.c_void_p(array.ctypes.data) for array in given))
    if status:
        raise DeviceError(f"device c: the program cannot be initialised, status {status}")
    call = partial(library["model_step"], ctypes.c_void_p(instance.ctypes.data), _pointers(inputs), _pointers(outputs))
    kept = (*inputs, *outputs, *given)
    if source.work < LONG_WORK:
        return _checked(call, kept)
    # The flag that ends a long step is one for all instances.
    lock, stop = lock_of(library), ctypes.c_int.in_dll(library, "model_stop")
    call = partial(run_until_stopped, call, stop)

    def run(_kept: object = kept) -> bool:
        with lock:
            return call() == 0

    return run


def _checked(call: Callable[[], int], kept: object) -> Callable[[], bool]:
    """Return a call that says whether another one returned 0, and keeps what that works on."""

    def run(_kept: object = kept) -> bool:
        return call() == 0

    return run


def _aligned(data: bytes) -> Array:
    """Return a copy of bytes at an address that a model takes."""
    room = np.empty(len(data) + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return room[start : start + len(data)]


def _pointers(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    """Return the structure of pointers that a program takes, with a place for the field of an empty one."""
    return (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
