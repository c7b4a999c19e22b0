"""Running sums, and elements in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import c_type
from openinfer.ops.shapes import axis_of, integer
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import FLOATS, INTEGERS, kernel

if TYPE_CHECKING:
    from openinfer_synth_c.elements import Bound
    from openinfer_synth_c.site import KernelSite


@dataclass(frozen=True, slots=True)
class _Slices:
    """The slices of a tensor along an axis."""

    x: Bound
    axis: int

    @property
    def extent(self) -> int:
        return self.x.type.shape[self.axis]

    def heads(self) -> list[str]:
        return [for_head(f"i{n}", extent) for n, extent in enumerate(self.x.type.shape) if n != self.axis]

    def coordinates(self, place: str) -> list[str]:
        return [place if n == self.axis else f"i{n}" for n in range(len(self.x.type.shape))]

    def at(self, place: str) -> str:
        return self.x.at(flat(self.coordinates(place), contiguous(self.x.type.shape)))


def _slices(site: KernelSite) -> _Slices:
    x = site.input(0)
    return _Slices(x, axis_of(integer(site.call.settings["axis"], "axis"), len(x.type.shape)))


@kernel("topk", dtypes=(*FLOATS, *INTEGERS))
def topk(site: KernelSite) -> None:
    """The first elements in order and their indices."""
    code, slices = site.code, _slices(site)
    kept = integer(site.call.settings["k"], "k")
    out = site.call.outputs[0].shape
    with code.loops(slices.heads()):
        _sort(site, slices, descending=bool(site.call.settings.get("largest")))
        with code.loops((for_head("j", kept),)):
            site.store.write(code, slices.coordinates("j"), slices.at("order[j]"))
            if len(site.outputs) > 1:
                site.outputs[1].store(flat(slices.coordinates("j"), contiguous(out)), "(int64_t)order[j]")


@kernel("argsort", dtypes=(*FLOATS, *INTEGERS))
def argsort(site: KernelSite) -> None:
    """Indices of the elements in order."""
    code, slices = site.code, _slices(site)
    with code.loops(slices.heads()):
        _sort(site, slices, descending=bool(site.call.settings.get("descending")))
        with code.loops((for_head("j", slices.extent),)):
            site.store.write(code, slices.coordinates("j"), "(int64_t)order[j]")


def _sort(site: KernelSite, slices: _Slices, *, descending: bool) -> None:
    """Append a heap sort of the places of a slice, ``order``: no recursion, and no memory but that of the places."""
    code = site.code
    code.scratch("size_t", "order", slices.extent)
    with code.loops((for_head("j", slices.extent),)):
        code.line("order[j] = j;")
    code.line(f"size_t start = {slices.extent // 2}, end = {slices.extent};")
    with code.braces("while (end > 1)"):
        with code.braces("if (start > 0)"):
            code.line("--start;")
        with code.braces("else"):
            code.line("--end;", "const size_t top = order[end];", "order[end] = order[0];", "order[0] = top;")
        code.line("size_t root = start;")
        with code.braces("while (2 * root + 1 < end)"):
            code.line("size_t child = 2 * root + 1;")
            with code.braces("if (child + 1 < end)"):
                _compare(site, slices, "child + 1", "child", descending=descending)
                code.line("if (after) { ++child; }")
            _compare(site, slices, "child", "root", descending=descending)
            code.line("if (!after) { break; }", "const size_t moved = order[child];")
            code.line("order[child] = order[root];", "order[root] = moved;", "root = child;")


def _compare(site: KernelSite, slices: _Slices, first: str, second: str, *, descending: bool) -> None:
    """Append ``after``: whether the element at one place of the heap sorts after that at another."""
    code, dtype = site.code, slices.x.type.dtype
    kind = c_type(dtype)
    code.line(f"const size_t p = order[{first}], q = order[{second}];")
    code.line(f"const {kind} a = {slices.at('p')};", f"const {kind} b = {slices.at('q')};")
    after = "a < b" if descending else "a > b"
    if not dtype.is_float:
        code.line(f"const bool after = {after} || (a == b && p > q);")
        return
    # NaN is greater than everything, and all NaN are equal.
    alone = "!isnan(a) && isnan(b)" if descending else "isnan(a) && !isnan(b)"
    equal = "a == b || (isnan(a) && isnan(b))"
    code.line(f"const bool after = {after} || ({alone}) || (({equal}) && p > q);")
