"""Statements on persistent memory as steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from openinfer.affine import Index, Interval
from openinfer.diagnostics import counted
from openinfer.dtypes import I64
from openinfer.ir.nodes import CacheDecrement, CacheIncrement, CacheRead, CacheReset, CacheWrite, Single
from openinfer.ir.resolved import Filled, Storage
from openinfer.ir.types import TensorType
from openinfer.plan.cache_access import Access, Caches, is_contiguous, lengths
from openinfer.plan.findings import at_node
from openinfer.plan.initial import initial_steps_of
from openinfer.plan.steps import (
    ClearStep,
    CopyStep,
    CountStep,
    EqualStep,
    LoadStep,
    LoopIndex,
    Register,
    SetStep,
    StoreStep,
    ValueRef,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from openinfer.ir.nodes import CacheAccess, Node
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.values import Ref
    from openinfer.plan.bounds import CacheBounds
    from openinfer.plan.draft import Draft
    from openinfer.plan.regions import Region
    from openinfer.plan.steps import Operand, Origin, Step
    from openinfer.symbolic import IntExpr

CacheStatement: TypeAlias = CacheRead | CacheWrite | CacheIncrement | CacheDecrement | CacheReset


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The context of a statement: how its names are bound, and the intervals of loop indices."""

    block: str
    value: Callable[[str, Node], int]
    operand: Callable[[Ref, Node], Operand]
    index: Callable[[IntExpr, Node], Index]
    loops: Mapping[int, Interval]


class PersistentLowering:
    """Lowers the statements on persistent memory of one program."""

    def __init__(self, resolved: ResolvedGraph, draft: Draft, bounds: CacheBounds, *, inspected: bool = False) -> None:
        self._resolved = resolved
        self._draft = draft
        self._caches = Caches(resolved, draft, bounds, inspected=inspected)

    def steps(self, node: Node, kind: CacheStatement, origin: Origin, around: Around) -> Iterator[Step]:
        """Yield the steps of a statement."""
        match kind:
            case CacheIncrement(target=target, amount=amount) | CacheDecrement(target=target, amount=amount):
                down, value = isinstance(kind, CacheDecrement), around.value(target, node)
                yield CountStep(origin=origin, target=value, amount=around.index(amount, node), down=down)
            case CacheRead(src=access, dst=dst):
                if self._is_plain(access.base):
                    source = ValueRef(around.value(access.base, node))
                    output = around.value(dst, node)
                    if self._draft.varies(output):
                        shape = self._draft.values[source.value].type.shape
                        yield from self.reshaped(output, shape, node, origin, around)
                    yield CopyStep(origin=origin, source=source, output=output)
                else:
                    yield from self._read(node, access, dst, origin, around)
                    if all(isinstance(slot, Single) for slot in access.slots):
                        yield from self._there(node, access, origin, around)
            case CacheWrite(src=src, dst=access):
                if self._is_plain(access.base):
                    source = around.operand(src, node)
                    yield from self._same_shape(source, around.value(access.base, node), origin)
                    yield CopyStep(origin=origin, source=source, output=around.value(access.base, node))
                else:
                    source = yield from self._in_memory(around.operand(src, node), src, origin)
                    yield from self._write(node, source, access, origin, around)
                    yield from self._there(node, access, origin, around)
            case CacheReset(target=access):
                if self._is_plain(access.base):
                    yield from initial_steps_of(self._draft, around.value(access.base, node), origin)
                else:
                    yield from self._reset(node, access, origin, around)

    def _same_shape(self, source: Operand, output: int, origin: Origin) -> Iterator[EqualStep]:
        """Yield the tests that two values have equal extents, where these are known at run time only."""
        extents, wanted = self.extents_of(source), self.extents_of(ValueRef(output))
        for left, right in zip(extents or (), wanted or (), strict=False):
            if left != right:
                yield self._draft.equal(origin, "cache.write", left, right)

    def _is_plain(self, name: str) -> bool:
        """Whether a persistent variable has no indices."""
        decl = self._resolved.variables[name].decl
        return decl is None or not decl.formals

    def _access(self, node: Node, around: Around) -> Access:
        return Access(self._draft, lambda expr: around.index(expr, node), around.loops, around.block, node)

    def _read(self, node: Node, access: CacheAccess, dst: str, origin: Origin, around: Around) -> Iterator[Step]:
        cache = self._caches.of(access.base)
        region, output = self._access(node, around).region(cache, access, writes=False), around.value(dst, node)
        in_region = lengths(region)
        entry = () if cache.auto else cache.base
        kind = self._draft.values[output].type
        if None not in in_region:
            shape = (*(length for length in in_region if length is not None), *entry)
            if self._draft.varies(output) or shape != kind.shape:
                yield from self.reshaped(output, shape, node, origin, around)
            yield self._load(origin, cache.value, region, output, ())
            return
        room = tuple(
            axis.room if length is None else length for axis, length in zip(region.ranges, in_region, strict=True)
        )
        extents = self.varies(output, (*in_region, *entry), (*room, *entry), node, around.block)
        registers: list[int | None] = []
        tests: list[EqualStep] = []
        for axis, extent in enumerate(extents[: len(in_region)]):
            register = extent
            if isinstance(extent, Register) and self._draft.is_given(extent):
                name = f"{self._draft.values[output].name}.{axis}"
                register = Register(self._draft.register(name, most=room[axis]))
                tests.append(self._draft.equal(origin, "cache.read", register, extent))
            registers.append(register.number if isinstance(register, Register) else None)
        yield self._load(origin, cache.value, region, output, tuple(registers))
        yield from tests

    def reshaped(
        self, output: int, shape: tuple[int, ...], node: Node, origin: Origin, around: Around
    ) -> Iterator[Step]:
        """Give a value whose shape varies elsewhere one that is known."""
        extents = self.varies(output, shape, shape, node, around.block)
        made: list[tuple[int, Index]] = []
        for extent, length in zip(extents, shape, strict=True):
            if isinstance(extent, Register) and self._draft.is_given(extent):
                yield self._draft.equal(origin, "cache.read", length, extent)
            elif isinstance(extent, Register):
                made.append((extent.number, Index.of(length)))
        if made:
            yield SetStep(origin=origin, values=tuple(made))

    def varies(
        self,
        value: int,
        shape: tuple[int | None, ...],
        room: tuple[int, ...],
        node: Node,
        block: str,
        registers: Sequence[int | Register | None] = (),
    ) -> tuple[int | Register, ...]:
        """Let a value have another shape from a statement on; return its extents there.

        Args:
            shape: extents, None where they are known at run time only.
            room: the largest.
            registers: those that hold extents throughout the step.
        """
        draft, drafted = self._draft, self._draft.values[value]
        is_input = drafted.variable is not None and drafted.variable.storage is Storage.DYNAMIC
        if is_input and value not in draft.extents:
            message = f"`{drafted.name}` is an input, and gets a shape that is known at run time only"
            raise at_node("unsupported", message, block, node, hint="read the cache into a temporary")
        self.need_rank(value, len(shape), node, block)
        if value not in draft.extents:
            at_first = [n if n is not None or not registers else registers[axis] for axis, n in enumerate(shape)]
            draft.extents[value] = tuple(
                n
                if n is not None
                else Register(draft.register(f"{drafted.name}.{axis}", initial=declared, most=max(most_, declared)))
                for axis, (n, declared, most_) in enumerate(zip(at_first, drafted.type.shape, room, strict=True))
            )
        extents = draft.extents[value]
        for axis, (length, extent) in enumerate(zip(shape, extents, strict=True)):
            if isinstance(extent, int) and length != extent:
                message = f"axis {axis} of `{drafted.name}` is {extent} in one place and differs here"
                raise at_node("unsupported", message, block, node, hint="use a variable of its own for each shape")
        largest = tuple(
            extent if isinstance(extent, int) else max(n, m)
            for extent, n, m in zip(extents, drafted.type.shape, room, strict=True)
        )
        draft.values[value] = replace(drafted, type=TensorType(drafted.type.dtype, largest))
        return extents

    def need_rank(self, value: int, dims: int, node: Node, block: str) -> None:
        """Raise `SynthesisError` unless a result of so many dims has the rank of its variable."""
        drafted = self._draft.values[value]
        rank = len(drafted.type.shape)
        if dims != rank:
            message = f"a result of {counted(dims, 'dim')} is stored in `{drafted.name}`, which has {rank}"
            raise at_node("unsupported", message, block, node, hint="use a variable of its own for each rank")

    def _load(
        self, origin: Origin, source: int, region: Region, output: int, registers: tuple[int | None, ...]
    ) -> LoadStep:
        # Elements of packed types lie within bytes, so that no pointer is to one of them.
        has_address = not self._draft.values[source].type.dtype.is_packed
        contiguous = is_contiguous(region) and has_address
        if has_address and output not in self._draft.views:
            name = f"{self._draft.values[output].name}.at"
            self._draft.views[output] = self._draft.register(name, most=self._draft.values[source].type.count)
        return LoadStep(
            origin=origin,
            source=source,
            region=region,
            output=output,
            lengths=registers,
            is_contiguous=contiguous,
        )

    def _in_memory(self, operand: Operand, written: Ref, origin: Origin) -> Generator[Step, None, Operand]:
        """Return the value of an operand, a copy where it is the index of a loop or an entry of a table of weights."""
        if isinstance(operand, ValueRef):
            return operand
        kind = TensorType(I64, ()) if isinstance(operand, LoopIndex) else self._resolved.tables[written.name].type
        value = self._draft.intermediate(f"{written.name}.written", kind)
        yield CopyStep(origin=origin, source=operand, output=value)
        return ValueRef(value)

    def _write(
        self, node: Node, source: Operand, access: CacheAccess, origin: Origin, around: Around
    ) -> Iterator[Step]:
        cache = self._caches.of(access.base)
        region = self._access(node, around).region(cache, access, writes=True)
        in_region = lengths(region)
        entry = () if cache.auto else cache.base
        extents = self.extents_of(source)
        needed = (*in_region, *entry)
        if extents is None or len(extents) != len(needed):
            message = f"`cache.write` of a value whose shape does not fit `{access.base}`"
            raise at_node("unsupported", message, around.block, node)
        for extent, wanted in zip(extents[len(in_region) :], entry, strict=True):
            if extent != wanted:
                yield self._draft.equal(origin, "cache.write", extent, wanted)
        stored = tuple(self._draft.size(extent) for extent in extents[: len(in_region)])
        yield StoreStep(origin=origin, source=source, target=cache.value, region=region, lengths=stored)

    def extents_of(self, operand: Operand) -> tuple[int | Register, ...] | None:
        """Return the extents of a value; None for an operand that is none."""
        if not isinstance(operand, ValueRef):
            return None
        is_settled = not self._draft.varies(operand.value)
        return self._draft.values[operand.value].type.shape if is_settled else self._draft.extents[operand.value]

    def _there(self, node: Node, access: CacheAccess, origin: Origin, around: Around) -> Iterator[ClearStep]:
        """Note that the entries of an access are there, where that is noted."""
        cache = self._caches.of(access.base)
        if cache.there is not None and len(access.slots) >= len(cache.table):
            flags = self._access(node, around).flagged(cache, access)
            yield ClearStep(origin=origin, target=cache.there, region=flags, value=True)

    def _reset(self, node: Node, access: CacheAccess, origin: Origin, around: Around) -> Iterator[Step]:
        cache = self._caches.of(access.base)
        initial = self._resolved.variables[access.base].initial
        value = initial.value if isinstance(initial, Filled) else 0
        if access.slots:
            region = self._access(node, around).cleared(cache, access)
            yield ClearStep(origin=origin, target=cache.value, region=region, value=value)
            if cache.there is not None:
                flags = self._access(node, around).flagged(cache, access)
                left = tuple(cache.grown.get(formal) for formal in cache.table)
                yield ClearStep(origin=origin, target=cache.there, region=flags, value=False, left=left)
            return
        yield from initial_steps_of(self._draft, cache.value, origin)
        if cache.there is not None:
            yield from initial_steps_of(self._draft, cache.there, origin)
        if cache.grown:
            yield SetStep(origin=origin, values=tuple((register, Index.of(0)) for register in cache.grown.values()))
