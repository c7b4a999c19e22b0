"""What a kernel of this device is, and the kernels of the package `kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from openinfer.dtypes import BUILTIN
from openinfer.plugins.kernel_modules import kernel, kernels_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.plugins.types import KernelSpec
    from openinfer_backend_vulkan.shaders import Pass, Shader


__all__ = ["COMPUTED", "Write", "kernel", "kernel_specs"]

COMPUTED = frozenset(dtype.name for dtype in BUILTIN if dtype.bits <= 32)
"""Element types that shaders compute in, by name; every device can."""


class Write(Protocol):
    """A kernel: writes the shader of a call, whose inputs left out have no binding, or the passes in their order."""

    def __call__(self, call: OpCall) -> Shader | Sequence[Pass]: ...


def kernel_specs() -> Iterator[KernelSpec]:
    """Yield every kernel of the package `kernels`, module by module in order of name."""
    from openinfer_backend_vulkan import kernels

    return kernels_in(kernels)
