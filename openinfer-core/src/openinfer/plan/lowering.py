"""From a resolved graph to steps: statements in written order, each operator as what carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Interval
from openinfer.dims import NeedsNumberError, index_of_expression
from openinfer.errors import SynthesisError
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
from openinfer.ir.resolved import Filled, Storage
from openinfer.ir.temporaries import written_once
from openinfer.ops.applying import call_of
from openinfer.plan.accesses import operands, walk
from openinfer.plan.bounds import CacheBounds
from openinfer.plan.call_order import callees_first
from openinfer.plan.calls import CallLowering, Operation
from openinfer.plan.consumers import HandOvers
from openinfer.plan.counted_results import CountedResults
from openinfer.plan.draft import Draft, Room
from openinfer.plan.findings import about, all_of, at_node, faults_at
from openinfer.plan.operands import alone, has_wide_number, interval
from openinfer.plan.origins import origin_of, placement_of
from openinfer.plan.persistent import Around, PersistentLowering
from openinfer.plan.settings import RuntimeSettingError, instead_of, known_settings, runtime_integers
from openinfer.plan.size_checks import declared_checks
from openinfer.plan.sized_calls import SizedError
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    CopyStep,
    EntryStep,
    FillStep,
    LoopIndex,
    LoopStep,
    Procedure,
    Register,
    ReturnStep,
    SetStep,
    TableRef,
    ValueRef,
)
from openinfer.plan.strict_order import StrictOrder
from openinfer.plan.tables import TableUse
from openinfer.plan.threaded_consumers import ThreadedConsumers
from openinfer.plan.varying_ops import VaryingOps
from openinfer.plan.varying_settings import varying_settings, with_given_sizes
from openinfer.symbolic import DivisionError, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.ir.graph import Block
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp, RuntimeInts, SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.model import Model
    from openinfer.plan.plan_options import PlanOptions
    from openinfer.plan.steps import Operand, Origin, Step
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable
    from openinfer.symbolic import IntExpr

ELSEWHERE = "run this program on device cpu, or another that executes statement by statement"

OUTSIDE = (
    "keep the state outside of the program: read it from a dynamic variable, return its new value and pass that to the "
    f"next step; or {ELSEWHERE}"
)

MOST_LOWERINGS = 8
"""Times that a program is lowered: shapes settle in two or three; a loop that doubles a variable has no end."""

DEEPEST_LOOPS = 64
"""Deepest nesting of loops; C compilers need not take more than 127 nested blocks."""


def lower(
    resolved: ResolvedGraph, model: Model, environment: Environment, table: KernelTable, options: PlanOptions
) -> Draft:
    """Return the program as steps.

    Raises:
        SynthesisError: statements, settings or operators cannot be carried out on the target; it has a diagnostic for
            each of the statements.
    """
    rooms: Mapping[str, tuple[int | Index | Room, ...]] = {}
    draft = _lowered(resolved, model, environment, table, options, rooms)
    for _ in range(MOST_LOWERINGS):
        # Statements that are refused with a shape that is not settled may have a form with the one that they get.
        unsettled = draft.unsettled()
        if not unsettled:
            break
        rooms = {**rooms, **unsettled}
        draft = _lowered(resolved, model, environment, table, options, rooms)
    if draft.refused:
        raise all_of(draft.refused)
    if not draft.unsettled():
        return draft
    names = ", ".join(f"`{name}`" for name in sorted(draft.unsettled()))
    message = f"{names} has no largest shape: a statement in a loop makes it larger in each iteration"
    raise about("unsupported", message, "write each result to a variable of its own, declared as large as it gets")


def _lowered(
    resolved: ResolvedGraph,
    model: Model,
    environment: Environment,
    table: KernelTable,
    options: PlanOptions,
    rooms: Mapping[str, tuple[int | Index | Room, ...]],
) -> Draft:
    draft = Draft(rooms=rooms)
    varying = options.given
    if varying:
        if not table.state:
            message = f"target {table.target} takes no sizes that differ from step to step: {', '.join(varying)}"
            raise about("size-limit", message, "write a program for each size (--size)")
        draft.give(varying, resolved.sizes)
    bounds = CacheBounds(resolved, options.limits, varying)
    persistent = PersistentLowering(resolved, draft, bounds, inspected=options.inspected)
    for variable in resolved.variables.values():
        if variable.storage is Storage.DYNAMIC:
            draft.add_variable(variable)
    for name in callees_first(resolved, in_line=table.state):
        block = resolved.graph.blocks[name]
        lowering = _BlockLowering(resolved, model, environment, table, draft, persistent, block, options)
        draft.procedures.append(Procedure(name, tuple(lowering.block_steps(block))))
    return draft


@dataclass(frozen=True, slots=True)
class _LoopScope:
    """A loop around a statement: the name of its index, and its number."""

    index: str
    loop: int


class _BlockLowering:
    """Lowers the statements of one block."""

    def __init__(
        self,
        resolved: ResolvedGraph,
        model: Model,
        environment: Environment,
        table: KernelTable,
        draft: Draft,
        persistent: PersistentLowering,
        block: Block,
        options: PlanOptions,
    ) -> None:
        self._resolved = resolved
        self._model = model
        self._draft = draft
        self._block = block.name
        self._environment = environment
        self._persistent = persistent
        threaded = ThreadedConsumers(draft.procedures) if options.threads and block.name == "entry" else None
        self._hand_overs = HandOvers(resolved.graph, threaded)
        self._counted = CountedResults(environment, draft, persistent, written_once(resolved.graph))
        self._varying = VaryingOps(environment, table, draft, persistent, self._counted)
        self._target = f"{'device' if table.is_device else 'target'} {table.target}"
        self._keeps_state = table.state
        self._calls = CallLowering(environment, table, draft.intermediate, lambda value: draft.values[value].type)
        self._sequential = StrictOrder(options.strict_order)
        self._loops: list[_LoopScope] = []
        self._intervals: dict[int, Interval] = {}
        self._constant_loops: set[LoopIndex] = set()

    def block_steps(self, block: Block) -> Iterator[Step]:
        """Yield the steps of the block."""
        self._draft.lengths.forget()
        yield from self.steps(block.nodes, block.hints)
        if block.name == "entry" and block.nodes and not self._draft.refused:
            self._hand_overs.end(block.nodes[-1])

    def steps(self, nodes: Sequence[Node], hints: Mapping[str, AttrValue]) -> Iterator[Step]:
        """Yield the steps of a list of statements; what follows a return is never reached."""
        for node in nodes:
            try:
                for step in self._node(node, hints):
                    self._draft.lengths.add(step, self._draft.registers)
                    yield step
            except SynthesisError as error:
                if not error.diagnostics:
                    raise
                self._draft.refused.append(error)
            if isinstance(node.kind, Return):
                return

    def _node(self, node: Node, hints: Mapping[str, AttrValue]) -> Iterator[Step]:
        origin = origin_of(self._block, node)
        match node.kind:
            case Assign(name=name):
                yield from self._assign(name, node)
            case Op():
                yield from self._op(node, hints)
            case Transfer(src=src, dst=dst):
                yield from self._transfer(src, self._value(dst, node), node)
            case CacheRead() | CacheWrite() | CacheIncrement() | CacheDecrement() | CacheReset():
                if not self._keeps_state:
                    raise self._unsupported(node)
                yield from self._persistent.steps(node, node.kind, origin, self._around())
            case Branch(then_block=then, cond=cond, else_block=other):
                condition = None if cond is None else self._value(cond, node)
                yield CallStep(origin=origin, procedure=then, condition=condition, otherwise=other)
            case Loop() as loop:
                yield from self._loop(loop, node, hints)
            case Barrier() | Dep():
                yield BarrierStep(origin=origin)
            case Return(names=returned):
                if self._block == "entry":
                    self._hand_overs.end(node)
                    self._draft.returned.update(dict.fromkeys(returned))
                yield ReturnStep(origin=origin)
            case Yield() | Await():
                yield from self._hand_over(node, node.kind)

    def _assign(self, name: str, node: Node) -> Iterator[Step]:
        origin, output = origin_of(self._block, node), self._value(name, node)
        variable = self._resolved.variables[name]
        yield from declared_checks(self._draft, variable, origin)
        if variable.varying and self._draft.varies(output):
            pairs = zip(self._draft.extents[output], self._draft.declared(variable), strict=True)
            values = tuple(
                (extent.number, self._draft.size(declared))
                for extent, declared in pairs
                if isinstance(extent, Register) and extent != declared
            )
            if values:
                yield SetStep(origin=origin, values=values)
        yield FillStep(origin=origin, output=output, value=self._zero(name))

    def _transfer(self, ref: Ref, output: int, node: Node) -> Iterator[Step]:
        source = self._operand(ref, node)
        origin, written = origin_of(self._block, node), self._draft.varies(output)
        if written or (isinstance(source, ValueRef) and self._draft.varies(source.value)):
            resolved = self._resolved
            entry = None if isinstance(source, ValueRef) else resolved.tables[ref.name].type.shape
            yield from self._varying.transfer(source, entry, output, node, origin)
        elif source != ValueRef(output):
            yield CopyStep(origin=origin, source=source, output=output)

    def _hand_over(self, node: Node, kind: Yield | Await) -> Iterator[Step]:
        """Yield the calls of consumers; other blocks than ``entry`` end with their yield."""
        if not self._keeps_state:
            raise self._unsupported(node)
        origin = origin_of(self._block, node)
        if self._block != "entry":
            if isinstance(kind, Yield):
                yield ReturnStep(origin=origin)
        elif isinstance(kind, Yield):
            yield from self._hand_overs.hand_over(kind.names, node, origin)
        else:
            yield from self._hand_overs.take_back(kind.names, node, origin)

    def _around(self) -> Around:
        return Around(
            block=self._block, value=self._value, operand=self._operand, index=self._index, loops=self._intervals
        )

    def _unsupported(self, node: Node) -> Exception:
        kind = type(node.kind).__name__
        spoken = "".join(f" {c.lower()}" if c.isupper() else c for c in kind).strip().replace("cache ", "cache.")
        supported = "supports neither persistent memory nor consumers"
        message = f"`{spoken}` cannot be synthesised: {self._target} {supported}"
        hint = OUTSIDE if spoken.startswith("cache.") else ELSEWHERE
        return at_node("unsupported", message, self._block, node, hint=hint)

    def _zero(self, name: str) -> int | float | bool:
        initial = self._resolved.variables[name].initial
        return initial.value if isinstance(initial, Filled) else 0

    def _value(self, name: str, node: Node) -> int:
        variable = self._resolved.variables[name]
        if variable.storage is Storage.PERSISTENT and not self._keeps_state:
            raise self._unsupported(node)
        number = self._draft.numbers.get(name)
        return self._draft.add_variable(variable) if number is None else number

    def _operand(self, ref: Ref, node: Node) -> Operand:
        loop = next((scope for scope in reversed(self._loops) if scope.index == ref.name), None)
        if loop is not None:
            return LoopIndex(loop.loop)
        if ref.name not in self._resolved.tables:
            return ValueRef(self._value(ref.name, node))
        return self._table_entry(ref, node)

    def _table_entry(self, ref: Ref, node: Node) -> TableRef:
        tables = self._draft.tables
        table = self._resolved.tables[ref.name]
        use = tables.setdefault(ref.name, TableUse(len(tables), table))
        indices = tuple(self._index(expr, node) for expr in ref.indices)
        numbers = tuple(index.constant for index in indices if index.constant is not None)
        if len(numbers) == len(indices):
            use.fixed[numbers] = None
            return TableRef(use.number, indices, checked=False)
        loops = [alone(index) for index in indices if index.constant is None]
        exact = len(loops) == len(set(loops)) and all(loop in self._constant_loops for loop in loops)
        use.add([interval(index, self._intervals) for index in indices], exact=exact)
        return TableRef(use.number, indices, checked=not exact)

    def _index(self, expr: IntExpr, node: Node) -> Index:
        index = index_of_expression(expr, lambda name: self._draft.read(self._bound(name, node), name))
        if index.constant is None and has_wide_number(index):
            raise at_node("unsupported", f"`{text(expr)}` has numbers of more than 64 bits", self._block, node)
        return index

    def _bound(self, name: str, node: Node) -> int | LoopIndex | ValueRef | Register:
        """Return what a name means: a loop index, then an integer scalar, then a size."""
        loop = next((scope for scope in reversed(self._loops) if scope.index == name), None)
        if loop is not None:
            return LoopIndex(loop.loop)
        variable = self._resolved.variables.get(name)
        if variable is not None and not variable.type.shape and not variable.type.dtype.is_float:
            value = self._value(name, node)
            return self._draft.counts.get(value, ValueRef(value))
        register = None if self._draft.given is None else self._draft.given.register_of(name)
        if register is not None:
            return register
        if name in self._resolved.sizes:
            return self._resolved.sizes[name]
        raise at_node(
            "unknown-variable", f"`{name}` is not a loop index, an integer scalar or a size", self._block, node
        )

    def _loop(self, loop: Loop, node: Node, hints: Mapping[str, AttrValue]) -> Iterator[Step]:
        if len(self._loops) == DEEPEST_LOOPS:
            raise at_node("unsupported", f"loops are nested deeper than {DEEPEST_LOOPS}", self._block, node)
        start, end = self._index(loop.start, node), self._index(loop.end, node)
        first, last = interval(start, self._intervals), interval(end - 1, self._intervals)
        if first.low is not None and last.high is not None and first.low > last.high:
            return
        number = node.index
        is_bounded = first.low is not None and last.high is not None
        self._intervals[number] = Interval(first.low, last.high) if is_bounded else Interval(None, None)
        fixed = first.low is not None and first.low == first.high and last.low is not None and last.low == last.high
        if fixed:
            self._constant_loops.add(LoopIndex(number))
        self._loops.append(_LoopScope(loop.index, number))
        self._hand_overs.begin_loop()
        self._draft.lengths.forget()
        body = tuple(self.steps(loop.body, {**hints, **node.hints}))
        self._loops.pop()
        if not self._draft.refused:
            self._hand_overs.end_loop(node)
        yield LoopStep(
            origin=origin_of(self._block, node),
            loop=number,
            name=loop.name,
            index=loop.index,
            start=start,
            end=end,
            runs=fixed,
            body=body,
        )

    def _op(self, node: Node, hints: Mapping[str, AttrValue]) -> Iterator[Step]:
        op = with_given_sizes(self._resolved.ops[node.index], node, self._environment, self._draft.given)
        inputs = tuple(None if ref is None else self._operand(ref, node) for ref in op.inputs)
        steps = tuple(self._sequential.steps(self._called(op, inputs, node, hints), {**hints, **node.hints}))
        yield from _untested_entries(inputs, steps, origin_of(self._block, node))
        yield from steps

    def _called(
        self, op: ResolvedOp, inputs: tuple[Operand | None, ...], node: Node, hints: Mapping[str, AttrValue]
    ) -> Iterator[Step]:
        outputs = [self._value(name, node) for name in op.outputs]
        if self._keeps_state and self._varies(op, inputs, outputs, node):
            at = Operation(
                origin=origin_of(self._block, node), placement=placement_of(node, hints), name=op.outputs[0], node=node
            )
            settings = varying_settings(
                op,
                self._resolved,
                self._model,
                self._runtime_settings(op, node),
                self._loop_names(),
                self._draft.given,
                lambda name: self._bound(name, node),
            )
            try:
                with faults_at(self._block, node):
                    yield from self._varying.steps(settings, inputs, outputs, at, self._intervals)
            except (SizedError, NeedsNumberError) as error:
                message = f"{op.op} has no form for every size that is known at run time only: {error}"
                hint = error.hint if isinstance(error, SizedError) else None
                raise at_node("unsupported", message, self._block, node, hint=hint) from error
            return
        settings = self._settings(op, node)
        with faults_at(self._block, node):
            call = call_of(self._environment.op(op.op), op.input_types, settings, op.output_types)
        self._check_shapes(op, call.outputs, node)
        every = self._counted.written(op, outputs, call.outputs)
        operation = Operation(
            origin=origin_of(self._block, node), placement=placement_of(node, hints), name=op.outputs[0], node=node
        )
        with faults_at(self._block, node):
            yield from self._calls.steps(call, inputs, tuple(every), operation)
        yield from self._counted.taken(op, outputs, every, operation)

    def _check_shapes(self, op: ResolvedOp, made: Sequence[TensorType], node: Node) -> None:
        """Refuse results whose inferred shapes are stand-ins, as a constant of the model in a setting decides them."""
        counted = self._counted.places(op)
        for number, (name, planned, computed) in enumerate(zip(op.outputs, op.output_types, made, strict=False)):
            if planned.shape != computed.shape and number not in counted:
                message = f"{op.op}: `{name}` is {computed}, as constants in its settings say"
                hint = f"declare it: `assign {name}: {computed}`, or write the settings as numbers"
                raise at_node("unsupported", message, self._block, node, hint=hint)

    def _varies(self, op: ResolvedOp, inputs: Sequence[Operand | None], outputs: Sequence[int], node: Node) -> bool:
        """Whether an operator depends on sizes that are known at run time only."""
        counted = self._counted.places(op)
        values = [operand.value for operand in inputs if isinstance(operand, ValueRef)]
        values += [value for number, value in enumerate(outputs) if number not in counted]
        varying = list(map(self._draft.varies, values))
        return any(varying) or bool(self._runtime_settings(op, node))

    def _loop_names(self) -> frozenset[str]:
        """Return the names of loop indices, and of sizes that the caller gives in every step."""
        varying = () if self._draft.given is None else self._draft.given.most
        return frozenset((*(scope.index for scope in self._loops), *varying))

    def _runtime_settings(self, op: ResolvedOp, node: Node) -> Mapping[str, RuntimeInts]:
        loop_indices = self._loop_names()
        try:
            return runtime_integers(op, self._resolved, self._model, loop_indices)
        except RuntimeSettingError as error:
            hint = instead_of(op, error, is_index=error.name in loop_indices)
            raise at_node("unsupported", f"{op.op}: {error}", self._block, node, hint=hint) from error
        except DivisionError as error:
            raise at_node("bad-division", f"{op.op}: {error}", self._block, node) from error

    def _settings(self, op: ResolvedOp, node: Node) -> Mapping[str, SettingValue]:
        loop_indices = self._loop_names()
        try:
            return known_settings(op, self._resolved, self._model, loop_indices)
        except RuntimeSettingError as error:
            hint = instead_of(op, error, is_index=error.name in loop_indices)
            raise at_node("unsupported", f"{op.op}: {error}", self._block, node, hint=hint) from error
        except DivisionError as error:
            raise at_node("bad-division", f"{op.op}: {error}", self._block, node) from error


def _untested_entries(inputs: Sequence[Operand | None], steps: Sequence[Step], origin: Origin) -> Iterator[EntryStep]:
    """Yield tests of the table entries that a statement names, and that its steps do not compute with."""
    for entry in dict.fromkeys(inputs):
        if isinstance(entry, TableRef) and entry.checked and not any(entry in operands(step) for step in walk(steps)):
            yield EntryStep(origin=origin, entry=entry)
