"""Scalar statements of loop programs, and the loops around them."""

from __future__ import annotations

from itertools import count, groupby
from typing import TYPE_CHECKING

from openinfer.affine import Var
from openinfer.dtypes import BOOL, I64, U32
from openinfer.errors import SynthesisError
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.ir.types import TensorType
from openinfer.loops import (
    Across,
    Alloc,
    Barrier,
    Bind,
    Buffer,
    Fail,
    For,
    If,
    Join,
    Let,
    Load,
    Lookup,
    Memory,
    Number,
    Peer,
    Prefetch,
    Register,
    Set,
    Store,
    TileAlloc,
    TileFill,
    TileFma,
    TileLoad,
    TileStore,
    Value,
)
from openinfer.loops.joined_lanes import joined_lanes
from openinfer.synth.c_host.annotations import bound_hint
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.loop_programs.addresses import (
    address_text,
    buffer_name,
    counter,
    index_text,
    loop_head,
    pointer_text,
    register,
    tests_text,
)
from openinfer_synth_c.loop_programs.guards import guarded, out_of_range
from openinfer_synth_c.loop_programs.lane_loops import LaneLoop
from openinfer_synth_c.loop_programs.lanes import in_more_lanes, sum_of_product, vector_buffers
from openinfer_synth_c.loop_programs.places import Places, is_plain
from openinfer_synth_c.loop_programs.rests import counted_on
from openinfer_synth_c.loop_programs.vector_functions import across, across_vector
from openinfer_synth_c.loop_programs.vector_types import vector_type
from openinfer_synth_c.rolled_loops import rolled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.loops import Kernel, Leaf, Statement
    from openinfer_synth_c.code import Code

MOST_LOCAL_BYTES = 1 << 30
"""Most bytes of a buffer of a loop program: linkers place up to 2 GiB of static memory in the usual code model."""

_PREFETCH = """\
/* Has the caches fetch what is read soon. */
#if defined(__GNUC__)
#define PREFETCH(p) __builtin_prefetch(p)
#else
#define PREFETCH(p) (void)(p)
#endif
"""


def write_kernel(code: Code, kernel: Kernel, operands: Mapping[str, Bound]) -> None:
    """Append a loop program. ``operands`` has the operand of each of its buffers, by name.

    A failed test returns ``MODEL_INDEX`` from the function around it. Parameters of the program are in scope, by the
    names of `counter`.

    Raises:
        SynthesisError: the program has a construct of another machine.
    """
    _Writer(code, dict(operands), vector_buffers(kernel.body), dict(_extents_of_places(kernel.body))).block(kernel.body)


class _Writer:
    """Appends statements."""

    def __init__(
        self, code: Code, operands: dict[str, Bound], in_registers: frozenset[str], extents: Mapping[str, int]
    ) -> None:
        self._code = code
        self._extents = extents
        self._operands = operands
        self._in_registers = in_registers
        numbers = count()
        self._places = Places(code, operands, {}, lambda: next(numbers))

    def block(self, body: Sequence[Statement]) -> None:
        with self._places.tests.block():
            for is_vector, statements in groupby(body, self._is_vector):
                if is_vector:
                    self._declare([s.buffer for s in statements if isinstance(s, Alloc)])
                    continue
                for statement in statements:
                    self._statement(statement, is_alone=len(body) == 1)

    def _is_vector(self, statement: Statement) -> bool:
        return isinstance(statement, Alloc) and statement.buffer.name in self._in_registers

    def _declare(self, buffers: Sequence[Buffer]) -> None:
        """Append the declarations of buffers that are vectors."""
        code = self._code
        for (dtype, size), group in groupby(buffers, lambda buffer: (buffer.dtype, buffer.size.constant or 0)):
            names = {buffer.name: buffer_name(buffer) for buffer in group}
            self._places.vectors.update(names)
            code.listed(f"{vector_type(code, dtype, size)} ", names.values(), ", ", ";")

    def _statement(self, statement: Statement, *, is_alone: bool = False) -> None:
        code = self._code
        match statement:
            case For(_, Bind.GROUP | Bind.LOCAL, _):
                raise SynthesisError("a loop program with threads has no form in C")
            case For(var, Bind.LANES, body) if isinstance(var.extent, int) and var.extent > 1:
                LaneLoop(self._places, var, body, self._leaf).write(in_braces=not is_alone)
            case For(var, _, body):
                self._loop(var, body)
            case If(tests, body):
                under = guarded(tests, body, self._places.fresh)
                code.line(*under.lines)
                with code.braces(f"if ({under.test})"):
                    self.block(under.body)
            case Set(name, value):
                code.assign(register(name), self._sum_of_product(name, value) or self._value(value))
            case Let() | Lookup():
                code.line(self._scalar(statement))
            case Fail(refused, _):
                code.refuse(out_of_range(refused) or self._named_value(refused))
            case Store(buffer, address, value):
                text = (self._named_value if buffer.dtype.is_packed else self._value)(value)
                self._operands[buffer.name].store(address_text(buffer, address), text)
            case Prefetch(buffer, address):
                code.definitions.setdefault("prefetch", _PREFETCH)
                code.line(f"PREFETCH({pointer_text(self._operands[buffer.name].name, address)});")
            case Alloc(buffer):
                self._allocate(buffer)
            case Barrier() | Join() | TileAlloc() | TileFill() | TileLoad() | TileStore() | TileFma():
                raise SynthesisError("a loop program with threads or matrix units has no form in C")

    def _scalar(self, statement: Let | Lookup) -> str:
        match statement:
            case Let(name, value):
                return f"{c_type(value.dtype)} {register(name)} = {self._value(value)};"
            case Lookup(var, value):
                return f"const ptrdiff_t {counter(var)} = (ptrdiff_t){self._named_value(value)};"

    def _loop(self, var: Var, body: Sequence[Statement]) -> None:
        lanes = in_more_lanes(var, body)
        if lanes is not None and LaneLoop(self._places, lanes.var, lanes.body, self._leaf).is_plain:
            self._statement(lanes)
            return
        rest = counted_on(var, body)
        if rest is not None:
            var, body = rest.var, rest.body
        head = loop_head(var, None if rest is None else rest.first)
        with self._code.braces(rolled(head) if self._code.has_helium and _has_joined_lanes(body) else head):
            self.block(body)

    def _allocate(self, buffer: Buffer) -> None:
        size = buffer.size.constant
        if size is None or buffer.dtype.is_packed or buffer.memory is Memory.SHARED:
            raise SynthesisError(f"the buffer {buffer.name} of {buffer.size} {buffer.dtype} has no form in C")
        if size * buffer.dtype.bits // 8 > MOST_LOCAL_BYTES:
            message = f"the buffer {buffer.name} of {size} {buffer.dtype} is too large for static memory in C"
            raise SynthesisError(f"{message}, at most {MOST_LOCAL_BYTES} bytes: use smaller inputs", code="too-large")
        name, width = buffer_name(buffer), max(buffer.dtype.bits // 8, 1)
        may_hold_places = buffer.dtype is I64 and bool(self._extents)
        is_zeroed = may_hold_places or buffer.dtype is BOOL
        self._code.scratch(c_type(buffer.dtype), name, size, width, is_zeroed=is_zeroed)
        if buffer.name in self._extents:
            bound_hint(self._code, self._extents[buffer.name] - 1)
        self._operands[buffer.name] = Bound(name, TensorType(buffer.dtype, (size,)), self._code)

    def _value(self, value: Value) -> str:
        """Append what computes a value; return the text of its result, which is used once."""
        return self._places.scalar(value, self._named_leaf)

    def _named_value(self, value: Value) -> str:
        return self._places.named_scalar(value, self._named_leaf)

    def _sum_of_product(self, name: str, value: Value) -> str | None:
        """Return the sum of a total without sign and a product as one expression; None: the value is another."""
        parts = sum_of_product(value) if value.dtype is U32 else None
        if parts is None:
            return None
        *factors, total = parts
        if total.leaves != (Register(name, U32),) or not all(map(_is_exact, factors)):
            return None
        texts = [self._leaf(factor.leaves[0]) for factor in factors]
        if not all(map(is_plain, texts)):
            return None
        casts = ["" if factor.leaves[0].dtype is U32 else "(uint32_t)" for factor in factors]
        # GCC warns of a change of sign where the right operand alone is a cast of a byte with sign: casts come first.
        first, second = sorted((f"{cast}{text}" for cast, text in zip(casts, texts, strict=True)), key=_has_no_cast)
        return f"{register(name)} + {first} * {second}"

    def _named_leaf(self, leaf: Leaf) -> str:
        """Append the names that the tests of a load need; return its text."""
        if not isinstance(leaf, Load) or leaf.fill is None or any(test.is_void for test in leaf.guards):
            return self._leaf(leaf)
        lines, test, load = self._places.tests.load(leaf)
        self._code.line(*lines)
        return self._loaded(load, test)

    def _loaded(self, load: Load, test: str) -> str:
        bound, index = self._places.element(load.buffer, load.address)
        element = bound.at(address_text(load.buffer, index))
        return (
            element if load.fill is None else f"{test} ? {element} : {literal_text(load.fill.dtype, load.fill.value)}"
        )

    def _leaf(self, leaf: Leaf) -> str:
        match leaf:
            case Load(_, _, guards, fill) if fill is not None and any(test.is_void for test in guards):
                return literal_text(fill.dtype, fill.value)
            case Load(_, _, guards, _):
                return self._loaded(leaf, tests_text(guards))
            case Register(name, _):
                return register(name)
            case Number(index, dtype):
                return self._code.cast(f"((int64_t)({index_text(index)}))", I64, dtype)
            case Across(function, buffer):
                return self._across(function, buffer)
            case Peer():
                raise SynthesisError("a loop program with threads has no form in C")

    def _across(self, function: str, buffer: Buffer) -> str:
        name, size = buffer_name(buffer), buffer.size.constant or 0
        if buffer.name in self._places.vectors:
            if self._code.has_vector_types and size & (size - 1) == 0:
                return f"{across_vector(self._code, function, buffer.dtype, size)}({name})"
            copy = f"v{self._places.fresh()}"
            self._code.line(f"{c_type(buffer.dtype)} {copy}[{size}];", f"memcpy({copy}, &{name}, sizeof {copy});")
            name = copy
        return f"{across(self._code, function, buffer.dtype, size)}({name})"


def _has_joined_lanes(body: Sequence[Statement]) -> bool:
    """Whether statements add lanes to totals: GCC 12 keeps the address of each turn on the stack if it unrolls them."""
    return any(isinstance(s, For) and s.bind is Bind.LANES and joined_lanes(s.body) for s in body)


def _has_no_cast(text: str) -> bool:
    return not text.startswith("(")


def _extents_of_places(body: Sequence[Statement]) -> Iterator[tuple[str, int]]:
    """Yield the buffers whose elements are places, with the extent that these are below."""
    for statement in body:
        match statement:
            case For(_, _, inner) | If(_, inner):
                yield from _extents_of_places(inner)
            case Lookup(Var(extent=int(extent)), Value(leaves=(Load(Buffer(memory=Memory.PRIVATE) as buffer),))):
                yield buffer.name, extent
            case _:
                pass


def _is_exact(factor: Value) -> bool:
    """Return whether C converts an element to u32 as expressions do, with the operator of a cast."""
    dtype = factor.leaves[0].dtype
    return dtype is U32 or (dtype.is_integer and not dtype.is_packed and dtype.bits <= 32)
