"""Steps on caches, registers and run-time sizes as statements that any language has.

Which places of a cache an access takes, what is tested before anything changes, and how far a cache grows are rules of
the language. Here they are assignments, tests and calls of loop programs, so that a target prints these and knows none
of the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from openinfer.affine import Index
from openinfer.codegen.moving_kernels import clearing_kernel, counting_kernel, moving_kernel, walk_over
from openinfer.plan.operands import Symbol, alone
from openinfer.plan.programs import loop_program, operands_of
from openinfer.plan.steps import (
    ClearStep,
    ComputeStep,
    CountStep,
    EntryStep,
    EqualStep,
    LoadStep,
    LoopProgramStep,
    PlaceStep,
    Register,
    SetStep,
    StoreStep,
    TableRef,
    ValueRef,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.codegen.moving_kernels import Walk
    from openinfer.loops import Kernel
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.regions import Axis, Region
    from openinfer.plan.steps import Operand
    from openinfer.scalars import Scalar

HostStep: TypeAlias = (
    ComputeStep
    | LoopProgramStep
    | CountStep
    | LoadStep
    | StoreStep
    | ClearStep
    | SetStep
    | PlaceStep
    | EqualStep
    | EntryStep
)
"""The steps that are statements of this module; a target prints the others, of which each is one action, itself."""

Relation: TypeAlias = Literal["<", ">", "!="]

OUT_OF_RANGE, LIMIT, SHAPE = "out-of-range", "cache-limit", "shape-mismatch"


@dataclass(frozen=True, slots=True)
class Assign:
    """A register takes the value of an expression, which is an error where 64 bits do not hold it exactly.

    Attributes:
        is_local: whether the register is a variable of the step alone, which this declares; their numbers begin past
            those of `ExecutionPlan.registers`.
    """

    register: int
    value: Index
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class When:
    """``body`` where two expressions have a relation; an expression that 64 bits do not hold exactly is an error."""

    left: Index
    relation: Relation
    right: Index
    body: tuple[HostStatement, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """End the step with an error of this code: ``out-of-range``, ``cache-limit`` or ``shape-mismatch``."""

    code: str


@dataclass(frozen=True, slots=True)
class Require:
    """End the step with the error ``out-of-range`` where a prefix table has no such entry."""

    entry: TableRef


@dataclass(frozen=True, slots=True)
class Run:
    """Call a loop program.

    Attributes:
        operands: those of ``kernel.buffers``, in order. An entry of a prefix table that is `TableRef.checked` is tested
            before the call, as for `Require`.
        arguments: the values of ``kernel.parameters``, in order; one that 64 bits do not hold exactly is an error.
    """

    kernel: Kernel
    operands: tuple[Operand, ...]
    arguments: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class Shrink:
    """Registers take the extents up to the last element of a state that differs from ``value``; 0 where none does.

    Attributes:
        registers: one for each axis of the state; None for axes that keep their extent.
    """

    state: int
    value: Scalar
    registers: tuple[int | None, ...]


HostStatement: TypeAlias = Assign | When | Refuse | Require | Run | Shrink


def host_statements(plan: ExecutionPlan, step: HostStep) -> tuple[HostStatement, ...]:
    """Return what a step of a plan does, in order.

    Where places, sizes or amounts are refused, the step has changed nothing. Registers that are local to it are in
    scope up to its last statement.

    Raises:
        TypeError: the step is one that a target prints itself, such as a loop.
    """
    host = _Host(plan)
    match step:
        case ComputeStep() | LoopProgramStep():
            host.compute(step)
        case CountStep():
            host.count(step)
        case SetStep():
            host.set(step)
        case PlaceStep():
            host.place(step)
        case EqualStep():
            host.refuse(step.left, "!=", step.right, SHAPE)
        case EntryStep():
            host.made.append(Require(step.entry))
        case LoadStep():
            host.load(step)
        case StoreStep():
            host.store(step)
        case ClearStep():
            host.clear(step)
        case _:
            raise TypeError(f"a {type(step).__name__} is printed by the target itself")
    return tuple(host.made)


class _Host:
    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._locals = len(plan.registers)
        self.made: list[HostStatement] = []

    def variable(self, value: Index) -> int:
        """Append a local register with a value; return its number."""
        self.made.append(Assign(self._locals, value, is_local=True))
        self._locals += 1
        return self._locals - 1

    def local(self, value: Index) -> Index:
        """Return a value as a local register; numbers and local registers are returned as they are."""
        operand = alone(value)
        is_local = isinstance(operand, Register) and operand.number >= len(self._plan.registers)
        return value if value.constant is not None or is_local else _register(self.variable(value))

    def refuse(self, left: Index, relation: Relation, right: Index, code: str) -> None:
        if left.constant is None or right.constant is None or _holds(left.constant, relation, right.constant):
            self.made.append(When(left, relation, right, (Refuse(code),)))

    def compute(self, step: ComputeStep | LoopProgramStep) -> None:
        kernel, operands = loop_program(step), operands_of(step)
        arguments: list[Index] = []
        for argument in step.arguments if isinstance(step, ComputeStep) else ():
            value = self.local(argument.value)
            self.refuse(value, "<", Index.of(argument.low), OUT_OF_RANGE)
            self.refuse(value, ">", Index.of(argument.high), OUT_OF_RANGE)
            arguments.append(value)
        used = tuple(operands[buffer.name] for buffer in kernel.buffers)
        unread = dict.fromkeys(operand for operand in step.inputs if operand not in used)
        self.made += [Require(operand) for operand in unread if isinstance(operand, TableRef) and operand.checked]
        self.made.append(Run(kernel, used, tuple(arguments)))

    def count(self, step: CountStep) -> None:
        amount = self.local(step.amount)
        self.refuse(amount, "<", Index(), OUT_OF_RANGE)
        dtype = self._plan.values[step.target].type.dtype
        kernel = counting_kernel(dtype, amount.constant, down=step.down)
        self.made.append(Run(kernel, (ValueRef(step.target),), () if amount.constant is not None else (amount,)))

    def set(self, step: SetStep) -> None:
        values = [value if len(step.values) == 1 else self.local(value) for _, value in step.values]
        self.made += [Assign(register, value) for (register, _), value in zip(step.values, values, strict=True)]

    def place(self, step: PlaceStep) -> None:
        span, number = step.range, self.variable(step.value)
        value = _register(number)
        if span.size is not None:
            self.made.append(When(value, "<", Index(), (Assign(number, value + span.size),)))
        if span.least is not None:
            self.refuse(value, "<", span.least, SHAPE)
        if span.most is not None:
            self.refuse(value, ">", span.most, SHAPE)
        # The highest may be below the lowest, as the last row of no rows: the lowest is taken then.
        if span.high != span.most or span.is_empty:
            self.made.append(When(value, ">", span.high, (Assign(number, span.high),)))
        if span.low != span.least or span.is_empty:
            self.made.append(When(value, "<", span.low, (Assign(number, span.low),)))
        self.made.append(Assign(step.register, value))

    def load(self, step: LoadStep) -> None:
        access = _Access(self, step.region)
        lengths = zip(step.lengths, access.lengths, strict=False)
        self.made += [Assign(register, length) for register, length in lengths if register is not None]
        if step.view is not None:
            self.made.append(Assign(step.view, access.first))
            return
        values = self._plan.values
        walk = access.walk(values[step.source].stored.count)
        kernel = moving_kernel(values[step.source].stored, values[step.output].stored, walk, is_stored=False)
        self.made.append(Run(kernel, (ValueRef(step.source), ValueRef(step.output)), walk.arguments))

    def store(self, step: StoreStep) -> None:
        values, source = self._plan.values, step.source
        target = values[step.target].stored
        walk = _Access(self, step.region, step.lengths).walk(target.count)
        # What is not a value of the plan has no more elements than the region.
        stored = values[source.value].stored if isinstance(source, ValueRef) else target
        kernel = moving_kernel(stored, target, walk, is_stored=True)
        self.made.append(Run(kernel, (source, ValueRef(step.target)), walk.arguments))

    def clear(self, step: ClearStep) -> None:
        stored = self._plan.values[step.target].stored
        walk = _Access(self, step.region).walk(stored.count)
        self.made.append(Run(clearing_kernel(stored, walk, step.value), (ValueRef(step.target),), walk.arguments))
        if any(register is not None for register in step.left):
            self.made.append(Shrink(step.target, step.value, step.left))


class _Access:
    """The tests and the growth of an access to a region, and where its elements are.

    Attributes:
        first: place of the first element in the state.
        lengths, strides: of the ranges.
    """

    def __init__(self, host: _Host, region: Region, extents: Sequence[Index] = ()) -> None:
        self._host, self._region = host, region
        self.first = Index()
        self.lengths: list[Index] = []
        self.strides: list[int] = []
        ends = [self._axis(axis) for axis in region.table]
        if not region.inner:
            self._fit(extents, ())
        grown: list[Index] = []
        for growth in region.growth:
            grown.append(host.local(growth.value))
            host.refuse(grown[-1], "<", Index(), OUT_OF_RANGE)
            host.refuse(grown[-1], ">", Index.of(growth.limit), LIMIT)
        undo = self._grow(ends, grown, is_undone=bool(extents) and bool(region.inner))
        for axis in region.inner:
            self._axis(axis)
        if region.inner:
            self._fit(extents, undo)

    def _axis(self, axis: Axis) -> Index:
        """Append the tests of an axis; return the end of its places."""
        host, passed = self._host, LIMIT if axis.is_bound else OUT_OF_RANGE
        start, size = host.local(axis.start), host.local(axis.size)
        host.refuse(start, "<", Index(), OUT_OF_RANGE)
        self.first = self.first + start * axis.stride
        if axis.end is None:
            # Not start + 1, which 64 bits need not hold.
            host.refuse(start, ">", size - 1, passed)
            return start + 1
        end = host.local(axis.end)
        if axis.current is not None:
            number = host.variable(end)
            end = _register(number)
            host.made.append(When(end, "<", Index(), (Assign(number, end + axis.current),)))
        host.refuse(end, "<", start, OUT_OF_RANGE)
        host.refuse(end, ">", size, passed)
        self.lengths.append(host.local(end - start))
        self.strides.append(axis.stride)
        return end

    def _grow(self, ends: Sequence[Index], grown: Sequence[Index], *, is_undone: bool) -> tuple[HostStatement, ...]:
        """Append the growth; return the statements that take it back."""
        host, region = self._host, self._region
        reached = [(axis.grown, end, True) for axis, end in zip(region.table, ends, strict=True)]
        reached += [(growth.register, value, False) for growth, value in zip(region.growth, grown, strict=True)]
        undo: list[HostStatement] = []
        for register, end, is_of_table in reached:
            if register is None:
                continue
            if is_undone:
                undo.append(Assign(register, host.local(_register(register))))
            statement: HostStatement = When(_register(register), "<", end, (Assign(register, end),))
            # A range of the table without places stores nothing.
            for length in self.lengths if is_of_table else ():
                statement = When(length, ">", Index(), (statement,))
            host.made.append(statement)
        return tuple(undo)

    def _fit(self, extents: Sequence[Index], undo: tuple[HostStatement, ...]) -> None:
        """Append the tests that a value has the extents of the ranges."""
        for extent, length in zip(extents, self.lengths, strict=False):
            if extent != length:
                self._host.made.append(When(extent, "!=", length, (*undo, Refuse(SHAPE))))

    def walk(self, count: int) -> Walk:
        """Return the loops over the elements of the region of a state of so many elements."""
        return walk_over(self.first, self.lengths, self.strides, self._region.entry, count)


def _register(number: int) -> Index:
    # No identifier of a program begins so.
    return Index.of(Symbol(f"%{number}", operand=Register(number)))


def _holds(left: int, relation: Relation, right: int) -> bool:
    return {"<": left < right, ">": left > right, "!=": left != right}[relation]
