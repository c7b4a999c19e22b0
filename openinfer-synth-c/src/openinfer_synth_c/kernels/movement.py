"""Data movement: elements keep their values and take other places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import kernel

if TYPE_CHECKING:
    from openinfer_synth_c.site import KernelSite


@kernel("reshape")
@kernel("flatten")
@kernel("identity")
def same_order(site: KernelSite) -> None:
    """The elements in their order, under another shape."""
    code, x = site.code, site.input(0)
    shape = site.call.outputs[0].shape
    if site.store.epilogue is None and x.pointer:
        site.outputs[0].copy(x.variable)
        return
    counters = [f"i{axis}" for axis in range(len(shape))]
    with code.loops(for_head(counter, extent) for counter, extent in zip(counters, shape, strict=True)):
        site.store.write(code, counters, x.at(flat(counters, contiguous(shape))))
