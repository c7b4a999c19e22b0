"""Neighbouring elements as words: what the lanes of a loop load and store lies in 4, 8 or 16 bytes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.loops import Bind, For, If, Load, Lookup, Memory, Store
from openinfer.loops.substitution import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.loops import Buffer, Statement

WORD_BITS = 32
VECTOR = 4
"""Elements of the vectors that shared memory consists of where threads load so many at once."""
_TYPES = {1: "uint", 2: "uvec2", 4: "uvec4"}


@dataclass(frozen=True, slots=True)
class Span:
    """The elements of a buffer that the lanes of a loop touch, which are whole words.

    Attributes:
        first: address of the first lane's element.
        lanes: how many elements there are.
    """

    buffer: Buffer
    first: Index
    lanes: int

    @property
    def width(self) -> int:
        """Words of an item of the buffer as it is declared for this: 1, 2 or 4."""
        return min(self.lanes * self.buffer.dtype.bits // WORD_BITS, 4)

    @property
    def per_item(self) -> int:
        """Elements of an item."""
        return self.width * WORD_BITS // self.buffer.dtype.bits

    @property
    def items(self) -> tuple[Index, ...]:
        """The numbers of the items."""
        return tuple(self.first // self.per_item + number for number in range(self.lanes // self.per_item))


def item_type(width: int) -> str:
    """Return the GLSL type of items of so many words."""
    return _TYPES[width]


def loaded(var: Var, body: Sequence[Statement]) -> dict[Load, Span]:
    """Return what the lanes of a loop load together, by the load of a lane."""
    surely = [statement for statement in body if not isinstance(statement, If)]
    bound = bound_in(body)
    loads = (
        load for load in dict.fromkeys(loads_of(surely)) if not load.guards and not load.address.variables() & bound
    )
    spans = ((load, span_of(var, load.buffer, load.address)) for load in loads)
    return {load: span for load, span in spans if span is not None}


def bound_in(body: Sequence[Statement]) -> set[Var]:
    """Return the variables that statements compute."""
    return {statement.var for statement in body if isinstance(statement, Lookup)}


def loads_of(body: Sequence[Statement]) -> Iterator[Load]:
    """Yield the elements that statements load."""
    for value in values_of(body):
        yield from (leaf for leaf in value.leaves if isinstance(leaf, Load))


def stored(var: Var, body: Sequence[Statement]) -> Iterator[tuple[Store, Span]]:
    """Yield what the lanes of a loop store together."""
    for statement in body:
        if isinstance(statement, Store):
            span = span_of(var, statement.buffer, statement.address)
            if span is not None and not statement.address.variables() & bound_in(body):
                yield statement, span


def in_vectors(body: Sequence[Statement]) -> set[str]:
    """Return the names of shared buffers of which lanes load vectors."""
    vectors: set[str] = set()
    for statement in body:
        if isinstance(statement, For | If):
            vectors |= in_vectors(statement.body)
        if isinstance(statement, For) and statement.bind in (Bind.LANES, Bind.UNROLL):
            spans = loaded(statement.var, statement.body).values()
            vectors |= {span.buffer.name for span in spans if span.buffer.memory is Memory.SHARED}
    return vectors


def span_of(var: Var, buffer: Buffer, address: Index) -> Span | None:
    """Return the elements of a buffer that lanes touch at an address; None where they are not whole, aligned words."""
    bits = buffer.dtype.bits
    if buffer.memory is Memory.PRIVATE or not isinstance(var.extent, int):
        return None
    if buffer.memory is Memory.SHARED and (bits < WORD_BITS or var.extent != VECTOR):
        return None
    if address.coefficient(var) != 1 or bits > WORD_BITS or var.extent * bits % WORD_BITS:
        return None
    words = var.extent * bits // WORD_BITS
    first = address.substituted({var: Index()})
    span = Span(buffer, first, var.extent)
    if words not in _TYPES and words % 4:
        return None
    return span if is_multiple(first, span.per_item) else None


def is_multiple(index: Index, of: int) -> bool:
    """Return whether an index is a multiple of a number for certain."""
    return all(factor % of == 0 for _, factor in index.terms)
