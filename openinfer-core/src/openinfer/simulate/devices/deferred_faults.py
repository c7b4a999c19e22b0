"""Faults that a device finds after the call that causes them has returned (`DeferredFaultBackend`)."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from openinfer.errors import DeviceError, ExecutionError
from openinfer.simulate.devices.backend import DeferredFaultBackend

if TYPE_CHECKING:
    from collections.abc import Generator

    from openinfer.simulate.devices.backend import DeviceBackend


@contextmanager
def first_failure(backend: DeviceBackend) -> Generator[None]:
    """Where a statement fails inside, raise the fault of an earlier statement instead, if the device finds one."""
    try:
        yield
    except ExecutionError:
        if isinstance(backend, DeferredFaultBackend):
            try:
                backend.need_no_fault()
            except ExecutionError as earlier:
                raise earlier from None
        raise


def drop_faults(backend: DeviceBackend) -> None:
    """Drop the faults of calls so far, so that none is raised in a later step."""
    if isinstance(backend, DeferredFaultBackend):
        # A device that is lost or closed has none left; whoever uses it next sees the error.
        with suppress(ExecutionError, DeviceError):
            backend.need_no_fault()
