"""Matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.ops.accumulate import accumulator
from openinfer.ops.elementwise import work_type
from openinfer.ops.strides import broadcast_strides, contiguous
from openinfer_synth_c.arithmetic import converted, multiply_add
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import FLOATS, INTEGERS, kernel
from openinfer_synth_c.rolled_loops import rolled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer_synth_c.operands import Bound
    from openinfer_synth_c.site import KernelSite

TILES = (64, 16, 8)
"""Columns that are summed at once, the most first: loops of known length, which compilers turn into vector
instructions."""


@dataclass(frozen=True, slots=True)
class _Matrix:
    """An operand as a stack of matrices: strides of its batch axes (broadcast), of its rows and of its columns."""

    bound: Bound
    batch: tuple[int, ...]
    row: int
    column: int

    def at(self, batch: Sequence[str], row: str, column: str) -> str:
        return self.bound.at(flat((*batch, row, column), (*self.batch, self.row, self.column)))


@dataclass(frozen=True, slots=True)
class _Product:
    """A product being written: ``coordinates`` are the counters of the output's batch axes."""

    site: KernelSite
    left: _Matrix
    right: _Matrix
    depth: int
    dtype: DType
    batch: tuple[str, ...]

    def accumulate(self, total: str, row: str, column: str) -> None:
        """Append one multiply-add for an element of the output."""
        a = (self.left.at(self.batch, row, "k"), self.left.bound.type.dtype)
        b = (self.right.at(self.batch, "k", column), self.right.bound.type.dtype)
        multiply_add(self.site.code, total, self.dtype, a, b)

    def store(self, total: str, row: str, column: str) -> None:
        """Append the store of an element; axes that a vector operand lacks are not in the output."""
        value = converted(self.site.code, total, self.dtype, self.site.call.outputs[0].dtype)
        rows = (row,) if len(self.left.bound.type.shape) > 1 else ()
        columns = (column,) if len(self.right.bound.type.shape) > 1 else ()
        self.site.store.write(self.site.code, (*self.batch, *rows, *columns), value)


@kernel("matmul", dtypes=(*FLOATS, *INTEGERS, BOOL))
def matmul(site: KernelSite) -> None:
    """``y[..., m, n]`` is the sum over k of ``a[..., m, k] * b[..., k, n]``; leading axes broadcast."""
    a, b = site.input(0), site.input(1)
    left_shape = _matrix_shape(a.type.shape, swapped=site.call.settings.get("trans_a"), row=True)
    right_shape = _matrix_shape(b.type.shape, swapped=site.call.settings.get("trans_b"), row=False)
    rows, depth, columns = left_shape[0], left_shape[1], right_shape[1]
    out = site.call.outputs[0].shape
    batch = out[: max(len(a.type.shape), len(b.type.shape), 2) - 2]
    product = _Product(
        site=site,
        left=_matrix(a, batch, swapped=bool(site.call.settings.get("trans_a")), row=True),
        right=_matrix(b, batch, swapped=bool(site.call.settings.get("trans_b")), row=False),
        depth=depth,
        dtype=work_type(accumulator(a.type.dtype, site.call.settings)),
        batch=tuple(f"i{axis}" for axis in range(len(batch))),
    )
    heads = [for_head(counter, extent) for counter, extent in zip(product.batch, batch, strict=True)]
    with site.code.loops((*heads, for_head("m", rows))):
        done = 0
        for tile in TILES if product.right.column == 1 else ():
            whole = columns - (columns - done) % tile
            if done < whole:
                _tiles(product, done, whole, tile)
            done = whole
        if done < columns:
            _single(product, done, columns)


def _tiles(product: _Product, start: int, end: int, tile: int) -> None:
    code = product.site.code
    with code.braces(f"for (size_t n0 = {start}; n0 < {end}; n0 += {tile})"):
        code.line(f"{c_type(product.dtype)} total[{tile}] = {{{literal_text(product.dtype, 0)}}};")
        # Unrolled, the lanes would be vectorised along k, with shuffles.
        with code.loops((for_head("k", product.depth), rolled(for_head("n", tile)))):
            product.accumulate("total[n]", "m", "(n0 + n)")
        with code.loops((rolled(for_head("n", tile)),)):
            product.store("total[n]", "m", "(n0 + n)")


def _single(product: _Product, start: int, columns: int) -> None:
    code = product.site.code
    with code.loops((for_head("n", columns, start),)):
        code.line(f"{c_type(product.dtype)} total = {literal_text(product.dtype, 0)};")
        with code.loops((for_head("k", product.depth),)):
            product.accumulate("total", "m", "n")
        product.store("total", "m", "n")


def _matrix_shape(shape: tuple[int, ...], *, swapped: object, row: bool) -> tuple[int, int]:
    if len(shape) == 1:
        return (1, shape[0]) if row else (shape[0], 1)
    return (shape[-1], shape[-2]) if swapped else (shape[-2], shape[-1])


def _matrix(bound: Bound, batch: tuple[int, ...], *, swapped: bool, row: bool) -> _Matrix:
    shape = bound.type.shape
    if len(shape) == 1:
        return _Matrix(bound, (0,) * len(batch), 0 if row else 1, 1 if row else 0)
    own = contiguous(shape)
    # The matrix axes are whole: only the axes before them are broadcast.
    leading = tuple(s * shape[-1] * shape[-2] for s in broadcast_strides(shape[:-2], batch))
    return _Matrix(bound, leading, own[-1], own[-2]) if swapped else _Matrix(bound, leading, own[-2], own[-1])
