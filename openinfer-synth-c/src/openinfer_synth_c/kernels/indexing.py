"""Elements at places that index inputs name; every index is tested before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import literal_text
from openinfer.ops.catalog.indexing import hot_value
from openinfer.ops.shapes import axis_of, integer
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.indices import declare_place, nothing_to_index
from openinfer_synth_c.registration import kernel

if TYPE_CHECKING:
    from openinfer_synth_c.elements import Bound
    from openinfer_synth_c.site import KernelSite


@kernel("gather")
def gather(site: KernelSite) -> None:
    """Slices of x along an axis."""
    x, indices = site.input(0), site.input(1)
    axis = axis_of(integer(site.call.settings.get("axis"), "axis"), len(x.type.shape))
    _gather(site, x, indices, axis, negative=True)


@kernel("embedding")
def embedding(site: KernelSite) -> None:
    """Rows of a table."""
    _gather(site, site.input(1), site.input(0), 0, negative=False)


def _gather(site: KernelSite, x: Bound, indices: Bound, axis: int, *, negative: bool) -> None:
    code, own, named = site.code, x.type.shape, indices.type.shape
    if nothing_to_index(site, indices, own[axis]):
        return
    outer, at, inner = (
        [f"{letter}{number}" for number in range(count)]
        for letter, count in (("i", axis), ("j", len(named)), ("k", len(own) - axis - 1))
    )
    heads = [for_head(c, n) for c, n in zip((*outer, *at), (*own[:axis], *named), strict=True)]
    with code.loops(heads):
        declare_place(code, "place", (indices, flat(at, contiguous(named))), own[axis], negative=negative)
        with code.loops(for_head(c, n) for c, n in zip(inner, own[axis + 1 :], strict=True)):
            element = x.at(flat([*outer, "place", *inner], contiguous(own)))
            site.store.write(code, [*outer, *at, *inner], element)


@kernel("gather_elements")
def gather_elements(site: KernelSite) -> None:
    """The element of x at each position, with another place along an axis."""
    code, x, indices = site.code, site.input(0), site.input(1)
    own, named = x.type.shape, indices.type.shape
    axis = axis_of(integer(site.call.settings.get("axis"), "axis"), len(own))
    if nothing_to_index(site, indices, own[axis]):
        return
    counters = [f"i{number}" for number in range(len(named))]
    with code.loops(for_head(c, n) for c, n in zip(counters, named, strict=True)):
        declare_place(code, "place", (indices, flat(counters, contiguous(named))), own[axis])
        source = [*counters[:axis], "place", *counters[axis + 1 :]]
        site.store.write(code, counters, x.at(flat(source, contiguous(own))))


@kernel("gather_nd")
def gather_nd(site: KernelSite) -> None:
    """Slices of x at tuples of places."""
    code, x, indices = site.code, site.input(0), site.input(1)
    own, named = x.type.shape, indices.type.shape
    batch, length = integer(site.call.settings.get("batch_dims"), "batch_dims"), named[-1]
    if nothing_to_index(site, indices, *own[batch : batch + length]):
        return
    at = [f"j{number}" for number in range(len(named) - 1)]
    inner = [f"k{number}" for number in range(len(own) - batch - length)]
    with code.loops(for_head(c, n) for c, n in zip(at, named[:-1], strict=True)):
        tuple_ = declare_tuple(site, indices, at, own[batch : batch + length])
        with code.loops(for_head(c, n) for c, n in zip(inner, own[batch + length :], strict=True)):
            element = x.at(flat([*at[:batch], *tuple_, *inner], contiguous(own)))
            site.store.write(code, [*at, *inner], element)


def declare_tuple(site: KernelSite, indices: Bound, at: list[str], extents: tuple[int, ...]) -> list[str]:
    """Append the places that the tuple at a position of ``indices`` names; return their names."""
    names: list[str] = []
    start = flat(at, contiguous(indices.type.shape)[:-1])
    for number, extent in enumerate(extents):
        position = start if not number else str(number) if start == "0" else f"{start} + {number}"
        declare_place(site.code, f"place{number}", (indices, position), extent)
        names.append(f"place{number}")
    return names


@kernel("one_hot")
def one_hot(site: KernelSite) -> None:
    """``on`` where the place along the axis is the index, or the index counted from the end."""
    code, indices, out = site.code, site.input(0), site.call.outputs[0]
    axis = axis_of(integer(site.call.settings.get("axis"), "axis"), len(out.shape))
    on, off = (literal_text(out.dtype, hot_value(site.call.settings, name, out.dtype)) for name in ("on", "off"))
    counters = [f"i{number}" for number in range(len(out.shape))]
    named = indices.type.shape
    with code.loops(for_head(c, n) for c, n in zip(counters, out.shape, strict=True)):
        position = flat([*counters[:axis], *counters[axis + 1 :]], contiguous(named))
        if indices.type.dtype.minimum == 0:
            code.line(f"const uint64_t index = {indices.at(position)};")
            hot = f"index == i{axis}"
        else:
            code.line(f"const int64_t index = {indices.at(position)};")
            place, depth = f"(int64_t)i{axis}", out.shape[axis]
            hot = f"index == {place} || (index < 0 && index >= {-depth} && index + {depth} == {place})"
        site.store.write(code, counters, f"({hot} ? {on} : {off})")
