"""A tensor of an open container: what the index says of it, and its values on demand."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, as_bytes, decode, numpy_dtype, plain_numbers
from .checksums import Checksums
from .encoding import encode
from .errors import CheckLevel, Finding, OinfError, UninitializedError
from .indexing import Selection, plain_index, select, selected_shape
from .layout import HAS_DATA, HAS_QUANT
from .packing import unpack
from .payloads import Gap, gap_problems
from .quant import QuantParams, real_range
from .quantpayload import decode_quant, value_findings
from .sizes import size_text
from .source import ByteSource
from .tables import TensorEntry
from .valuecheck import range_problem, value_problem
from .valuetypes import ValueType, by_tag, element_type

VerifyMode = Literal["lazy", "eager", "off"]

_BLOCK = 1 << 20
# Bytes between rows that make a read of each row worth more than one read over them all: a page of memory.
_FAR_APART = 4096
# Elements of float64, which real values pass through, in the largest array that NumPy can describe.
_LARGEST_ARRAY = ((1 << 63) - 1) // 8


class StoredTensor:
    """One tensor of an open file; reading its values touches only its own bytes.

    `shape` counts elements, `nbytes` and `offset` are bytes of the stored payload (0 without data).
    """

    def __init__(
        self,
        entry: TensorEntry,
        source: ByteSource,
        check: CheckLevel,
        verify: VerifyMode,
        *,
        gaps: Sequence[Gap],
        checksums: Checksums,
    ) -> None:
        self._entry = entry
        self._source = source
        self._gaps = gaps
        self._checksums = checksums
        self._strict = check == "strict"
        # Values are checked once; threads that race repeat the same check, which is harmless.
        self._values_checked = verify == "off"
        self._checksum_checked = verify == "off"

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def value_type(self) -> ValueType:
        return by_tag(self._entry.tag)

    @property
    def dtype(self) -> str:
        return self.value_type.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self._entry.shape

    @property
    def ndim(self) -> int:
        return len(self._entry.shape)

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return self._entry.size

    @property
    def nbytes(self) -> int:
        return self._entry.nbytes

    @property
    def offset(self) -> int:
        return self._entry.offset

    @property
    def has_data(self) -> bool:
        return bool(self._entry.flags & HAS_DATA)

    @property
    def is_packed(self) -> bool:
        return self.value_type.is_packed

    @property
    def has_quant(self) -> bool:
        return bool(self._entry.flags & HAS_QUANT)

    @property
    def quant_nbytes(self) -> int:
        return self._entry.quant_nbytes

    @property
    def quant_offset(self) -> int:
        return self._entry.quant_offset

    def __repr__(self) -> str:
        state = size_text(self.nbytes) if self.has_data else "no data"
        return f"<tensor {self.name}: {self.dtype}{list(self.shape)}, {state}>"

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from .notebook import tensor_html

        return tensor_html(self)

    @cached_property
    def quant(self) -> QuantParams | None:
        """Quantisation parameters, or None. Raises `OinfError` (E_QUANT_VALUE) for scales that are not finite."""
        if not self.has_quant:
            return None
        quant = self._quant()
        if self._strict:
            errors = [finding for finding in self.quant_findings() if finding.is_error]
            if errors:
                raise OinfError(*errors)
        return quant

    def quant_payload(self) -> bytes:
        """The stored bytes of the quantisation parameters, empty without any."""
        return bytes(self._source.view(self._entry.quant_offset, self._entry.quant_nbytes)) if self.has_quant else b""

    def _quant(self) -> QuantParams:
        return decode_quant(memoryview(self.quant_payload()))

    def quant_findings(self) -> Iterator[Finding]:
        """What the values of the quantisation parameters have wrong or odd."""
        if self.has_quant:
            for code, message in value_findings(self._quant(), self.value_type):
                yield self.finding(code, message, self._entry.quant_offset)

    def finding(self, code: str, message: str, offset: int | None = None) -> Finding:
        return Finding(code=code, message=message, offset=offset, table="tensors", entry=self.name)

    def _require_data(self) -> None:
        if not self.has_data:
            message = f"tensor {self.name!r} is declared as {self.dtype}{list(self.shape)} without data"
            raise UninitializedError(self.finding("E_UNINITIALIZED", message, self._entry.position))

    def _view(self, start: int, nbytes: int) -> memoryview:
        """Some of the stored bytes, and only those."""
        self._require_data()
        return self._source.view(self._entry.offset + start, nbytes)

    def raw(self) -> NDArray[np.uint8]:
        """The stored bytes as a read-only view, never decoded nor checked."""
        stored = as_bytes(self._view(0, self.nbytes))
        stored.flags.writeable = False
        return stored

    def value_problem(self) -> str | None:
        """What is wrong with the stored values (bool bytes, packed tails, t2 patterns), or None."""
        return value_problem(self._view, self.value_type, self.size) if self.has_data else None

    def check_values(self) -> None:
        """Raise `OinfError` when stored bytes are not values of the type (E_VALUE), or those after them not zero
        (E_PADDING, E_HOLE); done once, if strict.
        """
        if self._values_checked:
            return
        problem = self.value_problem() if self._strict else None
        if problem is not None:
            raise OinfError(self.finding("E_VALUE", problem, self._entry.offset))
        wrong = [*self.gap_findings()] if self._strict else []
        if wrong:
            raise OinfError(*wrong)
        self._values_checked = True

    def gap_findings(self) -> Iterator[Finding]:
        """What the bytes between this tensor's payloads and the next ones have wrong."""
        for gap in self._gaps:
            for code, message in gap_problems(gap, self._source):
                yield self.finding(code, message, gap[0])

    def check(self) -> None:
        """Raise `OinfError` as `check_values` does, or where the checksum disagrees (E_CHECKSUM); done once."""
        self.check_values()
        if not self._checksum_checked:
            self._checksums.check(self)
            self._checksum_checked = True

    def numpy(self) -> Array:
        """A read-only array of the values: a view of the file, but for packed types, which are unpacked.

        Raises `UninitializedError` for a tensor without data, `OinfError` for bytes that are not values (E_VALUE,
        E_PADDING, E_HOLE) or do not agree with their checksum (E_CHECKSUM).
        """
        self._require_data()
        self.check()
        return decode(self._view(0, self.nbytes), self.value_type, self.shape, self.size)

    def load(self) -> Array:
        """A private, writable copy of the values."""
        array = self.numpy()
        return array if array.flags.owndata and not self.is_packed else array.copy()

    def dequantize(self, dtype: str = "f32") -> Array:
        """Real values: scale * (stored - zero point) in the float type `dtype`; plain values without quant.

        Raises `OinfError`: E_DTYPE when `dtype` is not a float type, E_DIM_OVERFLOW for an empty tensor whose other
        dimensions are more than NumPy holds of that type.
        """
        self._require_data()
        target = element_type(dtype)
        if target.kind != "float":
            raise OinfError(self.finding("E_DTYPE", f"real values need a float type, not {target.name}"))
        self._check_describable(target)
        self.check()
        stored = np.empty(target.stored_nbytes(self.size), np.uint8)
        start = 0
        for block in self.real_blocks():
            encoded = encode(block, target)
            stored[start : start + encoded.size] = encoded
            start += encoded.size
        return decode(memoryview(stored.data), target, self.shape, self.size)

    def real_blocks(self, elements: int = _BLOCK) -> Iterator[Array]:
        """Real values in C order, flat, at most `elements` at a time: float32 with quantisation, else as `numbers`."""
        quant = self.quant
        for first in range(0, self.size, elements):
            block = self.numbers(first, min(first + elements, self.size))
            yield block if quant is None else real_range(block, quant, self.shape, first)

    def zeros(self, max_nbytes: int = 1 << 30) -> Array:
        """Zeros of the tensor's shape, of the type that `numpy` gives: values for a declaration without data.

        Nothing is made by itself: a small file can declare any number of elements. Raises `OinfError`: E_LIMIT for
        more than `max_nbytes` bytes, E_VALUE for t1, which has no zero, E_DIM_OVERFLOW as `dequantize`.
        """
        if self.dtype == "t1":
            raise OinfError(self.finding("E_VALUE", "t1 holds -1 and 1 only", self._entry.position))
        dtype = numpy_dtype(self.value_type)
        nbytes = self.size * dtype.itemsize
        if nbytes > max_nbytes:
            message = f"{nbytes} bytes of zeros are more than max_nbytes ({max_nbytes})"
            raise OinfError(self.finding("E_LIMIT", message, self._entry.position))
        self._check_describable(self.value_type)
        return np.zeros(self.shape, dtype)

    def _check_describable(self, kind: ValueType) -> None:
        if math.prod(dim for dim in self.shape if dim) > _LARGEST_ARRAY:
            message = f"{list(self.shape)} is beyond what NumPy holds of {kind.name}"
            raise OinfError(self.finding("E_DIM_OVERFLOW", message, self._entry.position))

    def __getitem__(self, key: Any) -> Array:
        """`t[0:4]`, `t[-1]`, `t[::512]`, `t[5, ..., 0:3]`: reads, and checks, no more than that asks for.

        Axes with one index are gone through first; of the next axis the rows from the first to the last are read, or,
        where they lie far apart, each of them. Arrays, masks and `None` in an index read the whole tensor. Raises
        `IndexError`, `UninitializedError`, and `OinfError` (E_VALUE) for bytes that are not values; padding and
        checksum are checked where the whole tensor is read.
        """
        index = plain_index(key, self.ndim)
        if index is None or not self.ndim:
            return self.numpy()[key]
        chosen = select(index, self.shape)
        self._require_data()
        if chosen is None:
            return np.empty(selected_shape(index, self.shape), numpy_dtype(self.value_type))
        if len(chosen.span) * chosen.row_size == self.size:
            return self.numpy()[key]
        row, block = chosen.row_of_span, self._rows(chosen, chosen.span)
        if block is None:
            row, block = chosen.row, self._separate_rows(chosen)
        shaped = block.reshape((1,) * len(chosen.before) + (-1, *chosen.row_shape))
        shaped.flags.writeable = False
        return shaped[(*chosen.before, row, *chosen.after)]

    def _rows(self, chosen: Selection, rows: range) -> Array | None:
        """Elements of all `rows` as they lie in the file, or None where reading each row requested is cheaper."""
        is_view = self._source.is_addressable and not self.is_packed and self.value_type.kind != "bool"
        skipped = (abs(chosen.rows.step) - 1) * chosen.row_size * self.value_type.bits // 8
        if len(rows) > 1 and not is_view and skipped >= _FAR_APART:
            return None
        first = chosen.start + rows.start * chosen.row_size
        return self._elements(first, first + len(rows) * chosen.row_size)

    def _separate_rows(self, chosen: Selection) -> Array:
        starts = [chosen.start + row * chosen.row_size for row in chosen.rows]
        return np.concatenate([self._elements(start, start + chosen.row_size) for start in starts])

    def _elements(self, first: int, last: int) -> Array:
        """Elements `first` to `last` (not included), checked, flat, of the type that `numpy` gives."""
        kind = self.value_type
        start, end = first * kind.bits // 8, kind.stored_nbytes(last)
        view = self._view(start, end - start)
        if self._strict and not self._values_checked:
            tail = last * kind.bits % 8 if last == self.size else 0
            problem = range_problem(as_bytes(view), kind, start, tail=tail)
            if problem is not None:
                raise OinfError(self.finding("E_VALUE", problem, self._entry.offset))
        if not kind.is_packed:
            return decode(view, kind, (last - first,), last - first)
        skipped = start * 8 // kind.bits
        return unpack(as_bytes(view), kind, first - skipped, last - skipped)

    def numbers(self, first: int, last: int) -> Array:
        """Elements `first` to `last` (not included) in C order, of a type NumPy calculates with.

        Touches only the bytes that hold them; bf16 and f8 come as float32, packed types as int8 or uint8.
        """
        kind = self.value_type
        start = first * kind.bits // 8
        stored = as_bytes(self._view(start, kind.stored_nbytes(last) - start))
        if not kind.is_packed:
            return plain_numbers(stored, kind)
        skipped = start * 8 // kind.bits
        return unpack(stored, kind, first - skipped, last - skipped)

    def number_blocks(self, elements: int = _BLOCK) -> Iterator[Array]:
        """The values as `numbers`, at most `elements` at a time."""
        for first in range(0, self.size, elements):
            yield self.numbers(first, min(first + elements, self.size))

    def byte_blocks(self) -> Iterator[memoryview]:
        """The stored bytes, a block at a time; nothing for a tensor without data."""
        for start in range(0, self.nbytes, _BLOCK):
            yield self._view(start, min(_BLOCK, self.nbytes - start))

    def sha256(self) -> str:
        """SHA-256 of the stored bytes, in hexadecimal digits."""
        self._require_data()
        digest = hashlib.sha256()
        for block in self.byte_blocks():
            digest.update(block)
        return digest.hexdigest()
