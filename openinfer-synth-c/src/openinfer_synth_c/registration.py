"""Kernels of this target: functions that write the C code of one operator, found by scanning the package `kernels`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, TypeAlias

from openinfer.dtypes import BOOL, F32, F64, SINT, UINT
from openinfer.plugins.types import KernelSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall
    from openinfer_synth_c.site import KernelSite

    Emitter: TypeAlias = Callable[[KernelSite], None]

FLOATS = (F32, F64)
INTEGERS = (*SINT, *UINT)
EVERY = (*FLOATS, *INTEGERS, BOOL)

_ATTRIBUTE = "openinfer_c_kernels"


def kernel(
    op: str, dtypes: Iterable[DType] = EVERY, supports: Callable[[OpCall], bool] | None = None
) -> Callable[[Emitter], Emitter]:
    """Register the decorated function as the emitter of an operator's kernel; may be applied more than once."""
    names = frozenset(dtype.name for dtype in dtypes)

    def register(emitter: Emitter) -> Emitter:
        spec = KernelSpec(op=op, kernel=emitter, dtypes=names, supports=supports)
        setattr(emitter, _ATTRIBUTE, (*getattr(emitter, _ATTRIBUTE, ()), spec))
        return emitter

    return register


def kernel_specs() -> tuple[KernelSpec, ...]:
    """Return every registered kernel, in order of module and definition."""
    from openinfer_synth_c import kernels

    found: list[KernelSpec] = []
    for info in sorted(pkgutil.iter_modules(kernels.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{kernels.__name__}.{info.name}")
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__:
                found += getattr(value, _ATTRIBUTE, ())
    return tuple(found)
