"""How values get from variable to variable in a program, whatever the order in which its statements run."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from openinfer import symbolic
from openinfer.ir.nodes import CacheDecrement, CacheIncrement, CacheRead, CacheWrite, Loop, Op, Transfer
from openinfer.ir.resolved import Mode, RuntimeInts, RuntimeScalar
from openinfer.ops.applying import scalar_expression
from openinfer.ops.schema import Elementwise, SettingType
from openinfer.random_inputs.intervals import Interval, interval_of
from openinfer.validate.kernels import call_of_node

if TYPE_CHECKING:
    from openinfer.ir.nodes import NodeKind
    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment

Intervals: TypeAlias = "dict[str, Interval | None]"
"""By variable; None: any value of the type. Variables that nothing has written are missing."""

CARRYING = frozenset({"movement", "indexing"})
"""Categories of operators whose results are elements of their inputs, or settings."""

_PASSES = 8
"""Passes over the statements after which bounds that still grow are given up: a loop or a state adds to them."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that writes variables; ``call`` is None where it copies its source."""

    outputs: tuple[str, ...]
    inputs: tuple[str | None, ...]
    op: ResolvedOp | None = None
    schema: OpSchema | None = None
    call: OpCall | None = None

    @property
    def carries(self) -> bool:
        """Whether results are elements of inputs, or settings."""
        if self.schema is None or self.op is None:
            return True
        updates = self.op.settings.get("reduction", "none") != "none"
        return self.schema.category in CARRYING and not updates and self.op.mode is not Mode.ACCUMULATE

    @property
    def is_elementwise(self) -> bool:
        """Whether each element of a result is an expression of elements of the inputs."""
        return self.schema is not None and isinstance(self.schema.definition, Elementwise)

    def interval(self, values: Intervals) -> Interval | None:
        """Return what the results can be."""
        if self.carries:
            return self._carried(values)
        if self.op is None or self.call is None or self.schema is None or not self.is_elementwise:
            return None
        if self.op.runtime_settings or self.op.mode is Mode.ACCUMULATE:
            return None
        inputs = [None if name is None else values.get(name) for name in self.inputs]
        return interval_of(scalar_expression(self.schema, self.call), inputs)

    def _carried(self, values: Intervals) -> Interval | None:
        sources = self._sources()
        intervals = [values.get(name) for name in sources]
        if self.schema is not None and self.op is not None:
            scalars = [spec.name for spec in self.schema.settings if spec.type is SettingType.SCALAR]
            numbers = [self.op.settings.get(name) for name in scalars]
            intervals += [Interval(number, number) for number in numbers if isinstance(number, int | float)]
        joined: Interval | None = intervals[0] if intervals else None
        for interval in intervals:
            joined = None if joined is None or interval is None else joined.joined(interval)
        return joined

    def _sources(self) -> list[str]:
        """Return the inputs whose elements the results have, which are those of one type with them."""
        if self.op is None:
            return [name for name in self.inputs if name is not None]
        made = self.op.output_types[0].dtype if self.op.output_types else None
        pairs = zip(self.inputs, self.op.input_types, strict=True)
        return [name for name, kind in pairs if name is not None and kind is not None and kind.dtype is made]


class Flow:
    """The statements of a program that write variables, by what they read and write."""

    def __init__(self, program: ResolvedGraph, environment: Environment) -> None:
        self._program = program
        self._environment = environment
        self.statements = tuple(self._statements())

    def _statements(self) -> Iterator[Statement]:
        for _, node in self._program.graph.nodes():
            op = self._program.ops.get(node.index)
            if op is not None:
                schema = self._environment.op(op.op)
                names = tuple(None if ref is None else ref.name for ref in op.inputs)
                yield Statement(op.outputs, names, op, schema, call_of_node(op, schema))
                continue
            match node.kind:
                case Transfer(src, dst):
                    yield Statement((dst,), (src.name,))
                case CacheRead(src, dst):
                    yield Statement((dst,), (src.base,))
                case CacheWrite(src, dst):
                    yield Statement((dst.base,), (src.name,))
                case _:
                    pass

    @cached_property
    def _writers(self) -> Mapping[str, list[Statement]]:
        writers: defaultdict[str, list[Statement]] = defaultdict(list)
        for statement in self.statements:
            for name in statement.outputs:
                writers[name].append(statement)
        return writers

    @cached_property
    def _readers(self) -> Mapping[str, list[Statement]]:
        readers: defaultdict[str, list[Statement]] = defaultdict(list)
        for statement in self.statements:
            for name in statement.inputs:
                if name is not None:
                    readers[name].append(statement)
        return readers

    def before(self, name: str, passes: Callable[[Statement], bool] = lambda _: True) -> set[str]:
        """Return a variable and those that it is computed from by statements that ``passes`` accepts."""
        return _closure(
            [name],
            lambda name: (
                source
                for statement in self._writers.get(name, ())
                if passes(statement)
                for source in statement.inputs
                if source is not None
            ),
        )

    def after(self, name: str) -> list[Statement]:
        """Return the statements that compute with a variable, or with what is computed from it."""
        names = _closure([name], lambda name: (out for each in self._readers.get(name, ()) for out in each.outputs))
        return list({id(each): each for reached in names for each in self._readers.get(reached, ())}.values())

    def steering(self) -> set[str]:
        """Return the variables that decide what runs, and where: bounds, indices, amounts, settings."""
        names: set[str] = set()
        for _, node in self._program.graph.nodes():
            names |= {name for expr in _expressions(node.kind) for name in symbolic.names(expr)}
        for op in self._program.ops.values():
            for setting in op.runtime_settings.values():
                match setting:
                    case RuntimeScalar(name):
                        names.add(name)
                    case RuntimeInts(exprs):
                        names |= {name for expr in exprs for name in symbolic.names(expr)}
        return names

    def intervals(self, names: Iterable[str], start: Intervals) -> Intervals:
        """Return what variables can be that are computed from each other, beginning with what is known at the start."""
        wanted, values = set(names), dict(start)
        concerned = [each for each in self.statements if not wanted.isdisjoint(each.outputs)]
        for number in range(_PASSES + len(wanted)):
            changed = False
            for statement in concerned:
                if any(name is not None and name not in values for name in statement.inputs):
                    continue
                interval = statement.interval(values)
                for name in statement.outputs:
                    before = values.get(name, interval)
                    joined = None if before is None or interval is None else before.joined(interval)
                    if name not in values or joined != before:
                        changed = True
                        values[name] = joined if number < _PASSES else None
            if not changed:
                break
        return values


def _expressions(kind: NodeKind) -> Iterator[symbolic.IntExpr]:
    match kind:
        case Loop(start=start, end=end):
            yield from (start, end)
        case CacheRead(src, _):
            yield from src.expressions()
        case CacheWrite(_, dst):
            yield from dst.expressions()
        case CacheIncrement(_, amount) | CacheDecrement(_, amount):
            yield amount
        case Op(inputs=inputs):
            yield from (index for ref in inputs for index in ref.indices)
        case _:
            pass


def _closure(names: Iterable[str], next_of: Callable[[str], Iterable[str]]) -> set[str]:
    """Return names and all that follow from them."""
    reached, pending = set(names), deque(names)
    while pending:
        for name in next_of(pending.popleft()):
            if name not in reached:
                reached.add(name)
                pending.append(name)
    return reached
