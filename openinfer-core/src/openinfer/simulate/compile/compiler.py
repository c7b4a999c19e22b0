"""From a resolved graph to a program: every statement bound to the buffers of a memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from openinfer.bound_calls import in_order
from openinfer.errors import FeatureMissingError
from openinfer.ir.nodes import (
    Assign,
    Await,
    Barrier,
    Branch,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Dep,
    Loop,
    Op,
    Return,
    Transfer,
    Yield,
)
from openinfer.ir.text import call_text
from openinfer.simulate.compile.access import slot_reader
from openinfer.simulate.compile.counting import bind_count, counted_by
from openinfer.simulate.compile.names import Names
from openinfer.simulate.compile.operators import OperatorCompiler
from openinfer.simulate.devices.backend import DeferredFaultBackend
from openinfer.simulate.program.describe import Description, always, describer
from openinfer.simulate.program.failures import Place, raise_refusal
from openinfer.simulate.program.integers import LoopIndex
from openinfer.simulate.program.items import Action, Call, Code, HandOver, Leave, Repeat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from openinfer.bound_calls import BoundCall
    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.nodes import CacheAccess, Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp
    from openinfer.ir.types import TensorType
    from openinfer.ir.values import Ref
    from openinfer.simulate.compile.placement import OtherDevices
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.program.items import Item
    from openinfer.simulate.state.memory import Memory
    from openinfer.simulate.state.varying import Varying
    from openinfer.symbolic import IntExpr


def compile_graph(
    resolved: ResolvedGraph,
    memory: Memory,
    backend: DeviceBackend,
    binder: Binder,
    others: OtherDevices,
    blocks: Iterable[str] | None = None,
) -> Mapping[str, Code]:
    """Return blocks of a graph by name: all of them, or some that branch to no others.

    ``others`` are the other devices that operators of the blocks run on.

    Raises:
        ExecutionError: an operator cannot be bound on the device.
    """
    names = resolved.graph.blocks if blocks is None else blocks
    return _Compiler(resolved, memory, backend, binder, others, names).run()


@dataclass(frozen=True, slots=True)
class _Pending:
    """Statements that are still to be compiled."""

    code: Code
    nodes: Sequence[Node]
    names: Names


class _Compiler:
    def __init__(
        self,
        resolved: ResolvedGraph,
        memory: Memory,
        backend: DeviceBackend,
        binder: Binder,
        others: OtherDevices,
        blocks: Iterable[str],
    ) -> None:
        self._resolved = resolved
        self._memory = memory
        self._backend = backend
        self._binder = binder
        self._operators = OperatorCompiler(memory, backend, binder)
        self._others = others
        self._deferring = backend if isinstance(backend, DeferredFaultBackend) else None
        self._codes = {name: Code(name) for name in blocks}
        self._pending: list[_Pending] = []

    def run(self) -> Mapping[str, Code]:
        """Compile the blocks, and loop bodies as they are met, without recursion."""
        names = Names(memory=self._memory, backend=self._backend, sizes=self._resolved.sizes)
        for name, code in self._codes.items():
            self._pending.append(_Pending(code, self._resolved.graph.blocks[name].nodes, names))
        while self._pending:
            pending = self._pending.pop()
            for node in pending.nodes:
                pending.code.items += self._items(node, pending)
            pending.code.merge()
        return self._codes

    def _items(self, node: Node, pending: _Pending) -> list[Item]:
        """Return the items of a node: one, or several with transfers if it runs on another device."""
        block, names = pending.code.block, pending.names
        refusal = self._resolved.refused.get(node.index)
        if refusal is not None:
            return [_refused(node, block, refusal)]
        if not isinstance(node.kind, Op):
            return [self._item(node, block, names)]
        op = self._resolved.ops[node.index]
        place = Place(node, block, partial(_with_types, op, self._memory))
        with place:
            device = self._others.named_for(node)
            if device is None:
                try:
                    bound = self._operators.compile(op, names, self._others.while_running(place, op, names))
                    return [self._op(place, names, bound)]
                except FeatureMissingError as error:
                    device = self._others.instead(place, error)
            return [*device.items(op, self._op(place, names, device.bind(op, names)))]
        raise AssertionError

    def _item(self, node: Node, block: str, names: Names) -> Item:
        place = Place(node, block)
        with place:
            kind = node.kind
            if isinstance(kind, Loop):
                return self._loop(kind, place, names)
            if isinstance(kind, Branch):
                return self._branch(kind, place, names)
            if isinstance(kind, Return):
                return Leave(place=place, names=kind.names)
            if isinstance(kind, Yield | Await) and block == "entry":
                return HandOver(
                    place=place, names=kind.names, is_yield=isinstance(kind, Yield), before=in_order(self._waiting())
                )
            if isinstance(kind, Yield):
                return Leave(place=place, given=kind.names)
            return self._simple(place, names)
        raise AssertionError

    def _loop(self, loop: Loop, place: Place, names: Names) -> Repeat:
        index = LoopIndex(loop.index)
        body = Code(place.block)
        self._pending.append(_Pending(body, loop.body, names.inside(index)))
        return Repeat(
            place=place,
            name=loop.name,
            index=index,
            start=names.integer(loop.start),
            end=names.integer(loop.end),
            reads=self._absent(names.scalars_in(loop.start, loop.end)),
            body=body,
        )

    def _branch(self, branch: Branch, place: Place, names: Names) -> Call:
        then = self._codes[branch.then_block]
        otherwise = self._codes[branch.else_block or branch.then_block]
        if branch.cond is None:
            return Call(place=place, condition=None, reads=frozenset(), then=then, otherwise=otherwise)
        index = names.index(branch.cond)
        reads = frozenset[str]() if index is not None else self._absent([branch.cond])
        read = names.scalar(branch.cond)
        return Call(
            place=place,
            condition=lambda: bool(read()),
            reads=reads,
            then=then,
            otherwise=otherwise,
            condition_name=branch.cond,
        )

    def _op(self, place: Place, names: Names, bound: BoundCall) -> Action:
        op = self._resolved.ops[place.node.index]
        read = [ref for ref in op.inputs if ref is not None]
        late = self._absent(self._operators.names_read(op, names))
        if self._deferring is not None:
            bound = in_order([partial(self._deferring.begin_statement, place), bound])
        return Action(
            place=place,
            call=bound,
            describe=describer(place.node, read, names.integer),
            reads=self._read(read, names) | late | self._temporaries(op.outputs),
            writes=self._absent(op.outputs),
            op=op.op,
        )

    def _simple(self, place: Place, names: Names) -> Action:
        node = place.node
        call, read, written = self._work(place, names)
        if self._may_change_state(node):
            call = in_order([*self._waiting(), call])
        needed = frozenset[str]() if isinstance(node.kind, Assign) else self._temporaries(written)
        return Action(
            place=place,
            call=call,
            describe=describer(node, (), names.integer),
            reads=self._read(read, names) | needed | self._in_brackets(node, names),
            writes=self._absent(written),
        )

    def _may_change_state(self, node: Node) -> bool:
        """Whether a statement may change what outlives the step; a read of a cache may add entries to it."""
        if isinstance(node.kind, CacheRead):
            return self._memory.is_cache(node.kind.src.base)
        return isinstance(node.kind, CacheWrite | CacheIncrement | CacheDecrement | CacheReset)

    def _waiting(self) -> list[BoundCall]:
        """Return calls that make sure that no earlier statement has failed."""
        return [] if self._deferring is None else [self._deferring.need_no_fault]

    def _work(self, place: Place, names: Names) -> tuple[BoundCall, list[Ref], list[str]]:
        """Return the call of a statement, the values it reads, and the variables it writes."""
        kind = place.node.kind
        match kind:
            case Assign(name):
                return self._zeros(name), [], [name]
            case Transfer(src, dst):
                takes_shape = self._memory.variables[dst].inferred
                return self._operators.copy(src, self._target(dst), names, takes_shape=takes_shape), [src], [dst]
            case CacheRead(src, dst):
                return self._cache_read(src, dst, names), [], [dst]
            case CacheWrite(src, dst):
                return self._cache_write(src, dst, names), [src], []
            case CacheIncrement(target, amount):
                return self._count(target, amount, names, 1), [], []
            case CacheDecrement(target, amount):
                return self._count(target, amount, names, -1), [], []
            case CacheReset(target):
                return self._cache_reset(target, names), [], []
            case Barrier() | Dep() | Await():
                return partial(int), [], []
            case _:
                raise TypeError(f"unknown statement {type(kind).__name__}")

    def _count(self, target: str, amount: IntExpr, names: Names, sign: int) -> BoundCall:
        buffer, amount_read = self._memory.buffer(target), names.integer(amount)
        if not callable(amount_read):
            return bind_count(self._backend, self._binder, buffer, sign * amount_read)
        return counted_by(amount_read, amount, lambda by: bind_count(self._backend, self._binder, buffer, sign * by))

    def _zeros(self, name: str) -> BoundCall:
        fill = self._backend.bind_fill(self._memory.buffer(name), 0)
        varying = self._memory.varying(name)
        return fill if varying is None else in_order([varying.rebind, fill])

    def _target(self, name: str) -> Buffer | Varying:
        return self._memory.varying(name) or self._memory.buffer(name)

    def _cache_read(self, access: CacheAccess, target: str, names: Names) -> BoundCall:
        if not self._memory.is_cache(access.base):
            return self._operators.copy_buffer(self._memory.buffer(access.base), self._target(target))
        cache = self._memory.cache(access.base)
        slots = slot_reader(access, names.inside_brackets(cache.cache))
        varying, buffer = self._memory.varying(target), self._memory.buffer(target)
        if varying is None:
            return lambda: cache.read(slots(), buffer)
        return lambda: cache.show(slots(), varying)

    def _cache_write(self, source: Ref, access: CacheAccess, names: Names) -> BoundCall:
        if not self._memory.is_cache(access.base):
            return self._operators.copy(source, self._memory.buffer(access.base), names)
        cache = self._memory.cache(access.base)
        slots = slot_reader(access, names.inside_brackets(cache.cache))
        prepare, buffer_of = self._operators.source(source, names)
        return in_order([*prepare, lambda: cache.write(slots(), buffer_of())])

    def _cache_reset(self, access: CacheAccess, names: Names) -> BoundCall:
        if not self._memory.is_cache(access.base):
            return self._memory.restore(access.base)
        cache = self._memory.cache(access.base)
        slots = slot_reader(access, names.inside_brackets(cache.cache))
        return lambda: cache.reset(slots())

    def _in_brackets(self, node: Node, names: Names) -> frozenset[str]:
        """Return the variables that may be absent among those in the brackets of a cache, or in an amount."""
        kind = node.kind
        if isinstance(kind, CacheIncrement | CacheDecrement):
            return self._absent(names.scalars_in(kind.amount))
        if not isinstance(kind, CacheRead | CacheWrite | CacheReset):
            return frozenset()
        access = kind.src if isinstance(kind, CacheRead) else kind.dst if isinstance(kind, CacheWrite) else kind.target
        return self._absent(names.scalars_in(*access.expressions()))

    def _absent(self, names: Iterable[str]) -> frozenset[str]:
        return self._memory.conditional.intersection(names)

    def _temporaries(self, names: Iterable[str]) -> frozenset[str]:
        """Return the temporaries that ``assign`` makes, which is to run before anything is written to them."""
        variables = self._memory.variables
        return frozenset(name for name in names if variables[name].decl is None and not variables[name].inferred)

    def _read(self, refs: Iterable[Ref], names: Names) -> frozenset[str]:
        """Return the variables that may be absent among those read, index expressions included."""
        read: set[str] = set()
        for ref in refs:
            if names.index(ref.name) is None or ref.indices:
                read.add(ref.name)
            read.update(names.scalars_in(*ref.indices))
        return self._absent(read)


def _refused(node: Node, block: str, refusal: Diagnostic) -> Action:
    """Return a statement that ends the step with an error: it does not fit its sizes."""
    statement = Place(node, block)
    return Action(place=statement, call=partial(raise_refusal, refusal), describe=always(Description(statement.desc)))


def _with_types(op: ResolvedOp, memory: Memory) -> str:
    """Return an operator with its inputs and the types that they have now."""
    inputs: list[tuple[Ref, TensorType | None]] = []
    for ref, declared in zip(op.inputs, op.input_types, strict=True):
        if ref is not None:
            own = memory.varying(ref.name) if ref.name in memory.variables else None
            inputs.append((ref, declared if own is None else own.current.type))
    return f"op {call_text(op.op, inputs)} >> {', '.join(op.outputs)}"
