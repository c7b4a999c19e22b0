"""How a kernel becomes known: a decorator that describes it, and a scan of the package `kernels` that finds it."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, Protocol

from openinfer.plugins.types import KernelSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openinfer.ops.calls import OpCall
    from openinfer_backend_vulkan.shaders import Shader

_DESCRIPTION = "openinfer_kernel_specs"


class Write(Protocol):
    """A kernel: writes the shader of a call, whose inputs left out have no binding."""

    def __call__(self, call: OpCall) -> Shader: ...


def kernel(
    op: str,
    *,
    dtypes: frozenset[str] | None = None,
    supports: Callable[[OpCall], bool] | None = None,
    cost: float = 1.0,
) -> Callable[[Any], Any]:
    """Describe the decorated function as a kernel of ``op``; it may be described for several operators."""

    def describe(write: Any) -> Any:
        spec = KernelSpec(op=op, kernel=write, dtypes=dtypes, supports=supports, cost=cost)
        setattr(write, _DESCRIPTION, (*getattr(write, _DESCRIPTION, ()), spec))
        return write

    return describe


def kernel_specs() -> Iterator[KernelSpec]:
    """Yield every kernel of the package `kernels`, module by module in order of name."""
    from openinfer_backend_vulkan import kernels

    for found in sorted(pkgutil.iter_modules(kernels.__path__), key=lambda module: module.name):
        module = importlib.import_module(f"{kernels.__name__}.{found.name}")
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__:
                yield from getattr(value, _DESCRIPTION, ())
