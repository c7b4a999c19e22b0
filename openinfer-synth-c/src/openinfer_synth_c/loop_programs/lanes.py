"""What a loop over lanes is made of: which values differ between lanes, and which buffers are vector registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.dtypes import BF16, F8, F16, F32, F64, I8, I32, SINT, UINT, DType
from openinfer.expr import tree
from openinfer.loops import Alloc, Bind, For, If, Let, Load, Memory, Number, Register, Set, Store, Value
from openinfer.loops.joined_lanes import joined_lanes
from openinfer.loops.substitution import indices_of, substituted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Within
    from openinfer.expr.tree import Expr
    from openinfer.loops import Buffer, Leaf, Statement

_ELEMENTS = frozenset(dtype.name for dtype in (F8, BF16, F16, F32, F64, *SINT, *UINT))


def has_vector_type(dtype: DType, count: int) -> bool:
    """Return whether GCC and Clang have a vector type of so many elements that expressions compute in."""
    return dtype.name in _ELEMENTS and count >= 2 and count & (count - 1) == 0


def varies(leaf: Leaf, lane: Var, varying: frozenset[str]) -> bool:
    """Return whether a leaf may have another value in each lane. ``varying`` are registers that do."""
    match leaf:
        case Load(_, address, guards, _):
            return lane in address.variables() or tests_vary(guards, lane)
        case Register(name, _):
            return name in varying
        case Number(index, _):
            return lane in index.variables()
        case _:
            return False


def tests_vary(tests: Sequence[Within], lane: Var) -> bool:
    """Return whether tests may hold in some lanes only."""
    return any(lane in test.index.variables() for test in tests)


def varying_registers(body: Sequence[Statement], lane: Var) -> frozenset[str]:
    """Return the registers of a loop over lanes that may have another value in each lane."""
    found, joined = frozenset[str](), joined_lanes(body)
    while True:
        more = found | frozenset(_varying(body, lane, found, guarded=False)) - joined
        if more == found:
            return found
        found = more


def _varying(body: Sequence[Statement], lane: Var, known: frozenset[str], *, guarded: bool) -> Iterator[str]:
    for statement in body:
        match statement:
            case If(tests, inner):
                yield from _varying(inner, lane, known, guarded=guarded or tests_vary(tests, lane))
            case Let(name, value) | Set(name, value):
                if guarded or any(varies(leaf, lane, known) for leaf in value.leaves):
                    yield name
            case _:
                pass


def vector_buffers(body: Sequence[Statement]) -> frozenset[str]:
    """Return the private buffers that vector registers can hold: loops over as many lanes use them, by their lane."""
    uses = _Uses()
    uses.collect(body, None)
    return frozenset(uses.allocated - uses.other)


class _Uses:
    """How private buffers are used: all names, and those that no register can hold."""

    def __init__(self) -> None:
        self.allocated: set[str] = set()
        self.other: set[str] = set()

    def collect(self, body: Sequence[Statement], lane: Var | None) -> None:
        for statement in body:
            match statement:
                case For(var, bind, inner):
                    self.collect(inner, var if bind is Bind.LANES else lane)
                case If(_, inner):
                    self.collect(inner, lane)
                case Alloc(buffer):
                    self._allocate(buffer)
                case Store(buffer, address, value):
                    self._use(buffer, address, lane)
                    self._read(value, lane)
                case _:
                    self._read_by(statement, lane)

    def _allocate(self, buffer: Buffer) -> None:
        # Blocks that do not overlap may use a name for buffers of two forms.
        known = buffer.name in self.allocated
        self.allocated.add(buffer.name)
        if known or buffer.memory is not Memory.PRIVATE or not has_vector_type(buffer.dtype, buffer.size.constant or 0):
            self.other.add(buffer.name)

    def _read_by(self, statement: Statement, lane: Var | None) -> None:
        value: Value | None = getattr(statement, "value", None) or getattr(statement, "refused", None)
        if value is not None:
            self._read(value, lane)

    def _read(self, value: Value, lane: Var | None) -> None:
        for leaf in value.leaves:
            if isinstance(leaf, Load):
                self._use(leaf.buffer, leaf.address, None if leaf.guards else lane)

    def _use(self, buffer: Buffer, address: Index, lane: Var | None) -> None:
        if lane is None or address != Index.of(lane) or buffer.size.constant != lane.extent:
            self.other.add(buffer.name)


def is_set(body: Sequence[Statement], name: str) -> bool:
    """Return whether a register is given another value after its `Let`."""
    return any(
        is_set(statement.body, name)
        if isinstance(statement, If)
        else isinstance(statement, Set) and statement.name == name
        for statement in body
    )


def in_more_lanes(outer: Var, body: Sequence[Statement]) -> For | None:
    """Return one loop over lanes for a loop around one whose indices use both variables as one number with two digits.

    None: the loops are others.
    """
    if len(body) != 1 or not isinstance(body[0], For) or not isinstance(outer.extent, int):
        return None
    inner = body[0]
    lanes = inner.var.extent
    if inner.bind is not Bind.LANES or not isinstance(lanes, int):
        return None
    pairs = [(index.coefficient(outer), index.coefficient(inner.var)) for index in indices_of(inner.body)]
    if any(low is None or high is None or high != low * lanes for high, low in pairs):
        return None
    both = Var(inner.var.name, outer.extent * lanes)
    return For(both, Bind.LANES, substituted(inner.body, {outer: Index(), inner.var: Index.of(both)}))


def sum_of_product(value: Value) -> tuple[Value, Value, Value] | None:
    """Return a, b and total of ``fma(a, b, total)`` or ``total + a * b``; None: it is something else.

    The total is a leaf, and the factors are leaves or casts of leaves.
    """
    match value.expr:
        case (
            tree.Apply("fma", (a, b, total), _)
            | tree.Apply("add", (total, tree.Apply("mul", (a, b), _)), _)
            | tree.Apply("add", (tree.Apply("mul", (a, b), _), total), _)
        ):
            parts = (_part(value, a), _part(value, b), _part(value, total))
        case _:
            return None
    a, b, total = parts
    if a is None or b is None or total is None or not isinstance(total.expr, tree.Input):
        return None
    return a, b, total


def bytes_of_sum(value: Value) -> tuple[Value, Value] | None:
    """Return the bytes a and b of ``total + cast(a) * cast(b)`` in i32; None: it is something else."""
    parts = sum_of_product(value) if value.dtype is I32 else None
    if parts is None:
        return None
    factors = [factor.leaves[0] for factor in parts[:2]]
    if any(leaf.dtype is not I8 for leaf in factors):
        return None
    a, b = (Value(tree.Input(0, I8), (leaf,)) for leaf in factors)
    return a, b


def _part(value: Value, expr: Expr) -> Value | None:
    """Return a leaf of a value, or the cast of one, as a value of its own; None: it is something else."""
    match expr:
        case tree.Input(number, dtype):
            return Value(tree.Input(0, dtype), (value.leaves[number],))
        case tree.Apply("cast", (tree.Input(number, dtype),), result):
            return Value(tree.cast(tree.Input(0, dtype), result), (value.leaves[number],))
        case _:
            return None
