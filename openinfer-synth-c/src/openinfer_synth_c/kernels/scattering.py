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
    """Whether updates meet elements in the result itself."""
    return not _replaces(call) and not _rounds(call)


def _rounds(call: OpCall) -> bool:
    """Whether updates are sums and products of low floats, which are rounded once, not at every update."""
    x = call.inputs[0]
    return x is not None and x.dtype.is_low_float and call.settings.get("reduction") in ("add", "mul")


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


@kernel("scatter", dtypes=(*FLOATS, *INTEGERS), supports=_rounds)
def scatter_rounded(site: KernelSite) -> None:
    """Each element of the result from all updates that meet it along an axis."""
    code, x, indices, updates = site.code, site.input(0), site.input(1), site.input(2)
    own, named = x.type.shape, indices.type.shape
    axis = axis_of(integer(site.call.settings.get("axis"), "axis"), len(own))
    if nothing_to_index(site, indices, own[axis]):
        return
    counters = [f"i{number}" for number in range(len(own))]
    source = [*counters[:axis], "j", *counters[axis + 1 :]]
    shorter = [n for n in range(len(own)) if n != axis and named[n] < own[n]]
    with code.loops(for_head(c, n) for c, n in zip(counters, own, strict=True)):
        code.line(f"{x.c_type} total = {x.at(flat(counters, contiguous(own)))};")
        head = for_head("j", named[axis])
        reached = " && ".join(f"i{n} < {named[n]}" for n in shorter)
        with code.loops([f"if ({reached})", head] if reached else [head]):
            position = flat(source, contiguous(named))
            declare_place(code, "place", (indices, position), own[axis])
            _meet(site, f"place == i{axis}", updates.at(position))
        site.store.write(code, counters, "total")


@kernel("scatter_nd", dtypes=(*FLOATS, *INTEGERS), supports=_rounds)
def scatter_nd_rounded(site: KernelSite) -> None:
    """Each element of the result from all tuples that name its slice."""
    code, x, indices, updates = site.code, site.input(0), site.input(1), site.input(2)
    own, named = x.type.shape, indices.type.shape
    length = named[-1]
    if nothing_to_index(site, indices, *own[:length]):
        return
    counters = [f"i{number}" for number in range(len(own))]
    at = [f"j{number}" for number in range(len(named) - 1)]
    with code.loops(for_head(c, n) for c, n in zip(counters, own, strict=True)):
        code.line(f"{x.c_type} total = {x.at(flat(counters, contiguous(own)))};")
        with code.loops(for_head(c, n) for c, n in zip(at, named[:-1], strict=True)):
            places = declare_tuple(site, indices, at, own[:length])
            test = " && ".join(f"{place} == i{number}" for number, place in enumerate(places))
            _meet(site, test, updates.at(flat([*at, *counters[length:]], contiguous(updates.type.shape))))
        site.store.write(code, counters, "total")


def _meet(site: KernelSite, test: str, update: str) -> None:
    """Append that an update meets the element so far where the test holds."""
    with site.code.braces(f"if ({test})"):
        program = linearise(_combined(site, str(site.call.settings.get("reduction"))))
        site.code.line(f"total = {site.code.compute(program, {0: 'total', 1: update}, 'u')};")


def _scatter(site: KernelSite) -> None:
    code, x, indices = site.code, site.input(0), site.input(1)
    own, named = x.type.shape, indices.type.shape
    axis = axis_of(integer(site.call.settings.get("axis"), "axis"), len(own))
    if nothing_to_index(site, indices, own[axis]):
        return
    _copy(site)
    if not indices.type.count:
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
