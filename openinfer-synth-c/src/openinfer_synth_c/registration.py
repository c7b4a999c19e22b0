"""Kernels of this target: functions that write the C code of one operator, found by scanning the package `kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from openinfer.dtypes import BOOL, F32, F64, SINT, UINT
from openinfer.plugins import kernel_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall
    from openinfer.plugins.types import KernelSpec
    from openinfer_synth_c.site import KernelSite

    Emitter: TypeAlias = Callable[[KernelSite], None]

FLOATS = (F32, F64)
INTEGERS = (*SINT, *UINT)
EVERY = (*FLOATS, *INTEGERS, BOOL)


def kernel(
    op: str,
    dtypes: Iterable[DType] = EVERY,
    supports: Callable[[OpCall], bool] | None = None,
    *,
    epilogue: bool = True,
) -> Callable[[Emitter], Emitter]:
    """Register the decorated function as the emitter of an operator's kernel; may be applied more than once.

    ``epilogue``: whether it stores each element of its result once, through `KernelSite.store`.
    """
    names = frozenset(dtype.name for dtype in dtypes)
    return kernel_modules.kernel(op, dtypes=names, supports=supports, epilogue=epilogue)


def kernel_specs() -> tuple[KernelSpec, ...]:
    """Return every registered kernel, in order of module and definition."""
    from openinfer_synth_c import kernels

    return tuple(kernel_modules.kernels_in(kernels))
