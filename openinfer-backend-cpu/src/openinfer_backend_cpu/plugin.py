"""Entry point of the distribution: what it offers to OpenInfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BUILTIN
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.types import DeviceSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.plugins.types import KernelSpec

OPENINFER_API = 1


@hookimpl
def openinfer_devices() -> Iterable[DeviceSpec]:
    """The device cpu; element types of any width, computed by NumPy."""
    yield DeviceSpec(
        name="cpu",
        summary="this processor, through NumPy",
        probe="openinfer_backend_cpu.probe:probe",
        backend="openinfer_backend_cpu.backend:CpuBackend",
        expression_dtypes=frozenset(dtype.name for dtype in BUILTIN),
        computations=True,
        loop_programs=True,
    )


@hookimpl
def openinfer_kernels(target: str) -> Iterable[KernelSpec]:
    """The hand-written kernels, which are imported here."""
    if target != "cpu":
        return ()
    from openinfer.plugins.kernel_modules import kernels_in
    from openinfer_backend_cpu import kernels

    return kernels_in(kernels)
