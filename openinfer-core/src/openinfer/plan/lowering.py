"""From a resolved graph to steps: statements in written order, each operator as what carries it out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.ir.graph import walk
from openinfer.ir.nodes import Assign, Barrier, Branch, Dep, Loop, Op, Return, Transfer
from openinfer.ir.resolved import Filled, Storage
from openinfer.ir.types import TensorType
from openinfer.ops.calls import call_of
from openinfer.ops.schema import OpTypeError
from openinfer.plan.calls import CallLowering, Operation
from openinfer.plan.findings import all_of, at_node, faults_at
from openinfer.plan.indices import LoopScope, constant, interval, is_exact
from openinfer.plan.origins import origin_of, placement_of
from openinfer.plan.settings import RuntimeSettingError, known_settings
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    CopyStep,
    FillStep,
    IndexExpr,
    LoopIndex,
    LoopStep,
    Procedure,
    ReturnStep,
    TableRef,
    ValueRef,
)
from openinfer.plan.tables import TableUse
from openinfer.symbolic import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.ir.graph import Block
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp, ResolvedVar, SettingValue
    from openinfer.ir.values import AttrValue, Ref
    from openinfer.model import Model
    from openinfer.plan.indices import Interval
    from openinfer.plan.steps import Operand, Step
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable
    from openinfer.symbolic import IntExpr

ELSEWHERE = "run this program in the simulator, on cpu or another device that takes statements one by one"

OUTSIDE = (
    "keep the state outside of the program: read it from a dynamic variable, return its new value and give that to the "
    f"next step; or {ELSEWHERE}"
)

DEEPEST_LOOPS = 64
"""Deepest nesting of loops; C compilers need not take more than 127 nested blocks."""


@dataclass(frozen=True, slots=True)
class DraftValue:
    """A value before its memory is known: a variable, or (``variable`` None) an intermediate result."""

    name: str
    type: TensorType
    variable: ResolvedVar | None


@dataclass
class Draft:
    """What lowering finds: values, tables, procedures (callees first), the names that ``entry`` returns, and why
    statements are refused."""

    values: list[DraftValue] = field(default_factory=list[DraftValue])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, TableUse] = field(default_factory=dict[str, TableUse])
    procedures: list[Procedure] = field(default_factory=list[Procedure])
    returned: dict[str, None] = field(default_factory=dict[str, None])
    refused: list[SynthesisError] = field(default_factory=list[SynthesisError])
    _taken: set[str] = field(default_factory=set[str])

    def add_variable(self, variable: ResolvedVar) -> int:
        """Add a variable; return the number of its value."""
        self.numbers[variable.name] = len(self.values)
        self.values.append(DraftValue(variable.name, variable.type, variable))
        return self.numbers[variable.name]

    def intermediate(self, name: str, type: TensorType) -> int:
        """Add a value that the program has no name for."""
        unique = next(n for n in _candidates(name) if n not in self._taken)
        self._taken.add(unique)
        self.values.append(DraftValue(unique, type, None))
        return len(self.values) - 1


def _candidates(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}.{number}"
        number += 1


def lower(resolved: ResolvedGraph, model: Model, environment: Environment, table: KernelTable) -> Draft:
    """Return the program as steps.

    Raises:
        SynthesisError: statements, settings or operators cannot be carried out on the target; it has a diagnostic for
            each of the statements.
    """
    draft = Draft()
    for variable in resolved.variables.values():
        if variable.storage is Storage.DYNAMIC:
            draft.add_variable(variable)
    for name in _callees_first(resolved):
        block = resolved.graph.blocks[name]
        lowering = _BlockLowering(resolved, model, environment, table, draft, block)
        draft.procedures.append(Procedure(name, tuple(lowering.steps(block.nodes, block.hints))))
    if draft.refused:
        raise all_of(draft.refused)
    return draft


def _callees_first(resolved: ResolvedGraph) -> list[str]:
    """Return the blocks that ``entry`` reaches, each after those that it branches to.

    Raises:
        SynthesisError: a block reaches itself.
    """
    order: list[str] = []
    open_blocks: dict[str, None] = {}
    stack: list[tuple[str, bool]] = [("entry", False)]
    while stack:
        name, done = stack.pop()
        if done:
            del open_blocks[name]
            order.append(name)
            continue
        if name in order:
            continue
        open_blocks[name] = None
        stack.append((name, True))
        block = resolved.graph.blocks[name]
        for node, target in reversed(_branches(block)):
            if target in open_blocks:
                raise at_node(
                    "unsupported", f"block {target!r} reaches itself: recursion cannot be synthesised", name, node
                )
            stack.append((target, False))
    return order


def _branches(block: Block) -> list[tuple[Node, str]]:
    found: list[tuple[Node, str]] = []
    for node in walk(block.nodes):
        if isinstance(node.kind, Branch):
            targets = (node.kind.then_block, node.kind.else_block)
            found += [(node, target) for target in targets if target is not None]
    return found


class _BlockLowering:
    """Lowers the statements of one block."""

    def __init__(
        self,
        resolved: ResolvedGraph,
        model: Model,
        environment: Environment,
        table: KernelTable,
        draft: Draft,
        block: Block,
    ) -> None:
        self._resolved = resolved
        self._model = model
        self._draft = draft
        self._block = block.name
        self._environment = environment
        self._calls = CallLowering(environment, table, draft.intermediate, lambda value: draft.values[value].type)
        self._loops: list[LoopScope] = []
        self._intervals: dict[int, Interval | None] = {}
        self._constant_loops: set[int] = set()

    def steps(self, nodes: Sequence[Node], hints: Mapping[str, AttrValue]) -> Iterator[Step]:
        """Yield the steps of a list of statements; what follows a return is never reached."""
        for node in nodes:
            try:
                yield from self._node(node, hints)
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
                yield FillStep(origin=origin, output=self._value(name, node), value=self._zero(name))
            case Op():
                yield from self._op(node, hints)
            case Transfer(src=src, dst=dst):
                source, output = self._operand(src, node), self._value(dst, node)
                if source != ValueRef(output):
                    yield CopyStep(origin=origin, source=source, output=output)
            case Branch(then_block=then, cond=cond, else_block=other):
                condition = None if cond is None else self._value(cond, node)
                yield CallStep(origin=origin, procedure=then, condition=condition, otherwise=other)
            case Loop() as loop:
                yield from self._loop(loop, node, hints)
            case Barrier() | Dep():
                yield BarrierStep(origin=origin)
            case Return(names=returned):
                if self._block == "entry":
                    self._draft.returned.update(dict.fromkeys(returned))
                yield ReturnStep(origin=origin)
            case _:
                raise self._unsupported(node)

    def _unsupported(self, node: Node) -> Exception:
        kind = type(node.kind).__name__
        spoken = "".join(f" {c.lower()}" if c.isupper() else c for c in kind).strip().replace("cache ", "cache.")
        message = (
            f"`{spoken}` cannot be synthesised: synth targets of this version have no persistent memory or threads"
        )
        hint = OUTSIDE if spoken.startswith("cache.") else ELSEWHERE
        return at_node("unsupported", message, self._block, node, hint=hint)

    def _zero(self, name: str) -> int | float | bool:
        initial = self._resolved.variables[name].initial
        return initial.value if isinstance(initial, Filled) else 0

    def _value(self, name: str, node: Node) -> int:
        variable = self._resolved.variables[name]
        if variable.storage is Storage.PERSISTENT:
            message = f"persistent variable `{name}` cannot be synthesised by this version"
            raise at_node("unsupported", message, self._block, node, hint=OUTSIDE)
        known = self._draft.numbers.get(name)
        return self._draft.add_variable(variable) if known is None else known

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
        numbers = tuple(number for number in map(constant, indices) if number is not None)
        if len(numbers) == len(indices):
            use.fixed[numbers] = None
            return TableRef(use.number, indices, checked=False)
        bounded = all(
            bound.loop in self._constant_loops for i in indices for _, bound in i.names if isinstance(bound, LoopIndex)
        )
        exact = is_exact(indices) and bounded
        use.add([interval(index, self._intervals) for index in indices], exact=exact)
        return TableRef(use.number, indices, checked=not exact)

    def _index(self, expr: IntExpr, node: Node) -> IndexExpr:
        return IndexExpr(expr, tuple((name, self._bound(name, node)) for name in names(expr)))

    def _bound(self, name: str, node: Node) -> int | LoopIndex | ValueRef:
        """Return what a name means: a loop index, then an integer scalar, then a size."""
        loop = next((scope for scope in reversed(self._loops) if scope.index == name), None)
        if loop is not None:
            return LoopIndex(loop.loop)
        variable = self._resolved.variables.get(name)
        if variable is not None and not variable.type.shape and not variable.type.dtype.is_float:
            return ValueRef(self._value(name, node))
        if name in self._resolved.sizes:
            return self._resolved.sizes[name]
        raise at_node("unknown-variable", f"`{name}` is no loop index, integer scalar or size", self._block, node)

    def _loop(self, loop: Loop, node: Node, hints: Mapping[str, AttrValue]) -> Iterator[Step]:
        if len(self._loops) == DEEPEST_LOOPS:
            raise at_node("unsupported", f"loops are nested deeper than {DEEPEST_LOOPS}", self._block, node)
        start, end = self._index(loop.start, node), self._index(loop.end, node)
        low, high = interval(start, self._intervals), interval(end, self._intervals)
        if low is not None and high is not None and low[0] >= high[1]:
            return
        number = node.index
        self._intervals[number] = None if low is None or high is None else (low[0], high[1] - 1)
        fixed = low is not None and high is not None and low[0] == low[1] and high[0] == high[1]
        if fixed:
            self._constant_loops.add(number)
        self._loops.append(LoopScope(loop.index, number, self._intervals[number]))
        body = tuple(self.steps(loop.body, {**hints, **node.hints}))
        self._loops.pop()
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
        op = self._resolved.ops[node.index]
        inputs = tuple(None if ref is None else self._operand(ref, node) for ref in op.inputs)
        outputs = [self._value(name, node) for name in op.outputs]
        settings = self._settings(op, node)
        try:
            with faults_at(self._block, node):
                call = call_of(self._environment.op(op.op), op.input_types, settings, op.output_types)
        except OpTypeError as error:
            raise at_node(error.code, str(error), self._block, node) from error
        for number, type_ in enumerate(call.outputs[len(outputs) :], len(outputs)):
            outputs.append(self._draft.intermediate(f"{op.outputs[0]}.{op.op}.{number}", type_))
        operation = Operation(
            origin=origin_of(self._block, node), placement=placement_of(node, hints), name=op.outputs[0], node=node
        )
        with faults_at(self._block, node):
            yield from self._calls.steps(call, inputs, tuple(outputs), operation)

    def _settings(self, op: ResolvedOp, node: Node) -> Mapping[str, SettingValue]:
        loop_indices = frozenset(scope.index for scope in self._loops)
        try:
            return known_settings(op, self._resolved, self._model, loop_indices)
        except RuntimeSettingError as error:
            hint = _settable(op, error, is_index=error.name in loop_indices)
            raise at_node("unsupported", f"{op.op}: {error}", self._block, node, hint=hint) from error


def _settable(op: ResolvedOp, error: RuntimeSettingError, *, is_index: bool) -> str:
    """Return what to write in place of a setting that is known only when the program runs."""
    from openinfer.ir.text import ref_text

    source = op.inputs[0] if op.inputs else None
    if op.op == "select" and error.setting == "index" and source is not None:
        axis = op.settings.get("axis", 0)
        return f"`op gather({ref_text(source)}, {error.name}, axis={axis})` takes such an index as an input"
    if is_index:
        return f"take the statement out of the loop, and write it once for each value of `{error.name}`"
    return f"declare `{error.name}` as constant with data in the model, or write its value"
