"""Calls of whole programs: compiled once, without their weights, for every model that they fit."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.plan.arena import ALIGNMENT
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

    Raises:
        SynthesisError: the plan holds something that cannot be written out in C.
        DeviceError: it cannot be compiled.
    """
    blob = blob_of(plan, largest_embedded=0)
    source = program_source(plan, blob)
    library = load_library(source.files, () if plan.arch is None else plan.arch.compiler.flags)
    lock = lock_of(library)
    weights = None if blob is None else _aligned(blob.data)
    step = library["model_step"]
    set_weights = None
    if weights is not None:
        set_weights = partial(library["model_set_weights"], ctypes.c_void_p(weights.ctypes.data))
    call = partial(step, _pointers(inputs), _pointers(outputs))
    if source.work >= LONG_WORK:
        call = partial(run_until_stopped, call, ctypes.c_int.in_dll(library, "model_stop"))

    def run(_arrays: object = (*inputs, *outputs, weights)) -> bool:
        with lock:
            if set_weights is not None and set_weights():
                return False
            return call() == 0

    return run


def _aligned(data: bytes) -> Array:
    room = np.empty(len(data) + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return room[start : start + len(data)]


def _pointers(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    """Return the structure of pointers that a program takes, with a place for the field of an empty one."""
    return (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
