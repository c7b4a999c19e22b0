"""Convolution of images, row by row.

A row of the input with its padding is copied to a short buffer, from which every kernel of a block is summed: no inner
loop tests a border, and the innermost one has a known length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import F32, FLOAT
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.ops.accumulate import accumulator
from openinfer.ops.elementwise import work_type
from openinfer.ops.windows import windows
from openinfer_synth_c.arithmetic import added, converted, multiply_add
from openinfer_synth_c.index_text import for_head, times
from openinfer_synth_c.registration import FLOATS, INTEGERS, kernel
from openinfer_synth_c.rolled_loops import rolled
from openinfer_synth_c.window_text import less, outside, place

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.ops.windows import Window
    from openinfer_synth_c.site import KernelSite

KERNELS = 16
"""Most kernels (output channels) that are summed from one buffered row."""

WIDTH = 32
"""Most positions along a row that are summed at once."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Extents of a convolution; ``block`` kernels and ``width`` positions are summed at once."""

    images: int
    groups: int
    channels: int
    kernels: int
    rows: Window
    columns: Window
    block: int
    width: int

    @property
    def buffered(self) -> int:
        """Elements of an input row that ``width`` positions read."""
        return (self.width - 1) * self.columns.stride + (self.columns.kernel - 1) * self.columns.dilation + 1


@kernel("conv2d", dtypes=(*FLOATS, *INTEGERS))
def conv2d(site: KernelSite) -> None:
    """``y[n, o, p, q]`` is ``bias[o]`` plus the sum over c, i, j of ``w[o, c, i, j] * x[n, c, row, column]``, where the
    row is ``p * stride + i * dilation - before``, the column alike, and x is zero in the padding."""
    shape = _shape_of(site)
    total = sum_type(site)
    code = site.code
    outer = (
        for_head("n", shape.images),
        for_head("g", shape.groups),
        f"for (size_t o0 = 0; o0 < {shape.kernels}; o0 += {shape.block})",
        for_head("p", shape.rows.positions),
        f"for (size_t q0 = 0; q0 < {shape.columns.positions}; q0 += {shape.width})",
    )
    with code.loops(outer):
        kernels = _count(code_limit=shape.kernels, start="o0", step=shape.block)
        code.line(f"const size_t kernels = {kernels};")
        code.line(f"{c_type(total)} total[{shape.block}][{shape.width}] = {{{{{literal_text(total, 0)}}}}};")
        with code.loops((for_head("c", shape.channels), for_head("i", shape.rows.kernel))):
            _row(site, shape, total)
        _store(site, shape, total)


def _shape_of(site: KernelSite) -> _Shape:
    x, w = site.input(0).type.shape, site.input(1).type.shape
    rows, columns = windows(x[2:], w[2:], site.call.settings)
    groups = x[1] // w[1] if w[1] else 1
    kernels = w[0] // groups
    return _Shape(
        images=x[0],
        groups=groups,
        channels=w[1],
        kernels=kernels,
        rows=rows,
        columns=columns,
        block=_even_piece(kernels, KERNELS),
        width=-(-_even_piece(columns.positions, WIDTH) // 4) * 4,
    )


def _even_piece(extent: int, largest: int) -> int:
    """Return the size of the fewest pieces, none above ``largest``, that cover an extent evenly."""
    return -(-extent // -(-extent // largest)) if extent else 1


def sum_type(site: KernelSite) -> DType:
    """Return the type that a convolution is summed in: the widest of floats, or the accumulator."""
    given = [bound.type.dtype for bound in site.inputs if bound is not None]
    if not given[0].is_float or site.call.settings.get("acc") is not None:
        return work_type(accumulator(given[0], site.call.settings))
    return max((F32, *given), key=FLOAT.index)


def _count(*, code_limit: int, start: str, step: int) -> str:
    """Return how many items a piece that begins at ``start`` has."""
    if code_limit % step == 0:
        return str(step)
    return f"{code_limit} - {start} < {step} ? {code_limit} - {start} : {step}"


def _row(site: KernelSite, shape: _Shape, total: DType) -> None:
    """Append the sums from one row of one channel: buffer it, then multiply it with the taps of each kernel."""
    code, x, w = site.code, site.input(0), site.input(1)
    code.scratch(x.c_type, "buffer", shape.buffered)
    _buffer(site, shape)
    with code.loops((for_head("o", "kernels"),)):
        taps = f"(((g * {shape.kernels} + o0 + o) * {shape.channels} + c) * {shape.rows.kernel} + i)"
        code.line(f"const size_t taps = {taps} * {shape.columns.kernel};")
        with code.loops((for_head("j", shape.columns.kernel),)):
            code.line(f"const {w.c_type} tap = {w.at('taps + j')};")
            # A loop over taps is unrolled with the lanes in it; without one, the lanes alone are best kept together.
            lanes = for_head("q", shape.width)
            with code.loops((rolled(lanes) if shape.columns.kernel == 1 else lanes,)):
                read = f"buffer[{times('q', shape.columns.stride)} + {times('j', shape.columns.dilation)}]"
                multiply_add(code, "total[o][q]", total, ("tap", w.type.dtype), (read, x.type.dtype))


def _buffer(site: KernelSite, shape: _Shape) -> None:
    """Append the copy of a row, which is all zeros where it lies in the padding."""
    code, zero = site.code, literal_text(site.input(0).type.dtype, 0)
    if not shape.rows.size or not shape.columns.size:
        with code.loops((for_head("j", shape.buffered),)):
            code.line(f"buffer[j] = {zero};")
        return
    code.line(f"const size_t row = {place('p', 'i', shape.rows)};")
    padding = outside("row", shape.rows, shape.rows.positions)
    if not padding:
        _copied(site, shape, zero)
        return
    with code.loops((f"if ({padding})", for_head("j", shape.buffered))):
        code.line(f"buffer[j] = {zero};")
    with code.braces("else"):
        _copied(site, shape, zero)


def _copied(site: KernelSite, shape: _Shape, zero: str) -> None:
    """Append the copy of a row of the image, with zeros where its ends lie in the padding."""
    code, x = site.code, site.input(0)
    channel = f"n * {shape.groups * shape.channels} + g * {shape.channels} + c"
    row = f"({channel}) * {shape.rows.size} + row{less(shape.rows.before)}"
    code.line(f"const size_t line = ({row}) * {shape.columns.size};")
    reach = -(-shape.columns.positions // shape.width) * shape.width
    padding = outside("column", shape.columns, reach)
    read = x.at(f"line + column{less(shape.columns.before)}")
    with code.loops((for_head("j", shape.buffered),)):
        code.line(f"const size_t column = {times('q0', shape.columns.stride)} + j;")
        code.line(f"buffer[j] = {f'({padding}) ? {zero} : {read}' if padding else read};")


def _store(site: KernelSite, shape: _Shape, total: DType) -> None:
    code = site.code
    positions = _count(code_limit=shape.columns.positions, start="q0", step=shape.width)
    code.line(f"const size_t positions = {positions};")
    with code.loops((for_head("o", "kernels"), for_head("q", "positions"))):
        channel = f"(g * {shape.kernels} + o0 + o)"
        store_sum(site, ("n", channel, "p", "(q0 + q)"), "total[o][q]", total)


def store_sum(site: KernelSite, position: tuple[str, str, str, str], value: str, total: DType) -> None:
    """Append the store of a sum: with the bias of its channel, as the type of the result."""
    code, bias = site.code, site.optional(2)
    if bias is not None:
        value = added(code, value, total, (bias.at(position[1]), bias.type.dtype))
    site.store.write(code, position, converted(code, value, total, site.call.outputs[0].dtype))
