"""Pools over windows of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.expr.linear import linearise
from openinfer.ops.windows import per_dim, windows
from openinfer_synth_c.index_text import for_head
from openinfer_synth_c.registration import FLOATS, INTEGERS, kernel

if TYPE_CHECKING:
    from openinfer.ops.windows import Window
    from openinfer_synth_c.site import KernelSite


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of the windows, with the names of its counters: position, tap and place in the image."""

    window: Window
    position: str
    tap: str
    place: str

    def place_text(self) -> str:
        """Return the place counted from the start of the padding."""
        stride = self.position if self.window.stride == 1 else f"{self.position} * {self.window.stride}"
        dilation = self.tap if self.window.dilation == 1 else f"{self.tap} * {self.window.dilation}"
        return f"{stride} + {dilation}"

    def outside(self, *, padded: bool = False) -> str:
        """Return the test whether the place is outside the image (``padded``: outside the padding too)."""
        window = self.window
        last = (window.positions - 1) * window.stride + (window.kernel - 1) * window.dilation
        low = 0 if padded else window.before
        high = window.before + window.size + (window.after if padded else 0)
        tests = [f"{self.place} < {low}"] if low else []
        return " || ".join([*tests, *([f"{self.place} >= {high}"] if last >= high else [])])


def _axes(site: KernelSite) -> tuple[_Axis, _Axis]:
    image = site.input(0).type.shape[2:]
    over = windows(image, per_dim(site.call.settings, "kernel", 2), site.call.settings)
    return _Axis(over[0], "p", "i", "row"), _Axis(over[1], "q", "j", "column")


def _element(site: KernelSite, axes: tuple[_Axis, _Axis]) -> str:
    channels = site.input(0).type.shape[1]
    rows, columns = axes
    row = f"({rows.place} - {rows.window.before})" if rows.window.before else rows.place
    column = f"({columns.place} - {columns.window.before})" if columns.window.before else columns.place
    plane = f"(n * {channels} + c) * {rows.window.size} + {row}"
    return site.input(0).at(f"({plane}) * {columns.window.size} + {column}")


def _outer(site: KernelSite) -> list[str]:
    return [for_head(counter, extent) for counter, extent in zip("ncpq", site.call.outputs[0].shape, strict=True)]


@kernel("max_pool2d", dtypes=(*FLOATS, *INTEGERS))
def max_pool2d(site: KernelSite) -> None:
    """Greatest element of each window; padding never wins, a NaN only where there is nothing else."""
    code, axes = site.code, _axes(site)
    dtype = site.input(0).type.dtype
    greater = linearise(tree.maximum(tree.Input(0, dtype), tree.Input(1, dtype)))
    with code.loops(_outer(site)):
        code.line(f"{c_type(dtype)} best = {literal_text(dtype, 0)};", "bool first = true;")
        with code.loops(for_head(axis.tap, axis.window.kernel) for axis in axes):
            _skip_outside(site, axes)
            code.line(f"const {c_type(dtype)} value = {_element(site, axes)};")
            chosen = code.compute(greater, {0: "best", 1: "value"}, "t")
            code.line(f"best = first ? value : {chosen};", "first = false;")
        site.store.write(code, ("n", "c", "p", "q"), "best")


def _skip_outside(site: KernelSite, axes: tuple[_Axis, _Axis]) -> None:
    for axis in axes:
        site.code.line(f"const size_t {axis.place} = {axis.place_text()};")
        if axis.outside():
            site.code.line(f"if ({axis.outside()}) {{ continue; }}")


@kernel("avg_pool2d", dtypes=FLOATS)
def avg_pool2d(site: KernelSite) -> None:
    """Sum of each window over its number of elements: those in the image, or with ``count_include_pad`` in the padding
    too."""
    code, axes = site.code, _axes(site)
    dtype = site.input(0).type.dtype
    with_padding = bool(site.call.settings.get("count_include_pad"))
    with code.loops(_outer(site)):
        code.line(f"{c_type(dtype)} total = {literal_text(dtype, 0)};", "size_t count = 0;")
        with code.loops(for_head(axis.tap, axis.window.kernel) for axis in axes):
            if with_padding:
                _count_padding(site, axes)
            else:
                _skip_outside(site, axes)
                code.line("++count;")
            code.line(f"total += {_element(site, axes)};")
        code.line(f"const {c_type(dtype)} mean = total / ({c_type(dtype)})count;")
        site.store.write(code, ("n", "c", "p", "q"), "mean")


def _count_padding(site: KernelSite, axes: tuple[_Axis, _Axis]) -> None:
    for axis in axes:
        site.code.line(f"const size_t {axis.place} = {axis.place_text()};")
        if axis.outside(padded=True):
            site.code.line(f"if ({axis.outside(padded=True)}) {{ continue; }}")
    site.code.line("++count;")
    outside = [axis.outside() for axis in axes if axis.outside()]
    if outside:
        site.code.line(f"if ({' || '.join(outside)}) {{ continue; }}")
