"""Calls of compiled steps: functions wait until one of them is called, and are compiled together then."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.errors import ExecutionError
from openinfer_synth_c.library import load_library, lock_of
from openinfer_synth_c.step_functions import library_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Lock

    import numpy.typing as npt

    from openinfer_synth_c.step_functions import StepFunction

    Array: TypeAlias = npt.NDArray[Any]
    Compiled: TypeAlias = Callable[[Any, Any], int]


class StepCalls:
    """The functions of one opened device; equal ones are compiled once."""

    def __init__(self) -> None:
        self._waiting: dict[StepFunction, None] = {}
        self._compiled: dict[StepFunction, Compiled] = {}

    def bind(
        self, function: StepFunction, inputs: Sequence[Array], outputs: Sequence[Array], what: str
    ) -> Callable[[], None]:
        """Return a call of a function on arrays, which stay where they are. ``what`` is how messages call it."""
        if function not in self._compiled:
            self._waiting[function] = None
        given, results = _pointers(inputs), _pointers(outputs)
        compiled: list[Compiled] = []

        def run(_arrays: object = (*inputs, *outputs)) -> None:
            if not compiled:
                compiled.append(self._of(function))
            if compiled[0](given, results):
                message = f"{what}: an index or exponent is out of range"
                raise ExecutionError(message, code="out-of-range")

        return run

    def _of(self, function: StepFunction) -> Compiled:
        if function not in self._compiled:
            waiting = tuple(self._waiting)
            library = load_library({"steps.c": library_source(waiting)})
            for number, each in enumerate(waiting):
                call: Compiled = library[f"step_{number}"]
                self._compiled[each] = _alone(call, lock_of(library)) if each.keeps_memory else call
            self._waiting.clear()
        return self._compiled[function]


def _alone(call: Compiled, lock: Lock) -> Compiled:
    """Return a call that waits until no other thread is in the functions of its library."""

    def run(given: object, results: object) -> int:
        with lock:
            return call(given, results)

    return run


def _pointers(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
