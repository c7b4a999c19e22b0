"""Calls of compiled steps: functions wait until one of them is called, and are compiled together then."""

from __future__ import annotations

import ctypes
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.errors import OpenInferError
from openinfer_synth_c.leaving import LONG_WORK, run_until_stopped
from openinfer_synth_c.library import load_library, lock_of
from openinfer_synth_c.step_functions import library_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer_synth_c.step_functions import StepFunction

    Array: TypeAlias = npt.NDArray[Any]
    Compiled: TypeAlias = Callable[[Any, Any, Any], int]


class StepCalls:
    """The functions of one opened device, which several threads may use; equal ones are compiled once.

    ``flags`` are those of the compiler, for what the functions use of the processor.
    """

    def __init__(self, flags: Sequence[str] = ()) -> None:
        self._flags = flags
        self._compiling = Lock()
        self._waiting: dict[StepFunction, None] = {}
        self._compiled: dict[StepFunction, Compiled] = {}

    def bind(
        self, function: StepFunction, inputs: Sequence[Array], outputs: Sequence[Array], what: str
    ) -> Callable[[], None]:
        """Return a call of a function on arrays, which stay where they are. ``what`` is how messages call it."""
        if function not in self._compiled:
            self._waiting[function] = None
        stop = ctypes.c_int()
        given = _pointers(inputs), _pointers(outputs), ctypes.byref(stop)
        compiled: list[Callable[[], int]] = []

        def run(_arrays: object = (*inputs, *outputs)) -> None:
            if not compiled:
                call = partial(self._of(function), *given)
                is_long = function.work >= LONG_WORK
                compiled.append(partial(run_until_stopped, call, stop) if is_long else call)
            if compiled[0]():
                message = f"{what}: an index, an exponent or an element is out of range"
                raise OpenInferError(message, code="out-of-range")

        return run

    def _of(self, function: StepFunction) -> Compiled:
        with self._compiling:
            if function not in self._compiled:
                self._compile(tuple(self._waiting))
            return self._compiled[function]

    def _compile(self, functions: Sequence[StepFunction]) -> None:
        """Compile functions together; others may begin to wait meanwhile."""
        library = load_library({"steps.c": library_source(functions)}, self._flags)
        for number, each in enumerate(functions):
            call: Compiled = library[f"step_{number}"]
            self._compiled[each] = _alone(call, lock_of(library)) if each.keeps_memory else call
            del self._waiting[each]


def _alone(call: Compiled, lock: Lock) -> Compiled:
    """Return a call that waits until no other thread is in the functions of its library."""

    def run(given: object, results: object, stop: object) -> int:
        with lock:
            return call(given, results, stop)

    return run


def _pointers(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
