"""Several tensors side by side in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.shapes import axis_of, integer
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import kernel

if TYPE_CHECKING:
    from openinfer_synth_c.elements import Bound
    from openinfer_synth_c.site import KernelSite


@kernel("concat")
def concat(site: KernelSite) -> None:
    """Each input at its part of the result."""
    axis = _axis(site)
    start = 0
    for x in site.inputs:
        if x is not None:
            counters = [f"i{number}" for number in range(len(x.type.shape))]
            moved = f"({start} + i{axis})" if start else f"i{axis}"
            _copy(site, x, counters, [*counters[:axis], moved, *counters[axis + 1 :]])
            start += x.type.shape[axis]


@kernel("stack")
def stack(site: KernelSite) -> None:
    """Each input at its place along an axis of the result."""
    axis = _axis(site)
    for number, x in enumerate(site.inputs):
        if x is not None:
            counters = [f"i{place}" for place in range(len(x.type.shape))]
            _copy(site, x, counters, [*counters[:axis], str(number), *counters[axis:]])


def _axis(site: KernelSite) -> int:
    return axis_of(integer(site.call.settings.get("axis"), "axis"), len(site.call.outputs[0].shape))


def _copy(site: KernelSite, x: Bound, counters: list[str], target: list[str]) -> None:
    code, shape = site.code, x.type.shape
    if not x.type.count:
        return
    with code.loops(for_head(counter, extent) for counter, extent in zip(counters, shape, strict=True)):
        site.store.write(code, target, x.at(flat(counters, contiguous(shape))))
