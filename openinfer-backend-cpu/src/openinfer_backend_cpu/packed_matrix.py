"""A matrix of small integers in storage form, read in pieces as floats.

Elements that share a byte are got at by masking all bytes of a piece at once: the highest bits of a byte, the others
being 0, are an element times a power of two, which is the matrix's unit. So nothing is moved bit by bit, and signs come
by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.dtypes import Kind
from openinfer.packing import unpack

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.ir.types import TensorType

    Array: TypeAlias = npt.NDArray[Any]


class PackedMatrix:
    """Elements of type ``kind`` in ``stored``: the packed bytes, or for types of a byte the matrix itself.

    Attributes:
        columns: elements of a row.
        lanes: elements of a byte; lane ``i`` of a row is its elements ``i``, ``i + lanes``, ….
        unit: what elements are multiples of when they are read.
        whole_rows: whether every row begins with a byte; else there are no lanes to read.
    """

    def __init__(self, stored: Array, kind: TensorType) -> None:
        self._dtype = kind.dtype
        self._rows, self.columns = kind.shape
        self._bits = kind.dtype.bits
        self.lanes = 8 // self._bits
        self.whole_rows = self.columns % self.lanes == 0
        self.unit = {8: 1, 4: 16, 2: 64, 1: 64}[self._bits]
        self._stored = stored
        self._bytes: Array = stored.reshape(self._rows, self.columns // self.lanes) if self.whole_rows else stored
        self._signed = kind.dtype.kind is not Kind.UNSIGNED

    def __len__(self) -> int:
        return self._rows

    def lane(self, first: int, last: int, lane: int, scratch: Array, out: Array) -> None:
        """Write a lane of some rows to floats; ``scratch`` is uint8 and has the shape of ``out``."""
        source = self._bytes[first:last]
        if self.lanes == 1:
            np.copyto(out, source)
            return
        mask = np.uint8(0x100 - (0x100 >> self._bits))
        shift = 8 - self._bits * (lane + 1)
        np.multiply(source, np.uint8(1 << shift), out=scratch)
        np.bitwise_and(scratch, mask, out=scratch)
        if self._dtype.name == "t1":
            np.bitwise_xor(scratch, np.uint8(0xC0), out=scratch)  # 0 and 128: -64 and 64
        np.copyto(out, scratch.view(np.int8) if self._signed else scratch)

    def elements(self, first: int, last: int, out: Array) -> None:
        """Write some rows to floats."""
        if self.lanes == 1:
            np.copyto(out, self._bytes[first:last])
            return
        if not self.whole_rows:
            self._unaligned(first, last, out)
            return
        scratch = np.empty((last - first, self.columns // self.lanes), np.uint8)
        for lane in range(self.lanes):
            self.lane(first, last, lane, scratch, out[:, lane :: self.lanes])

    def _unaligned(self, first: int, last: int, out: Array) -> None:
        start, stop = first * self.columns, last * self.columns
        skipped = start % self.lanes
        piece = self._stored[start // self.lanes : -(-stop // self.lanes)]
        whole = unpack(piece, self._dtype, (stop - start + skipped,))
        np.multiply(whole[skipped:].reshape(out.shape), out.dtype.type(self.unit), out=out)
