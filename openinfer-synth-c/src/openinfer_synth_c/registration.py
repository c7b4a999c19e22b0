"""Kernels of this target: functions that write the C code of one operator, found by scanning the package `kernels`.

A kernel that computes names the types that it computes in. It takes the low floats and packed types that are widened
to these too, and then sees its operands and its call in them (`openinfer_synth_c.widening`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias

from openinfer.dtypes import BUILTIN, F32, F64, SINT, UINT
from openinfer.ops.elementwise import work_type
from openinfer.plugins import kernel_modules
from openinfer_synth_c.widening import widened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall
    from openinfer.plugins.types import KernelSpec
    from openinfer_synth_c.site import KernelSite

    Emitter: TypeAlias = Callable[[KernelSite], None]

FLOATS = (F32, F64)
"""Floats that kernels compute in; low floats are widened to f32."""

INTEGERS = (*SINT, *UINT)
"""Integers that kernels compute in; packed types and bitset are widened to a byte."""

EVERY = BUILTIN
"""Every type, as it is stored: for kernels that move elements. A low float is its bits, an element of a packed type is
its number and has no address."""


def kernel(
    op: str,
    dtypes: Iterable[DType] = EVERY,
    supports: Callable[[OpCall], bool] | None = None,
    *,
    epilogue: bool = True,
) -> Callable[[Emitter], Emitter]:
    """Register the decorated function as the emitter of an operator's kernel; may be applied more than once.

    Args:
        dtypes: types of inputs that the function takes as they are.
        epilogue: whether it stores each element of its result once, through `KernelSite.store`.
    """
    names = frozenset(dtype.name for dtype in dtypes)
    return kernel_modules.kernel(op, dtypes=names, supports=supports, epilogue=epilogue)


def kernel_specs() -> tuple[KernelSpec, ...]:
    """Return every registered kernel, in order of module and definition."""
    from openinfer_synth_c import kernels

    return tuple(_with_widening(spec) for spec in kernel_modules.kernels_in(kernels))


def _with_widening(spec: KernelSpec) -> KernelSpec:
    """Return the kernel for its own types and for those that are widened to them."""
    own: frozenset[str] = spec.dtypes or frozenset()
    emit: Emitter = spec.kernel

    @wraps(emit)
    def emit_widened(site: KernelSite) -> None:
        emit(widened(site, own))

    narrow = frozenset(dtype.name for dtype in BUILTIN if work_type(dtype).name in own)
    return replace(spec, kernel=emit_widened, dtypes=own | narrow)
