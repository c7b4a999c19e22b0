"""Products of real rows with matrices of small integers, which stay packed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import F32, F64, I2, I4, I8, T1, T2, U2, U4, U8, Kind
from openinfer.expr.c_packed import load_word_text
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import FLOATS, kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer_synth_c.elements import Bound
    from openinfer_synth_c.site import KernelSite

TILE = 4096
"""Columns that are summed at once: their sums, two floats each, stay in the cache while rows of weights go by.

With w turned, elements of x that are kept in the order of the lanes of a word.
"""

UNROLLED = 4
"""Rows of weights that are added to the sums together."""

UNROLLED_CODES = 8
"""The same where their bias is taken from their products at once: the more, the less often."""

BLOCK = 256
"""Rows of w, turned, that meet the same elements of x."""


@dataclass(frozen=True, slots=True)
class _Product:
    """A product being written: rows of x, depth of the sums and columns of w.

    ``group`` elements are summed before they are scaled; ``parts`` such sums after one another share a scale.
    """

    site: KernelSite
    rows: int
    depth: int
    columns: int
    group: int
    parts: int
    transposed: bool
    dtype: DType

    @property
    def weights(self) -> Bound:
        return self.site.input(1)

    @property
    def word(self) -> int:
        """Bits that are read at once: 32 of packed weights where each row begins a new word, else those of an item.

        With w turned, 32 in any case.
        """
        dtype = self.weights.type.dtype
        return 32 if self.transposed or (dtype.is_packed and self.columns * dtype.bits % 32 == 0) else 8

    @property
    def reads_items(self) -> bool:
        """Whether a weight is read as it is, not as the bits of a word."""
        return not self.weights.type.dtype.is_packed and self.word == 8

    @property
    def lanes(self) -> int:
        """Weights in a word."""
        return self.word // self.weights.type.dtype.bits

    def parameter(self, bound: Bound | None, group: str, column: str) -> str | None:
        """Return a scale or zero point as a number of the computing type."""
        if bound is None:
            return None
        shape = bound.type.shape
        places: Sequence[str] = (group if self.parts == 1 else f"{group} / {self.parts}", column)
        if not shape:
            index = "0"
        elif len(shape) == 1:
            index = column
        else:
            index = flat(tuple(reversed(places)) if self.transposed else places, contiguous(shape))
        return f"({c_type(self.dtype)}){bound.at(index)}"

    @property
    def bias(self) -> int:
        """How much greater a code (`decoded`) is than its weight: a power of two, with which products are exact."""
        dtype = self.weights.type.dtype
        if self.reads_items or dtype.kind is Kind.UNSIGNED:
            return 0
        return 1 if dtype is T1 else 1 << dtype.bits - 1

    @property
    def subtracts(self) -> bool:
        """Whether the bias is taken from the products of several rows at once, not from each weight."""
        return bool(self.bias) and self.site.optional(3) is None

    def read(self, row: str, number: str) -> str:
        """Return a word of a row; the sign bits of integers in it are turned, so that they count up from 0."""
        dtype = self.weights.type.dtype
        if self.reads_items:
            return f"{row}[{number}]"
        if self.word == 32:
            text = self.site.code.noted(load_word_text(row, f"4 * {number}"))
        else:
            text = f"(uint32_t){row}[{number}]"
        if dtype is T1 or not self.bias:
            return text
        signs = sum(self.bias << dtype.bits * lane for lane in range(self.lanes))
        return f"{text} ^ {signs:#x}u"

    def decoded(self, word: str, lane: int) -> str:
        """Return the code of a weight in a word, an integer that is not negative: 0 or 2 for t1; a weight as it is."""
        if self.reads_items:
            return word
        dtype = self.weights.type.dtype
        shift = lane * dtype.bits - (dtype is T1)
        shifted = word if not shift else f"{word} >> {shift}" if shift > 0 else f"{word} << {-shift}"
        return f"(int32_t)({shifted} & {2 if dtype is T1 else (1 << dtype.bits) - 1}u)"

    def weight(self, word: str, lane: int, zero: str | None, *, biased: bool = False) -> str:
        """Return a weight of a word as a number, less a zero point `_as_code`; ``biased``: its code."""
        number, code = c_type(self.dtype), self.decoded(word, lane)
        if zero is not None:
            return f"(({number}){code} - {zero})"
        return f"({number}){code}" if biased or not self.bias else f"({number})({code} - {self.bias})"


@kernel("qmatmul", dtypes=(*FLOATS, I8, U8, I4, U4, I2, U2, T1, T2))
def qmatmul(site: KernelSite) -> None:
    """``y[m, n]`` is the sum over groups of the scale times the sum of ``x[m, k] * (w[k, n] - zero_point)``.

    Sums are scaled, not weights, but under scales that are infinite: a weight of 0 is NaN there, and one of either sign
    is an infinity.
    """
    x, w, settings = site.input(0), site.input(1), site.call.settings
    transposed = bool(settings.get("trans_w"))
    depth, columns = tuple(reversed(w.type.shape)) if transposed else w.type.shape
    group = settings.get("group_size")
    size = group if isinstance(group, int) and group else depth
    part = _part(size, 32 // w.type.dtype.bits) if transposed else size
    given = [bound for bound in (x, site.input(2), site.optional(4)) if bound is not None]
    product = _Product(
        site=site,
        rows=math.prod(x.type.shape[:-1]),
        depth=depth,
        columns=columns,
        group=part or size,
        parts=size // part if part else 1,
        transposed=transposed,
        dtype=F64 if any(bound.type.dtype is F64 for bound in given) else F32,
    )
    with site.code.loops((for_head("m", product.rows),)):
        if transposed and part:
            _dots(product)
        elif transposed or columns % (8 // w.type.dtype.bits) or not depth:
            _single(product)
        else:
            _tiles(product)


def _part(group: int, lanes: int) -> int:
    """Return the largest equal part of a group for which x can be kept at once; 0 where none ends with a word."""
    sizes = (group // parts for parts in range(1, group // lanes + 1) if group % parts == 0)
    return next((size for size in sizes if size <= TILE and size % lanes == 0), 0)


def _store(product: _Product, column: str, total: str) -> None:
    site, shape = product.site, product.site.call.outputs[0].shape
    bias = site.optional(4)
    if bias is not None:
        total = f"{total} + ({c_type(product.dtype)}){bias.at(column)}"
    out = site.call.outputs[0].dtype
    value = total if out is product.dtype else f"({c_type(out)})({total})"
    strides = contiguous(shape[:-1])
    rows = [
        f"m / {stride} % {extent}" if len(strides) > 1 else "m"
        for stride, extent in zip(strides, shape[:-1], strict=True)
    ]
    site.store.write(site.code, (*rows, column), value)


def _scaled(product: _Product, total: str, part: str, group: str, column: str) -> None:
    """Append the addition of the sum of a group, under its scale."""
    code, scale = product.site.code, product.parameter(product.site.input(2), group, column)
    code.line(f"const {c_type(product.dtype)} scale = {scale};")
    with code.braces("if (scale - scale == 0)"):
        code.line(f"{total} += {part} * scale;")
    with code.loops(("else", _group_head(product, group))):
        code.line(f"{total} += {_x(product, 'k')} * ({_weight(product, group, column)} * scale);")


def _group_head(product: _Product, group: str) -> str:
    return for_head("k", f"({group} + 1) * {product.group}", f"{group} * {product.group}")


def _x(product: _Product, place: str) -> str:
    return f"({c_type(product.dtype)}){product.site.input(0).at(f'm * {product.depth} + {place}')}"


def _weight(product: _Product, group: str, column: str) -> str:
    """Return the weight of row k, less its zero point."""
    place = f"{column} * {product.depth} + k" if product.transposed else f"k * {product.columns} + {column}"
    weight = f"({c_type(product.dtype)}){product.weights.at(place)}"
    offset = product.parameter(product.site.optional(3), group, column)
    return weight if offset is None else f"({weight} - {offset})"


def _single(product: _Product) -> None:
    """Append the product weight by weight."""
    code = product.site.code
    with code.loops((for_head("n", product.columns),)):
        code.line(f"{c_type(product.dtype)} total = {literal_text(product.dtype, 0)};")
        if product.depth:
            with code.loops((for_head("g", product.depth // product.group),)):
                _single_group(product, "total", "n")
        _store(product, "n", "total")


def _single_group(product: _Product, total: str, column: str) -> None:
    """Append the addition of a group of a column, weight by weight."""
    code = product.site.code
    code.line(f"{c_type(product.dtype)} sum = {literal_text(product.dtype, 0)};")
    with code.loops((_group_head(product, "g"),)):
        code.line(f"sum += {_x(product, 'k')} * {_weight(product, 'g', column)};")
    _scaled(product, total, "sum", "g", column)


def _tiles(product: _Product) -> None:
    """Append the product for a tile of columns at a time, which has an array of sums for each lane."""
    code, lanes = product.site.code, product.lanes
    number, zero = c_type(product.dtype), literal_text(product.dtype, 0)
    tile = min(TILE, product.columns)
    array = f"[{lanes}][{tile // lanes}]"
    with code.braces(f"for (size_t n0 = 0; n0 < {product.columns}; n0 += {tile})"):
        rest = product.columns % tile
        width = f"n0 + {tile} > {product.columns} ? {rest // lanes} : {tile // lanes}" if rest else str(tile // lanes)
        code.line(f"const size_t width = {width};", f"{number} total{array} = {{{{{zero}}}}};")
        with code.loops((for_head("g", product.depth // product.group),)):
            code.line(f"{number} part{array} = {{{{{zero}}}}};")
            _offsets(product, array)
            together = UNROLLED_CODES if product.subtracts else UNROLLED
            whole = product.group - product.group % together
            if whole:
                _rows(product, f"g * {product.group}", f"g * {product.group} + {whole}", together)
            if whole < product.group:
                _rows(product, f"g * {product.group} + {whole}", f"(g + 1) * {product.group}", 1)
            _add_group(product)
        with code.loops((for_head("i", "width"),)):
            for lane in range(lanes):
                _store(product, f"(n0 + i * {lanes} + {lane})", f"total[{lane}][i]")


def _add_group(product: _Product) -> None:
    """Append the addition of the sums of a group under its scales; an infinite one, which is rare, is looked for."""
    code, lanes = product.site.code, product.lanes
    scale = product.site.input(2)
    code.line("int odd = 0;")
    with code.loops((for_head("j", f"width * {lanes}"),)):
        code.line(f"const {c_type(product.dtype)} scale = {product.parameter(scale, 'g', '(n0 + j)')};")
        code.line("odd |= !(scale - scale == 0);")
    with code.loops(("if (odd == 0)", for_head("i", "width"))):
        for lane in range(lanes):
            factor = product.parameter(scale, "g", f"(n0 + i * {lanes} + {lane})")
            code.line(f"total[{lane}][i] += part[{lane}][i] * {factor};")
    with code.loops(("else", for_head("i", "width"), for_head("lane", lanes))):
        _scaled(product, "total[lane][i]", "part[lane][i]", "g", f"(n0 + i * {lanes} + lane)")


def _offsets(product: _Product, array: str) -> None:
    """Append the zero points of a group as codes."""
    zero_point, code = product.site.optional(3), product.site.code
    if zero_point is None:
        return
    code.line(f"{c_type(product.dtype)} zero{array};")
    with code.loops((for_head("i", "width"),)):
        for lane in range(product.lanes):
            found = product.parameter(zero_point, "g", f"(n0 + i * {product.lanes} + {lane})")
            code.line(f"zero[{lane}][i] = {_as_code(product, found)};")


def _as_code(product: _Product, zero_point: str | None) -> str:
    return f"{zero_point} + {literal_text(product.dtype, product.bias)}" if product.bias else f"{zero_point}"


def _rows(product: _Product, first: str, last: str, count: int) -> None:
    """Append the addition of rows of weights to the sums of a group, ``count`` at a time.

    Their bias is taken from the products of these few rows, of which it is a part that rounding does not show; it is
    exact for weights of 0. Where it would be infinite, or x is, it is taken from each weight.
    """
    code, w, number = product.site.code, product.weights, c_type(product.dtype)
    with code.braces(f"for (size_t k = {first}; k < {last}; k += {count})"):
        for row in range(count):
            code.line(f"const {number} x{row}_ = {_x(product, f'k + {row}')};")
            start = f"((k + {row}) * {product.columns} + n0) / {8 // w.type.dtype.bits}"
            code.line(f"const {w.item_type} *const row{row} = {w.variable} + {start};")
        if not product.subtracts or count == 1:
            _columns(product, count, at_once=False)
            return
        magnitude = "fabs" if product.dtype is F64 else "fabsf"
        code.line(f"const {number} bias = {literal_text(product.dtype, product.bias)};")
        code.line(f"const {number} offset = bias * ({' + '.join(f'x{row}_' for row in range(count))});")
        # No sum of products with codes comes to more: they are at most twice the bias.
        code.line(f"const {number} most = 2 * bias * ({' + '.join(f'{magnitude}(x{row}_)' for row in range(count))});")
        with code.braces("if (most - most == 0)"):
            _columns(product, count, at_once=True)
        with code.braces("else"):
            _columns(product, count, at_once=False)


def _columns(product: _Product, count: int, *, at_once: bool) -> None:
    """Append the addition of rows, whose bias is an offset of their products ``at_once`` or of each weight."""
    code = product.site.code
    word = product.weights.item_type if product.reads_items else "uint32_t"
    with code.loops((for_head("i", "width"),)):
        for row in range(count):
            code.line(f"const {word} word{row} = {product.read(f'row{row}', 'i')};")
        for lane in range(product.lanes):
            zero = f"zero[{lane}][i]" if product.site.optional(3) is not None else None
            terms = [f"x{row}_ * {product.weight(f'word{row}', lane, zero, biased=at_once)}" for row in range(count)]
            total = " + ".join(terms)
            code.line(f"part[{lane}][i] += {f'({total} - offset)' if at_once else total};")


def _dots(product: _Product) -> None:
    """Append the product with w turned: of each of its rows with x, word by word, whose products are summed after."""
    code, lanes, number = product.site.code, product.lanes, c_type(product.dtype)
    span = min(product.depth, TILE // product.group * product.group)
    with code.braces(f"for (size_t n0 = 0; n0 < {product.columns}; n0 += {BLOCK})"):
        code.line(f"const size_t last = n0 + {BLOCK} < {product.columns} ? n0 + {BLOCK} : {product.columns};")
        code.line(f"{number} total[{min(BLOCK, product.columns)}] = {{{literal_text(product.dtype, 0)}}};")
        with code.braces(f"for (size_t k0 = 0; k0 < {product.depth}; k0 += {span})"):
            rest = product.depth % span
            words = f"k0 + {span} > {product.depth} ? {rest // lanes} : {span // lanes}" if rest else span // lanes
            code.line(f"const size_t words = {words};", f"{number} x_[{lanes}][{span // lanes}];")
            with code.loops((for_head("i", "words"),)):
                for lane in range(lanes):
                    code.line(f"x_[{lane}][i] = {_x(product, f'k0 + i * {lanes} + {lane}')};")
            with code.loops((for_head("n", "last", "n0"),)):
                _dot(product, span // lanes)
        with code.loops((for_head("n", "last", "n0"),)):
            _store(product, "n", "total[n - n0]")


def _dot(product: _Product, words: int) -> None:
    """Append the products of a row with the elements of x at hand, and their sums by groups."""
    site, code, lanes, number = product.site, product.site.code, product.lanes, c_type(product.dtype)
    per_group = product.group // lanes
    bytes_before = f"(n * {product.depth} + k0) / {lanes} * 4"
    code.line(f"const uint8_t *const row = (const uint8_t *){product.weights.variable} + {bytes_before};")
    offset = product.parameter(site.optional(3), f"(k0 / {product.group} + i / {per_group})", "n")
    if offset is not None:
        code.line(f"{number} zero[{words}];")
        with code.loops((for_head("i", "words"),)):
            code.line(f"zero[i] = {_as_code(product, offset)};")
    code.line(f"{number} product[{words}];")
    with code.loops((for_head("i", "words"),)):
        code.line(f"const uint32_t word = {product.read('row', 'i')};")
        zero = None if offset is None else "zero[i]"
        terms = [f"x_[{lane}][i] * {product.weight('word', lane, zero)}" for lane in range(lanes)]
        code.line(f"product[i] = {' + '.join(terms)};")
    with code.loops((for_head("j", f"words / {per_group}"),)):
        code.line(f"const size_t g = k0 / {product.group} + j;", f"{number} sum = {literal_text(product.dtype, 0)};")
        with code.loops((for_head("i", f"(j + 1) * {per_group}", f"j * {per_group}"),)):
            code.line("sum += product[i];")
        _scaled(product, "total[n - n0]", "sum", "g", "n")
