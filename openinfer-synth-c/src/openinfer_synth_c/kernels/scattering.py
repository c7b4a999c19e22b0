"""Copies of a tensor with updates at places that index inputs name; every index is tested before it is used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ops.shapes import axis_of, integer
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.indices import nothing_to_index
from openinfer_synth_c.kernels.indexing import declare_place, declare_tuple
from openinfer_synth_c.registration import FLOATS, INTEGERS, kernel

if TYPE_CHECKING:
    from openinfer.expr.tree import Expr
    from openinfer.ops.calls import OpCall
    from openinfer_synth_c.elements import Bound
    from openinfer_synth_c.site import KernelSite

_COMBINED = {"add": tree.add, "mul": tree.mul, "max": tree.maximum, "min": tree.minimum}
_OF_TRUTHS = {"add": tree.logical_or, "mul": tree.logical_and, "max": tree.logical_or, "min": tree.logical_and}


def _replaces(call: OpCall) -> bool:
    return call.settings.get("reduction") == "none"


def _combines(call: OpCall) -> bool:
    """Whether updates meet elements; sums and products of low floats would be rounded at every update, and not once."""
    x, exact = call.inputs[0], call.settings.get("reduction") in ("max", "min")
    return not _replaces(call) and x is not None and (exact or not x.dtype.is_low_float)


@kernel("scatter", supports=_replaces, epilogue=False)
def scatter(site: KernelSite) -> None:
    """Updates in place of elements, with another place along an axis."""
    _scatter(site)


@kernel("scatter", dtypes=(*FLOATS, *INTEGERS, BOOL), supports=_combines, epilogue=False)
def scatter_combined(site: KernelSite) -> None:
    """Updates combined with elements, with another place along an axis."""
    _scatter(site)


@kernel("scatter_nd", supports=_replaces, epilogue=False)
def scatter_nd(site: KernelSite) -> None:
    """Slices in place of others, at tuples of places."""
    _scatter_nd(site)


@kernel("scatter_nd", dtypes=(*FLOATS, *INTEGERS, BOOL), supports=_combines, epilogue=False)
def scatter_nd_combined(site: KernelSite) -> None:
    """Slices combined with others, at tuples of places."""
    _scatter_nd(site)


def _scatter(site: KernelSite) -> None:
    code, x, indices, updates = site.code, site.input(0), site.input(1), site.input(2)
    own, named = x.type.shape, indices.type.shape
    axis = axis_of(integer(site.call.settings.get("axis"), "axis"), len(own))
    if nothing_to_index(site, indices, own[axis]):
        return
    _copy(site)
    if not indices.type.count:
        code.line(f"(void){indices.variable};", f"(void){updates.variable};")
        return
    counters = [f"i{number}" for number in range(len(named))]
    with code.loops(for_head(c, n) for c, n in zip(counters, named, strict=True)):
        position = flat(counters, contiguous(named))
        declare_place(code, "place", (indices, position), own[axis])
        target = flat([*counters[:axis], "place", *counters[axis + 1 :]], contiguous(own))
        _update(site, target, position)


def _scatter_nd(site: KernelSite) -> None:
    code, x, indices, updates = site.code, site.input(0), site.input(1), site.input(2)
    own, named = x.type.shape, indices.type.shape
    length = named[-1]
    if nothing_to_index(site, indices, *own[:length]):
        return
    _copy(site)
    if not indices.type.count:
        code.line(f"(void){indices.variable};", f"(void){updates.variable};")
        return
    at = [f"j{number}" for number in range(len(named) - 1)]
    inner = [f"k{number}" for number in range(len(own) - length)]
    with code.loops(for_head(c, n) for c, n in zip(at, named[:-1], strict=True)):
        places = declare_tuple(site, indices, at, own[:length])
        with code.loops(for_head(c, n) for c, n in zip(inner, own[length:], strict=True)):
            target = flat([*places, *inner], contiguous(own))
            _update(site, target, flat([*at, *inner], contiguous(updates.type.shape)))


def _copy(site: KernelSite) -> None:
    with site.code.loops((for_head("i", site.input(0).type.count),)):
        _result(site).store("i", site.input(0).at("i"))


def _result(site: KernelSite) -> Bound:
    """Return the result with elements in the type that those of x are read in."""
    return replace(site.outputs[0], work=site.input(0).work)


def _update(site: KernelSite, target: str, source: str) -> None:
    """Append the update of an element of the result."""
    code, out, value = site.code, _result(site), site.input(2).at(source)
    reduction = str(site.call.settings.get("reduction"))
    if reduction != "none":
        code.line(f"const size_t target = {target};")
        target = "target"
        value = code.compute(linearise(_combined(site, reduction)), {0: out.at(target), 1: value}, "u")
    out.store(target, value)


def _combined(site: KernelSite, reduction: str) -> Expr:
    dtype = site.input(0).type.dtype
    combine = (_OF_TRUTHS if dtype is BOOL else _COMBINED)[reduction]
    return combine(tree.Input(0, dtype), tree.Input(1, dtype))
