"""Powers of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import U64
from openinfer_synth_c.index_text import for_head
from openinfer_synth_c.registration import INTEGERS, kernel

if TYPE_CHECKING:
    from openinfer_synth_c.site import KernelSite


@kernel("pow", dtypes=INTEGERS)
def power(site: KernelSite) -> None:
    """a to the power b by squaring, modulo the width; a negative exponent ends the step with ``MODEL_INDEX``."""
    code, out = site.code, site.call.outputs[0]
    counters = [f"i{axis}" for axis in range(len(out.shape))]
    a, b = site.input(0), site.input(1)
    with code.loops(for_head(counter, extent) for counter, extent in zip(counters, out.shape, strict=True)):
        exponent = b.broadcast_at(counters, out.shape)
        code.line(f"const {b.c_type} exponent = {exponent};")
        if b.type.dtype.minimum != 0:
            code.line("if (exponent < 0) { return MODEL_INDEX; }")
        code.line("uint64_t left = (uint64_t)exponent, result = 1;")
        code.line(
            f"const {a.c_type} base = {a.broadcast_at(counters, out.shape)};", "uint64_t square = (uint64_t)base;"
        )
        with code.braces("while (left != 0)"):
            code.line("if (left & 1) { result *= square; }", "square *= square;", "left >>= 1;")
        site.store.write(code, counters, code.cast("result", U64, out.dtype))
