"""Kernels of a package: a decorator that describes them, and a scan of the package's modules that finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.plugins.types import KernelSpec
from openinfer.scanning import modules_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from openinfer.ops.calls import OpCall

_DESCRIPTION = "openinfer_kernel_specs"


def kernel(
    op: str,
    *,
    dtypes: frozenset[str] | None = None,
    supports: Callable[[OpCall], bool] | None = None,
    cost: float = 1.0,
    epilogue: bool = True,
) -> Callable[[Any], Any]:
    """Describe the decorated function as a kernel of ``op``; it may be described for several operators."""

    def describe(function: Any) -> Any:
        spec = KernelSpec(op=op, kernel=function, dtypes=dtypes, supports=supports, cost=cost, epilogue=epilogue)
        setattr(function, _DESCRIPTION, (*getattr(function, _DESCRIPTION, ()), spec))
        return function

    return describe


def kernels_in(package: ModuleType) -> Iterator[KernelSpec]:
    """Yield every kernel in a package's modules, module by module in order of name."""
    for module in modules_in(package):
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__:
                yield from getattr(value, _DESCRIPTION, ())
