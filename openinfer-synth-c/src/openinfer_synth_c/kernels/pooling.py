"""Pools over windows of images, row by row.

A row of results is gathered tap by tap: each tap takes part in a range of positions, so that no inner loop tests a
border.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.expr.linear import linearise
from openinfer.ops.windows import per_dim, windows
from openinfer_synth_c.index_text import for_head, times
from openinfer_synth_c.registration import FLOATS, INTEGERS, kernel
from openinfer_synth_c.window_text import less, outside, place

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.ops.windows import Window
    from openinfer.scalars import Scalar
    from openinfer_synth_c.site import KernelSite


@kernel("max_pool2d", dtypes=(*FLOATS, *INTEGERS))
def max_pool2d(site: KernelSite) -> None:
    """Greatest element of each window; padding never wins, a NaN only where there is nothing else."""
    code, dtype = site.code, site.input(0).type.dtype
    greater = linearise(tree.maximum(tree.Input(0, dtype), tree.Input(1, dtype)))
    # Every element wins over it.
    least: Scalar = math.nan if dtype.minimum is None else dtype.minimum

    def take(element: str) -> None:
        code.line(f"const {c_type(dtype)} value = {element};")
        code.line(f"best[q] = {code.compute(greater, {0: 'best[q]', 1: 'value'}, 't')};")

    _pool(site, "best", least, take, lambda: "best[q]")


@kernel("avg_pool2d", dtypes=FLOATS)
def avg_pool2d(site: KernelSite) -> None:
    """Sum of each window over its number of elements: those in the image, or with ``count_include_pad`` in the padding
    too."""
    code, dtype = site.code, site.input(0).type.dtype
    padded = bool(site.call.settings.get("count_include_pad"))
    rows, columns = _windows(site)

    def mean() -> str:
        code.line(f"const size_t count = ({_counted(rows, 'p', padded)}) * ({_counted(columns, 'q', padded)});")
        code.line(f"const {c_type(dtype)} mean = total[q] / ({c_type(dtype)})count;")
        return "mean"

    _pool(site, "total", 0, lambda element: code.line(f"total[q] += {element};"), mean)


def _windows(site: KernelSite) -> tuple[Window, Window]:
    image = site.input(0).type.shape[2:]
    rows, columns = windows(image, per_dim(site.call.settings, "kernel", 2), site.call.settings)
    return rows, columns


def _pool(site: KernelSite, array: str, start: Scalar, take: Callable[[str], None], finish: Callable[[], str]) -> None:
    """Append a pool: ``take`` appends what a window does with an element, ``finish`` returns its result."""
    code, dtype = site.code, site.input(0).type.dtype
    rows, columns = _windows(site)
    images, channels = site.input(0).type.shape[:2]
    with code.loops((for_head("n", images), for_head("c", channels), for_head("p", rows.positions))):
        code.scratch(c_type(dtype), array, columns.positions)
        with code.loops((for_head("q", columns.positions),)):
            code.line(f"{array}[q] = {literal_text(dtype, start)};")
        with code.loops((for_head("i", rows.kernel),)):
            code.line(f"const size_t row = {place('p', 'i', rows)};")
            padding = outside("row", rows, rows.positions)
            if padding:
                code.line(f"if ({padding}) {{ continue; }}")
            row = f"((n * {channels} + c) * {rows.size} + row{less(rows.before)}) * {columns.size}"
            code.line(f"const size_t line = {row};")
            with code.loops((for_head("j", columns.kernel),)):
                first, last = _declare_range(site, columns)
                with code.loops((for_head("q", last, first),)):
                    take(site.input(0).at(f"line + {place('q', 'j', columns)}{less(columns.before)}"))
        with code.loops((for_head("q", columns.positions),)):
            site.store.write(code, ("n", "c", "p", "q"), finish())


def _declare_range(site: KernelSite, columns: Window) -> tuple[str, str]:
    """Append the positions that tap j takes part in; return the first and the one after the last."""
    code, tap, first = site.code, times("j", columns.dilation), "0"
    if columns.before:
        steps = _steps(f"{columns.before} - {tap}", columns.stride)
        code.line(f"const size_t first = {tap} < {columns.before} ? {steps} : 0;")
        first = "first"
    end = columns.before + columns.size
    reach = (columns.kernel - 1) * columns.dilation
    if (columns.positions - 1) * columns.stride + reach < end:
        return first, str(columns.positions)
    steps = _steps(f"{end} - {tap}", columns.stride)
    code.line(f"const size_t reach = {steps if reach < end else f'{tap} < {end} ? {steps} : 0'};")
    code.line(f"const size_t last = reach < {columns.positions} ? reach : {columns.positions};")
    return first, "last"


def _steps(distance: str, stride: int) -> str:
    """Return the number of steps that it takes to come to a distance."""
    return distance if stride == 1 else f"({distance} + {stride - 1}) / {stride}"


def _counted(window: Window, position: str, padded: bool) -> str:
    """Return how many taps of a window without dilation are in the image, or (``padded``) in it and its padding."""
    low = 0 if padded else window.before
    high = window.before + window.size + (window.after if padded else 0)
    start = times(position, window.stride)
    end = f"{start} + {window.kernel}"
    if (window.positions - 1) * window.stride + window.kernel > high:
        end = f"({end} < {high} ? {end} : {high})"
    begin = f"({start} > {low} ? {start} : {low})" if low else start
    return f"{end} - {begin}"
