"""Asks for an argument that the hook does not have."""

from collections.abc import Iterable

from openinfer.plugin import KernelSpec, hookimpl

OPENINFER_API = 1


@hookimpl
def openinfer_kernels(target: str, precision: int) -> Iterable[KernelSpec]:
    """Offer nothing."""
    return ()
