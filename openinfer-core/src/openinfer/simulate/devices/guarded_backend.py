"""Opening devices of plugins. Every call into the backend of a third party is guarded, and so are the calls that it
binds; what it returns is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.arch import DeviceArch
from openinfer.array_types import storage_dtype
from openinfer.errors import OpenInferError
from openinfer.plan.schedules import ScheduleFile
from openinfer.plugins.crossing import crossing, fault, guarded_in_steps, guarded_methods, members, shown, wrong
from openinfer.plugins.types import load_object
from openinfer.simulate.devices.backend import (
    ComputationBackend,
    DeferredFaultBackend,
    DeviceBackend,
    HostBackend,
    LendingBackend,
    LoopBackend,
    TimedBackend,
)
from openinfer.simulate.devices.floating_point import restoring_errors
from openinfer.simulate.devices.guarded_state import GuardedState
from openinfer.simulate.devices.programs import ProgramBackend, StateBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plugins.crossing import Owner
    from openinfer.plugins.types import DeviceSpec
    from openinfer.scalars import Scalar
    from openinfer.simulate.devices.backend import Array, Buffer
    from openinfer.simulate.devices.programs import StateProgram

_PASSING = (OpenInferError, MemoryError)
"""What methods of a backend raise on purpose; memory may really be short."""
_FURTHER = (
    HostBackend,
    ProgramBackend,
    StateBackend,
    ComputationBackend,
    LoopBackend,
    TimedBackend,
    LendingBackend,
    DeferredFaultBackend,
)
"""Protocols whose methods a backend may have."""


def opened_backend(spec: DeviceSpec, ordinal: int, owner: Owner) -> DeviceBackend:
    """Return an opened device.

    Raises:
        DeviceError: it cannot be opened.
        PluginError: opening it raised something else, or a method is missing.
    """
    make = load_object(spec.backend, owner)
    with crossing(owner, f"opening device {spec.name}", passing=_PASSING):
        backend: DeviceBackend = make(ordinal)
    if not owner.is_foreign:
        return backend
    return cast("DeviceBackend", GuardedBackend(owner, f"device {spec.name}", backend))


class GuardedBackend:
    """Wraps the backend of a third party; it has the same methods.

    Methods are attributes of the instance, so that `HostBackend` and `ProgramBackend` hold for what they hold for.
    """

    def __init__(self, owner: Owner, what: str, backend: object) -> None:
        self._owner, self._what = owner, what
        names = list(members(DeviceBackend))
        with crossing(owner, f"reading the methods of {what}"):
            self.name = str(cast("Any", backend).name)
            for further in _FURTHER:
                own = members(further)
                names += own if all(hasattr(backend, name) for name in own) else ()
            self.arch = self._part_of_plans("arch", getattr(backend, "arch", None), DeviceArch)
            self.schedules = self._part_of_plans("schedules", getattr(backend, "schedules", None), ScheduleFile)
        methods = guarded_methods(owner, what, backend, names, passing=_PASSING)
        checks = {**dict.fromkeys((name for name in names if name.startswith("bind_")), self._call), **self._checks()}
        vars(self).update({name: self._checked(name, call, checks.get(name)) for name, call in methods.items()})

    def _part_of_plans(self, name: str, value: object, expected: type[Any]) -> Any:
        """Return an attribute of the backend that plans are made with; None where it has none."""
        if value is not None and type(value) is not expected:
            raise fault(self._owner, f"{name} of {self._what} is {shown(value)}, expected {expected.__name__} or None")
        return value

    def _checks(self) -> dict[str, Callable[..., Any]]:
        return {
            "allocate": self._buffer,
            "upload": self._buffer,
            "resized": self._resized,
            "read": self._read,
            "lend": self._lent,
            "scalar_reader": self._reader_or_none,
            "overlap": self._truth,
            "bind_program": self._program,
            "open_program": self._state_program,
            "direct_kernel": self._call_or_none,
            "concurrent_backend": self._concurrent_backend,
            "timed_synchronize": self._nanoseconds,
        }

    def _checked(self, name: str, method: Callable[..., Any], check: Callable[..., Any] | None) -> Callable[..., Any]:
        """Return a method whose result goes through ``check``, together with its name and arguments."""
        if check is None:
            return method
        return lambda *arguments: check(name, method(*arguments), *arguments)

    def _buffer(self, name: str, buffer: Any, kind: TensorType, *_: object) -> Buffer:
        with crossing(self._owner, f"reading the type of a buffer of {self._what}"):
            is_right = buffer is not None and buffer.type == kind
        if not is_right:
            raise fault(self._owner, f"{name} of {self._what} {wrong(buffer, f'a buffer of type {kind}')}")
        return cast("Buffer", buffer)

    def _resized(self, name: str, buffer: Any, _: Buffer, kind: TensorType) -> Buffer:
        return self._buffer(name, buffer, kind)

    def _array(self, name: str, returned: Any, kind: TensorType) -> Array:
        shape = (kind.nbytes,) if kind.dtype.is_packed else kind.shape
        dtype = np.dtype(np.uint8) if kind.dtype.is_packed else storage_dtype(kind.dtype)
        array = cast("Array | None", returned if isinstance(returned, np.ndarray) else None)
        if array is None or array.dtype != dtype or array.shape != shape:
            raise fault(
                self._owner, f"{name} of {self._what} {wrong(returned, f'an array for {kind} in storage form')}"
            )
        return array

    def _read(self, name: str, array: Any, buffer: Buffer) -> Array:
        return self._array(name, array, buffer.type)

    def _lent(self, name: str, returned: Any, kind: TensorType) -> Array:
        array = self._array(name, returned, kind)
        if not array.flags.writeable:
            raise fault(self._owner, f"{name} of {self._what} returned a read-only array, expected one to be filled")
        return array

    def _call(self, name: str, call: Any, *_: object) -> Callable[..., Any]:
        if not callable(call):
            raise fault(self._owner, f"{name} of {self._what} {wrong(call, 'a function')}")
        action = f"the call that {name} of {self._what} returned"
        return restoring_errors(guarded_in_steps(self._owner, action, call, passing=_PASSING))

    def _call_or_none(self, name: str, call: Any, *arguments: object) -> Callable[..., Any] | None:
        return None if call is None else self._call(name, call, *arguments)

    def _reader_or_none(self, name: str, reader: Any, *_: object) -> Callable[[], Scalar] | None:
        return None if reader is None else self._yielding(name, reader, _is_scalar, "a number or bool")

    def _program(self, name: str, program: Any, *_: object) -> Callable[[], bool]:
        return self._yielding(name, program, _is_bool, "a bool")

    def _state_program(self, name: str, state: Any, plan: ExecutionPlan, *_: object) -> StateProgram:
        what = f"the program that {name} of {self._what} returned"
        return GuardedState(self._owner, what, state, plan, passing=_PASSING)

    def _truth(self, name: str, truth: Any, *_: object) -> bool:
        if not _is_bool(truth):
            raise fault(self._owner, f"{name} of {self._what} {wrong(truth, 'a bool')}")
        return bool(truth)

    def _yielding(self, name: str, reader: Any, is_right: Callable[[object], bool], expected: str) -> Callable[[], Any]:
        """Return a bound call whose result is checked each time."""
        bound = self._call(name, reader)

        def call() -> Any:
            result = bound()
            if not is_right(result):
                message = f"the call that {name} of {self._what} returned {wrong(result, expected)}"
                raise fault(self._owner, message)
            return result

        return call

    def _nanoseconds(self, name: str, nanoseconds: Any) -> int | None:
        if nanoseconds is not None and not (type(nanoseconds) is int and 0 <= nanoseconds < 1 << 63):
            raise fault(
                self._owner, f"{name} of {self._what} {wrong(nanoseconds, 'nanoseconds, an int from 0, or None')}"
            )
        return nanoseconds

    def _concurrent_backend(self, _: str, backend: Any) -> GuardedBackend | None:
        return None if backend is None else GuardedBackend(self._owner, self._what, backend)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_scalar(value: object) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return isinstance(value, float | np.bool_ | np.number)
