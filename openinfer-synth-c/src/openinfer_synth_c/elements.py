"""C expressions that read and convert elements of operands of any storage type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.expr.c_renderer import c_type, item_type, load_text, store_text
from openinfer.ir.types import TensorType
from openinfer.ops.strides import broadcast_strides
from openinfer_synth_c.index_text import flat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer_synth_c.code import Code


@dataclass(frozen=True, slots=True)
class Bound:
    """An operand in scope.

    Attributes:
        variable: name of a pointer to its items, or (``pointer`` false) of the one element itself.
        stored: type as it is in memory.
        code: where functions are noted that its elements are read and stored with.
    """

    variable: str
    stored: TensorType
    code: Code
    pointer: bool = True

    @property
    def type(self) -> TensorType:
        """The shape, and the type of elements as `at` returns and `store` takes them."""
        return self.stored

    @property
    def name(self) -> str:
        """The pointer to the elements, for kernels that count addresses.

        Raises:
            SynthesisError: elements have no address of their own.
        """
        if self.stored.dtype.is_packed:
            raise SynthesisError(f"elements of {self.stored} can be used one by one only", code="dtype-unsupported")
        return self.variable

    @property
    def c_type(self) -> str:
        """The C type of an element as `at` returns it."""
        return c_type(self.type.dtype)

    @property
    def item_type(self) -> str:
        """The C type that the pointer points to."""
        return item_type(self.stored.dtype)

    def at(self, index: str) -> str:
        """Return the element at a flat index."""
        if not self.pointer:
            return self.variable
        if not self.stored.dtype.is_packed:
            return f"{self.variable}[{index}]"
        return self.code.noted(load_text(self.stored.dtype, self.variable, index))

    def broadcast_at(self, coordinates: Sequence[str], out: Sequence[int]) -> str:
        """Return the element that belongs to a position of a tensor of shape ``out``."""
        return self.at(flat(coordinates, broadcast_strides(self.stored.shape, out)))

    def store(self, index: str, value: str) -> None:
        """Append the store of an element at a flat index; integers wrap at the width of a packed type."""
        self.code.line(self.store_text(index, value))

    def store_text(self, index: str, value: str) -> str:
        """Return the statement that stores an element at a flat index."""
        dtype = self.stored.dtype
        if dtype.is_packed:
            return f"{self.code.noted(store_text(dtype, self.variable, index, value))};"
        return f"{self.variable}[{index}] = {value};"

    def copy(self, source: str) -> None:
        """Append the copy of all items from another array of the same type."""
        self.code.line(f"memcpy({self.variable}, {source}, {self.stored.nbytes});")

    def clear_tail(self) -> None:
        """Append zeros for the bits of the last byte that hold no element."""
        used = self.stored.count * self.stored.dtype.bits % 8
        if used and self.stored.dtype.is_packed:
            last = f"{self.variable}[{self.stored.nbytes - 1}]"
            self.code.line(f"{last} = (uint8_t)({last} & {(1 << used) - 1});")
