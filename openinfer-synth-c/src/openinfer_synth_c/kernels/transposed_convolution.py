"""Transposed convolution of images, row by row of the result.

A row is summed in pieces, one for each remainder of its columns by the stride: what a row of the image adds to with one
tap then lies side by side, and no inner loop tests a border. Nothing is multiplied with zeros between the elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.ops.shapes import integer
from openinfer.ops.transposed_windows import transposed_windows
from openinfer_synth_c.arithmetic import multiply_add
from openinfer_synth_c.index_text import for_head, times
from openinfer_synth_c.kernels.convolution import store_sum, sum_type
from openinfer_synth_c.registration import FLOATS, kernel

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.ops.transposed_windows import TransposedWindow
    from openinfer_synth_c.site import KernelSite


@kernel("conv_transpose2d", dtypes=FLOATS)
def conv_transpose2d(site: KernelSite) -> None:
    """``y[n, o, p, q]`` is ``bias[o]`` plus the sum of ``w[c, o, i, j] * x[n, c, row, column]`` over all c, i, j with
    ``row * stride + i * dilation - before`` equal to p, and the column alike to q."""
    x, kernels = site.input(0).type.shape, site.input(1).type.shape[1]
    rows, columns = transposed_windows(x[2:], site.input(1).type.shape[2:], site.call.settings)
    groups = integer(site.call.settings.get("groups"), "groups")
    code, total = site.code, sum_type(site)
    counters = (("n", x[0]), ("g", groups), ("o", kernels), ("p", rows.positions))
    with code.loops(for_head(counter, extent) for counter, extent in counters):
        code.scratch(c_type(total), "total", columns.stride * _piece(columns))
        with code.loops((for_head("q", columns.stride * _piece(columns)),)):
            code.line(f"total[q] = {literal_text(total, 0)};")
        with code.loops((for_head("i", rows.kernel),)):
            _row(site, rows, columns, total)
        with code.loops((for_head("q", columns.positions),)):
            place = f"(q + {columns.before})" if columns.before else "q"
            store_sum(site, ("n", f"(g * {kernels} + o)", "p", "q"), f"total[{_summed(place, columns)}]", total)


def _piece(columns: TransposedWindow) -> int:
    """Return the length of the pieces of a row."""
    return -(-columns.whole // columns.stride)


def _summed(place: str, columns: TransposedWindow) -> str:
    """Return where the sum for a place of the whole row is."""
    if columns.stride == 1:
        return place
    return f"{place} % {columns.stride} * {_piece(columns)} + {place} / {columns.stride}"


def _row(site: KernelSite, rows: TransposedWindow, columns: TransposedWindow, total: DType) -> None:
    """Append what one row of taps adds to the sums: products with the row of the image that it brings here."""
    code, x, w = site.code, site.input(0), site.input(1)
    channels, kernels = x.type.shape[1], w.type.shape[1]
    depth = channels // integer(site.call.settings.get("groups"), "groups")
    code.line(f"const size_t reach = p + {rows.before}, back = {times('i', rows.dilation)};")
    off = f" || (reach - back) % {rows.stride} != 0" if rows.stride > 1 else ""
    code.line(f"if (reach < back{off}) {{ continue; }}")
    code.line(f"const size_t row = (reach - back) / {rows.stride};")
    code.line(f"if (row >= {rows.size}) {{ continue; }}")
    with code.loops((for_head("c", depth),)):
        channel = f"g * {depth} + c"
        code.line(f"const size_t line = ((n * {channels} + {channel}) * {rows.size} + row) * {columns.size};")
        code.line(f"const size_t taps = ((({channel}) * {kernels} + o) * {rows.kernel} + i) * {columns.kernel};")
        with code.loops((for_head("j", columns.kernel),)):
            first = times("j", columns.dilation)
            code.line(f"const {w.c_type} tap = {w.at('taps + j')};")
            code.line(f"const size_t start = {_summed(f'({first})', columns)};")
            with code.loops((for_head("q", columns.size),)):
                product = ("tap", w.type.dtype), (x.at("line + q"), x.type.dtype)
                multiply_add(code, "total[start + q]", total, *product)
