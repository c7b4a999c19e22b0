"""Calls of compiled steps: they wait until one of them is called, and are written and compiled together then."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.errors import OpenInferError
from openinfer_synth_c.leaving import LONG_WORK, run_until_stopped
from openinfer_synth_c.library import load_library, lock_of
from openinfer_synth_c.step_functions import StepFunction, library_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Compiled: TypeAlias = Callable[[Any, Any, Any], int]

Write: TypeAlias = Callable[[], StepFunction]
"""Writes the function of a step. Programs that run whole bind their steps too, and never call them."""


class StepCalls:
    """The functions of one opened device, which several threads may use; equal ones are compiled once.

    ``flags`` are those of the compiler, for what the functions use of the processor.
    """

    def __init__(self, flags: Sequence[str] = ()) -> None:
        self._flags = flags
        self._compiling = Lock()
        self._waiting: dict[Write, None] = {}
        self._written: dict[Write, StepFunction] = {}
        self._compiled: dict[StepFunction, Compiled] = {}

    def bind(self, write: Write, inputs: Sequence[Array], outputs: Sequence[Array], what: str) -> Callable[[], None]:
        """Return a call of a function on arrays, which stay where they are. ``what`` is how messages call it.

        The call raises what ``write`` raises.
        """
        self._waiting[write] = None
        stop = ctypes.c_int()
        given = _pointers(inputs), _pointers(outputs), ctypes.byref(stop)
        compiled: list[Callable[[], int]] = []

        def run(_arrays: object = (*inputs, *outputs)) -> None:
            if not compiled:
                function, code = self._of(write)
                call = partial(code, *given)
                is_long = function.work >= LONG_WORK
                compiled.append(partial(run_until_stopped, call, stop) if is_long else call)
            if compiled[0]():
                message = f"{what}: an index, an exponent or an element is out of range"
                raise OpenInferError(message, code="out-of-range")

        return run

    def _of(self, write: Write) -> tuple[StepFunction, Compiled]:
        with self._compiling:
            if write not in self._written:
                written = self._functions(write)
                self._compile([each for each in dict.fromkeys(written.values()) if each not in self._compiled])
                self._written |= written
                for each in written:
                    del self._waiting[each]
            function = self._written[write]
            return function, self._compiled[function]

    def _functions(self, wanted: Write) -> dict[Write, StepFunction]:
        """Return the functions that wait, without those that cannot be written: calls of these raise why."""
        found: dict[Write, StepFunction] = {}
        # Others may begin to wait meanwhile.
        for write in tuple(self._waiting):
            try:
                found[write] = write()
            except OpenInferError:
                if write is wanted:
                    raise
        return found

    def _compile(self, functions: Sequence[StepFunction]) -> None:
        if not functions:
            return
        library = load_library({"steps.c": library_source(functions)}, self._flags)
        for number, each in enumerate(functions):
            call: Compiled = library[f"step_{number}"]
            self._compiled[each] = _alone(call, lock_of(library)) if each.keeps_memory else call


def _alone(call: Compiled, lock: Lock) -> Compiled:
    """Return a call that waits until no other thread is in the functions of its library."""

    def run(given: object, results: object, stop: object) -> int:
        with lock:
            return call(given, results, stop)

    return run


def _pointers(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
