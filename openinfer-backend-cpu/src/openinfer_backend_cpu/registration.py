"""How a kernel becomes known: a decorator that describes it, and a scan of the package `kernels` that finds it."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from openinfer.plugins.types import KernelSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from openinfer.ops.calls import OpCall
    from openinfer.simulate.backend import BoundCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

_DESCRIPTION = "openinfer_kernel_specs"

__all__ = ["Bind", "kernel", "kernel_specs"]


class Bind(Protocol):
    """A kernel: prepares a call on given arrays. Scratch memory comes from ``workspace``, or is allocated here.

    Arrays have the shapes of ``call`` and the NumPy type of their element type; packed types come unpacked, as int8 or
    uint8, and results are reduced to their width afterwards. No output is one of the inputs. The call that is returned
    computes as IEEE 754 says and leaves NumPy's floating-point warnings as its caller set them.
    """

    def __call__(
        self,
        call: OpCall,
        inputs: Sequence[npt.NDArray[np.generic] | None],
        outputs: Sequence[npt.NDArray[np.generic]],
        workspace: Workspace,
    ) -> BoundCall: ...


def kernel(
    op: str,
    *,
    dtypes: frozenset[str] | None = None,
    supports: Callable[[OpCall], bool] | None = None,
    cost: float = 1.0,
) -> Callable[[Any], Any]:
    """Describe the decorated function as a kernel of ``op``; it may be described for several operators."""

    def describe(bind: Any) -> Any:
        spec = KernelSpec(op=op, kernel=bind, dtypes=dtypes, supports=supports, cost=cost)
        setattr(bind, _DESCRIPTION, (*getattr(bind, _DESCRIPTION, ()), spec))
        return bind

    return describe


def kernel_specs() -> Iterator[KernelSpec]:
    """Yield every kernel of the package `kernels`, module by module in order of name."""
    from openinfer_backend_cpu import kernels

    for found in sorted(pkgutil.iter_modules(kernels.__path__), key=lambda module: module.name):
        module = importlib.import_module(f"{kernels.__name__}.{found.name}")
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__:
                yield from getattr(value, _DESCRIPTION, ())
