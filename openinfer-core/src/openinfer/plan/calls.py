"""Operators as steps: a kernel of the target, the operator's expression or fold, or the steps of its decomposition."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from openinfer.compute.in_order import keeps_order
from openinfer.dims import size_of
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ir.types import TensorType
from openinfer.ops.derived import expression_computation, fold_computation
from openinfer.ops.shapes import folds_nothing
from openinfer.plan.findings import at_node
from openinfer.plan.steps import ComputeStep, CopyStep, KernelStep, LoopProgramStep, ValueRef
from openinfer.plugins.selection import (
    Computed,
    Decomposed,
    DerivedExpression,
    DerivedFold,
    HandWritten,
    Looped,
    choose,
    select,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from openinfer.compute import Computation
    from openinfer.expr.tree import Expr
    from openinfer.ir.nodes import Node
    from openinfer.ops.calls import Decomposition, OpCall
    from openinfer.plan.steps import Operand, Origin, Placement, Step
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import Choice, Implementation, KernelTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The statement of an operator, and the name that those of its intermediate results begin with."""

    origin: Origin
    placement: Placement
    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class CallLowering:
    """Turns calls into steps. ``intermediate`` adds a value to the plan, ``type_of`` returns the type of one.

    Equal calls share their computations, so that later passes recognise equal steps by identity.
    """

    environment: Environment
    table: KernelTable
    intermediate: Callable[[str, TensorType], int]
    type_of: Callable[[int], TensorType]
    _derived: dict[tuple[object, ...], Implementation] = field(
        default_factory=dict["tuple[object, ...]", "Implementation"], repr=False, compare=False
    )
    _computations: dict[tuple[object, ...], Computation] = field(
        default_factory=dict["tuple[object, ...]", "Computation"], repr=False, compare=False
    )

    def steps(
        self, call: OpCall, inputs: Sequence[Operand | None], outputs: tuple[int, ...], at: Operation
    ) -> Iterator[Step]:
        """Yield the steps of a call. An output may be one of the inputs.

        Raises:
            SynthesisError: ``kernel-missing``: nothing carries out the call on the target; ``unsupported``: its
                decomposition is nested too deeply, or has too many parts.
        """
        choice = choose(call, self._selected)
        for missing in choice.missing():
            raise at_node(missing.code, missing.reason, at.origin.block, at.node)
        yield from self._chosen(choice, inputs, outputs, at)

    def _chosen(
        self, choice: Choice, inputs: Sequence[Operand | None], outputs: tuple[int, ...], at: Operation
    ) -> Iterator[Step]:
        call, chosen = choice.call, choice.chosen
        if isinstance(chosen, DerivedExpression):
            yield self._elementwise(call, chosen.expr, inputs, outputs[0], at)
            return
        if isinstance(chosen, Computed) and keeps_order(chosen.computation):
            yield from self._copy(inputs, outputs[0], at)
            return
        private = tuple(self._apart(value, inputs, at) for value in outputs)
        if isinstance(chosen, HandWritten):
            yield KernelStep(
                origin=at.origin,
                placement=at.placement,
                call=call,
                kernel=chosen.kernel,
                inputs=tuple(inputs),
                outputs=private,
            )
        elif isinstance(chosen, Computed):
            yield self._computed(call, chosen.computation, inputs, private, at)
        elif isinstance(chosen, Looped):
            yield LoopProgramStep(
                origin=at.origin,
                placement=at.placement,
                op=call.op,
                kernel=chosen.kernel,
                inputs=tuple(operand for operand in inputs if operand is not None),
                outputs=private,
            )
        elif isinstance(chosen, DerivedFold):
            yield self._fold(call, chosen, inputs, private[0], at)
        elif isinstance(chosen, Decomposed):
            yield from self._decomposed(choice.parts, chosen.decomposition, inputs, private, at)
        for source, output in zip(private, outputs, strict=True):
            if source != output:
                yield CopyStep(origin=at.origin, source=ValueRef(source), output=output)

    def _selected(self, call: OpCall) -> Implementation:
        """Return what carries out a call; kernels of a target are selected for each call, by hooks of plugins."""
        if call.has_sizes:
            return select(self.environment, self.table, call)
        # Settings that compare equal may differ: 0.0 and -0.0, 1 and True.
        key = (call.op, call.inputs, call.outputs, repr(sorted(call.settings.items(), key=itemgetter(0))))
        if key in self._derived:
            return self._derived[key]
        chosen = select(self.environment, self.table, call)
        if not isinstance(chosen, HandWritten):
            self._derived[key] = chosen
        return chosen

    def _copy(self, inputs: Sequence[Operand | None], output: int, at: Operation) -> Iterator[Step]:
        """Yield the copy of an input, which `openinfer.plan.sharing` may turn into a view."""
        (source,) = (operand for operand in inputs if operand is not None)
        if source != ValueRef(output):
            yield CopyStep(origin=at.origin, source=source, output=output)

    def _apart(self, value: int, inputs: Sequence[Operand | None], at: Operation) -> int:
        """Return the value, or another one of its type where the value is also read by the call."""
        if ValueRef(value) not in inputs:
            return value
        return self.intermediate(f"{at.name}.result", self.type_of(value))

    def _computed(
        self,
        call: OpCall,
        computation: Computation,
        inputs: Sequence[Operand | None],
        outputs: tuple[int, ...],
        at: Operation,
    ) -> ComputeStep:
        types = [TensorType(t.dtype, tuple(map(size_of, t.shape))) for t in computation.temporaries]
        return ComputeStep(
            origin=at.origin,
            placement=at.placement,
            op=call.op,
            computation=computation,
            inputs=tuple(operand for operand in inputs if operand is not None),
            outputs=outputs,
            temporaries=tuple(self.intermediate(f"{at.name}.{call.op}", type_) for type_ in types),
        )

    def _fold(
        self, call: OpCall, chosen: DerivedFold, inputs: Sequence[Operand | None], output: int, at: Operation
    ) -> ComputeStep:
        operand, source = call.inputs[0], inputs[0]
        if operand is None or source is None:
            raise at_node("arity", f"{call.op} needs an input", at.origin.block, at.node)
        if chosen.fold.start is None and folds_nothing(operand.shape, chosen.axes):
            message = f"{call.op} over {operand}: nothing can be said of an empty slice"
            raise at_node("shape-mismatch", message, at.origin.block, at.node)

        def made() -> Computation:
            return fold_computation(call.op, chosen.axes, chosen.fold, operand, call.outputs[0])

        return ComputeStep(
            origin=at.origin,
            placement=at.placement,
            op=call.op,
            computation=self._shared(call, (id(chosen), operand, call.outputs[0]), made),
            inputs=(source,),
            outputs=(output,),
        )

    def _shared(self, call: OpCall, parts: tuple[object, ...], made: Callable[[], Computation]) -> Computation:
        """Return the computation of a call, the same one for equal parts; sizes of run time have no hash."""
        if call.has_sizes:
            return made()
        key = (call.op, *parts)
        if key not in self._computations:
            self._computations[key] = made()
        return self._computations[key]

    def _decomposed(
        self,
        choices: Sequence[Choice],
        parts: Decomposition,
        inputs: Sequence[Operand | None],
        outputs: tuple[int, ...],
        at: Operation,
    ) -> Iterator[Step]:
        given_inputs = zip(parts.inputs, inputs, strict=True)
        operands = {number: operand for number, operand in given_inputs if number is not None and operand is not None}
        made_here = {number for step in parts.steps for number in step.outputs}
        results: dict[int, int] = {}
        copied: list[tuple[int, int]] = []
        for number, output in zip(parts.outputs, outputs, strict=True):
            if number in made_here and number not in results:
                results[number] = output
            else:
                copied.append((number, output))
        for step, choice in zip(parts.steps, choices, strict=True):
            arguments = [None if i is None else operands[i] for i in step.inputs]
            made: list[int] = []
            for number, type_ in zip(step.outputs, step.call.outputs, strict=True):
                value = results[number] if number in results else self.intermediate(f"{at.name}.{step.call.op}", type_)
                operands[number] = ValueRef(value)
                made.append(value)
            yield from self._chosen(choice, arguments, tuple(made), at)
        for number, output in copied:
            yield CopyStep(origin=at.origin, source=operands[number], output=output)

    def _elementwise(
        self, call: OpCall, expr: Expr, inputs: Sequence[Operand | None], output: int, at: Operation
    ) -> ComputeStep:
        """Return the step of an expression whose ``Input(i)`` is ``inputs[i]``; what it does not read is dropped."""
        operands: dict[Operand, TensorType] = {}
        places: list[tuple[int, int]] = []
        for index in linearise(expr).inputs:
            operand, type_ = inputs[index], call.inputs[index]
            if operand is None or type_ is None:
                raise ValueError(f"the expression of {call.op} reads input {index}, which is not given")
            operands.setdefault(operand, type_)
            places.append((index, list(operands).index(operand)))
        types = tuple(operands.values())

        def made() -> Computation:
            numbers: dict[int, Expr] = {index: tree.Input(number, types[number].dtype) for index, number in places}
            return expression_computation(call.op, tree.substitute(expr, numbers), types, call.outputs[0])

        return ComputeStep(
            origin=at.origin,
            placement=at.placement,
            op=call.op,
            computation=self._shared(call, (id(expr), tuple(places), types, call.outputs[0]), made),
            inputs=tuple(operands),
            outputs=(output,),
        )
