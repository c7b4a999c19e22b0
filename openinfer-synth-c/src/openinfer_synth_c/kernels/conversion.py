"""Conversion between element types where an element may be one that the other type has nothing for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr.linear import linearise
from openinfer.ops.calls import refused_expression, scalar_expression
from openinfer.ops.catalog.mutation import CAST
from openinfer_synth_c.index_text import for_head
from openinfer_synth_c.registration import kernel

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall
    from openinfer_synth_c.site import KernelSite


def _may_refuse(call: OpCall) -> bool:
    return refused_expression(CAST, call) is not None


@kernel("cast", supports=_may_refuse)
def cast(site: KernelSite) -> None:
    """x as the sign that t1 holds; an element without one ends the step with ``MODEL_INDEX``."""
    code, x, shape = site.code, site.input(0), site.call.outputs[0].shape
    counters = [f"i{axis}" for axis in range(len(shape))]
    with code.loops(for_head(counter, extent) for counter, extent in zip(counters, shape, strict=True)):
        element = {0: x.broadcast_at(counters, shape)}
        test = refused_expression(CAST, site.call)
        if test is not None:
            code.line(f"if ({code.compute(linearise(test), element, 'r')}) {{ return MODEL_INDEX; }}")
        value = code.compute(linearise(scalar_expression(CAST, site.call)), element, "t")
        site.store.write(code, counters, value)
