"""Operators that a view describes: one loop nest per output, with a stride for each of its dims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.catalog.rearrangement import RULES, moved_by
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import for_head, signed_flat
from openinfer_synth_c.registration import kernel
from openinfer_synth_c.site import Store

if TYPE_CHECKING:
    from openinfer.ops.views import Moved
    from openinfer_synth_c.site import KernelSite


def rearrange(site: KernelSite) -> None:
    """Copy the view of x that belongs to each output."""
    for number, moved in enumerate(moved_by(site.call)):
        store = Store(output=site.outputs[number], epilogue=None, epilogue_inputs=()) if number else site.store
        if moved.view.count:
            _copy(site, moved, store)


for _name in RULES:
    kernel(_name)(rearrange)


def _copy(site: KernelSite, moved: Moved, store: Store) -> None:
    """Append the loops over the dims of the view; the result has dims of its own, which they are joined to."""
    code, x, own = site.code, site.input(0), contiguous(site.input(0).type.shape)
    extents = moved.view.extents
    counters = [f"i{axis}" for axis in range(len(extents))]
    place = signed_flat(counters, moved.view.strides(own), moved.view.offset(own))
    with code.loops(for_head(counter, extent) for counter, extent in zip(counters, extents, strict=True)):
        store.write(code, _position(counters, extents, moved.shape), x.at(place))


def _position(counters: list[str], extents: tuple[int, ...], shape: tuple[int, ...]) -> list[str]:
    """Return the counters of the result's axes, each of which is some neighbouring dims of the view.

    Extents are at least 1 here, so that a dim of 1 may belong to either neighbour.
    """
    found: list[str] = []
    place = 0
    for extent in shape:
        taken: list[tuple[str, int]] = []
        count = 1
        while count < extent:
            taken.append((counters[place], extents[place]))
            count *= extents[place]
            place += 1
        text = ""
        for counter, size in taken:
            if size != 1:
                text = f"({text} * {size} + {counter})" if text else counter
        found.append(text or "0")
    return found
