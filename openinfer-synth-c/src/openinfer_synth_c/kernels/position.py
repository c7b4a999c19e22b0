"""Positions of the greatest and least elements along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import c_type
from openinfer.ops.shapes import axis_of, integer
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import FLOATS, INTEGERS, kernel

if TYPE_CHECKING:
    from openinfer_synth_c.site import KernelSite


@kernel("argmax_axis", dtypes=(*FLOATS, *INTEGERS))
def argmax_axis(site: KernelSite) -> None:
    """Index of the greatest element; ties by ``select_first``. A NaN counts only in first place, or with
    ``nan="propagate"`` always."""
    _position(site, ">")


@kernel("argmin_axis", dtypes=(*FLOATS, *INTEGERS))
def argmin_axis(site: KernelSite) -> None:
    """Index of the least element; ties and NaN as for `argmax_axis`."""
    _position(site, "<")


def _position(site: KernelSite, better: str) -> None:
    code, x, settings = site.code, site.input(0), site.call.settings
    shape = x.type.shape
    axis = axis_of(integer(settings["axis"], "axis"), len(shape))
    counters = ["j" if number == axis else f"i{number}" for number in range(len(shape))]
    kept = [number for number in range(len(shape)) if number != axis]
    strides = contiguous(shape)
    with code.loops(for_head(counters[number], shape[number]) for number in kept):
        first = ["0" if number == axis else counter for number, counter in enumerate(counters)]
        code.line(f"{c_type(x.type.dtype)} best = {x.at(flat(first, strides))};", "int64_t place = 0;")
        with code.loops((for_head("j", shape[axis], 1),)):
            code.line(f"const {c_type(x.type.dtype)} value = {x.at(flat(counters, strides))};")
            with code.braces(f"if ({_wins(site, better)})"):
                code.line("best = value;", "place = (int64_t)j;")
        keepdims = len(site.call.outputs[0].shape) == len(shape)
        site.store.write(code, first if keepdims else [counters[number] for number in kept], "place")


def _wins(site: KernelSite, better: str) -> str:
    """Return the test whether ``value`` takes the place of ``best``."""
    first = site.call.settings.get("select_first", True) is not False
    test = f"value {better} best" if first else f"value {better}= best"
    if not site.input(0).type.dtype.is_float or site.call.settings.get("nan") != "propagate":
        return test
    # Once a NaN is best it stays, but for a later one where the highest of equal positions is asked for.
    return f"{test} || (isnan(value) && !isnan(best))" if first else f"isnan(value) || (!isnan(best) && {test})"
