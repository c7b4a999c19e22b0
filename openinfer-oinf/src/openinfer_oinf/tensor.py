"""A tensor of an open container: what the index says of it, and its values on demand."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, as_bytes, decode, plain_numbers
from .checksums import Checksums
from .encoding import encode
from .errors import CheckLevel, Finding, OinfError, UninitializedError
from .layout import HAS_DATA, HAS_QUANT
from .packing import unpack
from .payloads import Gap, gap_problems
from .quant import QuantParams, dequantize
from .quantpayload import decode_quant, value_findings
from .sizes import size_text
from .source import ByteSource
from .tables import TensorEntry
from .valuecheck import value_problem
from .valuetypes import ValueType, by_tag, element_type

VerifyMode = Literal["lazy", "eager", "off"]

_BLOCK = 1 << 20
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
        # Values are looked at once; threads that race repeat the same look, which is harmless.
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
        """Raise `OinfError` when stored bytes are not values of the type (E_VALUE), or those behind them not zero
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

    def _check_whole(self) -> None:
        """Check values and, in a file that has them, the checksum, once."""
        self.check_values()
        if not self._checksum_checked:
            self._checksums.check(self)
            self._checksum_checked = True

    def numpy(self) -> Array:
        """A read-only array of the values: a view of the file, but for packed types, which are unpacked.

        Raises `UninitializedError` for a tensor without data, `OinfError` for bytes that are no values (E_VALUE,
        E_PADDING, E_HOLE) or do not agree with their checksum (E_CHECKSUM).
        """
        self._require_data()
        self._check_whole()
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
        target = element_type(dtype)
        if target.kind != "float":
            raise OinfError(self.finding("E_DTYPE", f"real values need a float type, not {target.name}"))
        stored = self.numpy()
        if math.prod(dim for dim in self.shape if dim) > _LARGEST_ARRAY:
            message = f"{list(self.shape)} is beyond what NumPy holds of {target.name}"
            raise OinfError(self.finding("E_DIM_OVERFLOW", message, self._entry.position))
        values: Array = self._plain(stored) if self.quant is None else dequantize(self._plain(stored), self.quant)
        return decode(memoryview(encode(values, target).data), target, self.shape, self.size)

    def _plain(self, stored: Array) -> Array:
        if self.value_type.name not in ("bf16", "f8"):
            return stored
        return plain_numbers(self.raw(), self.value_type).reshape(self.shape)

    def __getitem__(self, key: Any) -> Array:
        """`t[0:4]` and every other NumPy index; a leading range reads (and unpacks) no more than its rows."""
        if self.ndim and isinstance(key, slice):
            return self._leading_range(cast("slice[int | None, int | None, int | None]", key))
        return self.numpy()[key]

    def _leading_range(self, rows: slice[int | None, int | None, int | None]) -> Array:
        first, last, step = rows.indices(self.shape[0])
        if step != 1 or last <= first:
            return self.numpy()[rows]
        self._require_data()
        self.check_values()
        shape = (last - first, *self.shape[1:])
        per_row = self.size // self.shape[0]
        if self.is_packed:
            array = self.numbers(first * per_row, last * per_row).reshape(shape)
            array.flags.writeable = False
            return array
        width = per_row * self.value_type.bits // 8
        return decode(self._view(first * width, (last - first) * width), self.value_type, shape, shape[0] * per_row)

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
