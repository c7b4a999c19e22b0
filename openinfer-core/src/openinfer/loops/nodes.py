"""Loop programs: loops over index variables around scalar statements, for one kernel of one machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from openinfer.expr.linear import linearise
from openinfer.expr.tree import Input, substitute
from openinfer.loops.tiles import TileStatement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Index, Var, Within
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr, Literal
    from openinfer.loops.buffers import Buffer


class Bind(Enum):
    """How the iterations of a loop are carried out.

    ``SERIAL`` one after the other; ``UNROLL`` likewise, written out; ``LANES`` by the lanes of a vector register, each
    statement at once; ``GROUP`` by groups of threads; ``LOCAL`` by the threads of a group.

    A private buffer with as many elements as a loop has lanes, used by ``buffer[lane]`` only, is a vector register.
    """

    SERIAL = "SERIAL"
    UNROLL = "UNROLL"
    LANES = "LANES"
    GROUP = "GROUP"
    LOCAL = "LOCAL"

    @property
    def is_parallel(self) -> bool:
        """Whether iterations may run at the same time."""
        return self in (Bind.LANES, Bind.GROUP, Bind.LOCAL)


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """An element of a buffer.

    Attributes:
        guards: where one does not hold, the value is ``fill`` and nothing is read.
    """

    buffer: Buffer
    address: Index
    guards: tuple[Within, ...] = ()
    fill: Literal | None = None

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Load) and _load_key(self) == _load_key(other)

    def __hash__(self) -> int:
        return hash((self.buffer.name, self.address))


@dataclass(frozen=True, slots=True)
class Register:
    """A scalar that a `Let` has named."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Number:
    """The value of an index."""

    index: Index
    dtype: DType


@dataclass(frozen=True, slots=True)
class Across:
    """The combination of all elements of a private buffer by a function of two operands, as a balanced tree."""

    function: str
    buffer: Buffer

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@dataclass(frozen=True, slots=True)
class Peer:
    """The value that another thread has for a named scalar, within a `Join`."""

    name: str
    dtype: DType


Leaf: TypeAlias = Load | Register | Number | Across | Peer


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A scalar: ``Input(k)`` in ``expr`` is ``leaves[k]``. Values of equal form compare equal."""

    expr: Expr
    leaves: tuple[Leaf, ...] = ()

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Value) and linearise(self.expr) == linearise(other.expr) and self.leaves == other.leaves
        )

    def __hash__(self) -> int:
        return hash((linearise(self.expr), len(self.leaves)))


def value_of(expr: Expr, leaves: Mapping[int, Leaf]) -> Value:
    """Return the value of an expression whose ``Input(k)`` is ``leaves[k]``: leaves that occur, in order of use."""
    numbers = [i.index for i in linearise(expr).instructions if i.function == "input"]
    order = {leaf: place for place, leaf in enumerate(dict.fromkeys(leaves[number] for number in numbers))}
    inputs: dict[int, Expr] = {number: Input(order[leaves[number]], leaves[number].dtype) for number in numbers}
    return Value(substitute(expr, inputs), tuple(order))


@dataclass(frozen=True, slots=True)
class For:
    """A loop: ``var`` counts from 0 up to its extent."""

    var: Var
    bind: Bind
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If:
    """``body`` where all tests hold."""

    tests: tuple[Within, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """Name a scalar for the rest of the block that this is in."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Set:
    """Give a named scalar another value."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Lookup:
    """Bind an index variable to a computed i64, which lies within its extent for certain (a `Fail` precedes it)."""

    var: Var
    value: Value


@dataclass(frozen=True, slots=True)
class Fail:
    """End the step with an error where ``refused``, a bool, is true. ``rule`` is what the error says."""

    refused: Value
    rule: str


@dataclass(frozen=True, slots=True)
class Store:
    """Write an element."""

    buffer: Buffer
    address: Index
    value: Value


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Say that elements from this one on are read soon, so that a processor with caches may fetch their line."""

    buffer: Buffer
    address: Index


@dataclass(frozen=True, slots=True)
class Alloc:
    """Make a private or shared buffer, without values, for the rest of the block that this is in."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Barrier:
    """Wait until every thread of the group is here and sees what the others have written."""


@dataclass(frozen=True, slots=True)
class Join:
    """Combine named scalars of the threads along one loop; each of these threads then has the same values.

    Attributes:
        over: variable of a loop over threads (`Bind.LOCAL`) that encloses it.
        pairs: the scalars of two threads as one: `Register` is that of the earlier thread, `Peer` that of the later.
            All are computed before one is set. Threads are combined in any order, each of them once.
    """

    over: Var
    pairs: tuple[Set, ...]


Statement: TypeAlias = For | If | Let | Set | Lookup | Fail | Store | Prefetch | Alloc | Barrier | Join | TileStatement


@dataclass(frozen=True, slots=True)
class Kernel:
    """One loop program.

    Attributes:
        buffers: operands, in the order in which they are passed.
        parameters: sizes and indices that are known at run time only.
        origin: where it comes from, such as lines of the program; shown in generated source.
    """

    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]
    parameters: tuple[Var, ...] = ()
    origin: str = ""


def _load_key(load: Load) -> tuple[object, ...]:
    return (load.buffer, load.address, load.guards, load.fill and linearise(load.fill))
