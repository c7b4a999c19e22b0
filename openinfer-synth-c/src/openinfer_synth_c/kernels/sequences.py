"""Evenly spaced numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32, F64, U64
from openinfer.expr.c_renderer import literal_text
from openinfer.ops.catalog.sequences import spacing
from openinfer.ops.shapes import axis_of, integer
from openinfer_synth_c.index_text import for_head
from openinfer_synth_c.registration import kernel

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.site import KernelSite


@kernel("range")
def spaced(site: KernelSite) -> None:
    """start + i * step; integers wrap."""
    code, out = site.code, site.call.outputs[0]
    start, step = spacing(site.call.settings, out.dtype)
    with code.loops((for_head("i", out.shape[0]),)):
        if out.dtype.is_float:
            first = literal_text(F64, start)
            text = f"({first} + (double)i * ({literal_text(F64, step)}))"
            # GCC takes 0.0 - (double)i for -(double)i, which is -0 for the first element.
            text = f"(i == 0 ? {first} : {text})" if start == 0 else text
        else:
            first, distance = (literal_text(U64, int(number) % 2**64) for number in (start, step))
            text = f"({first} + (uint64_t)i * {distance})"
        site.store.write(code, ("i",), _converted(code, text, out.dtype))


@kernel("iota")
def iota(site: KernelSite) -> None:
    """The place along an axis; integers wrap."""
    code, out = site.code, site.call.outputs[0]
    axis = axis_of(integer(site.call.settings.get("axis"), "axis"), len(out.shape))
    counters = [f"i{number}" for number in range(len(out.shape))]
    with code.loops(for_head(c, n) for c, n in zip(counters, out.shape, strict=True)):
        text = f"(double)i{axis}" if out.dtype.is_float else f"(uint64_t)i{axis}"
        site.store.write(code, counters, _converted(code, text, out.dtype))


def _converted(code: Code, text: str, dtype: DType) -> str:
    """Return a double or ``uint64_t`` as another type; low floats are rounded from f32."""
    if not dtype.is_float:
        return code.cast(text, U64, dtype)
    if not dtype.is_low_float:
        return code.cast(text, F64, dtype)
    return code.cast(code.cast(text, F64, F32), F32, dtype)
