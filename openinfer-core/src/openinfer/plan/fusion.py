"""Fusion: an elementwise step takes over the step that computes one of its inputs, so that this input is never stored.

The trees are composed as they are: each part keeps the cast that rounds it to its own element type, so a fused step
gives the same bits as its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute import Tensor
from openinfer.compute.follow import followed
from openinfer.dtypes import I64
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ir.types import TensorType
from openinfer.plan.accesses import operand_reads, walk
from openinfer.plan.steps import (
    BarrierStep,
    ComputeStep,
    ElementwiseStep,
    Epilogue,
    FoldStep,
    KernelStep,
    LoopIndex,
    LoopStep,
    Origin,
    Procedure,
    ReturnStep,
    ValueRef,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute import Computation
    from openinfer.expr.tree import Expr
    from openinfer.plan.accesses import Accesses
    from openinfer.plan.liveness import Liveness
    from openinfer.plan.steps import Operand, Step

LARGEST_EXPRESSION = 64
"""Most instructions of a fused expression; longer ones gain nothing and run compilers out of registers."""

_RESULT = LoopIndex(-1)
"""Stands for the element that a kernel has computed, which is no operand of the plan."""

_Producer = ElementwiseStep | FoldStep | KernelStep | ComputeStep


@dataclass(frozen=True, slots=True)
class Fusion:
    """What fusion has to know of the program around a list of steps.

    Attributes:
        epilogues: whether the target's kernels and folds carry out epilogues.
    """

    types: Sequence[TensorType]
    liveness: Liveness
    accesses: Accesses
    epilogues: bool

    def type_of(self, operand: Operand) -> TensorType | None:
        """Return the type of an operand; None for an entry of a table, whose shape is not known here."""
        if isinstance(operand, ValueRef):
            return self.types[operand.value]
        return TensorType(I64) if isinstance(operand, LoopIndex) else None


def fuse(procedures: Sequence[Procedure], around: Fusion) -> tuple[Procedure, ...]:
    """Return the procedures with chains of elementwise steps fused."""
    return tuple(Procedure(p.name, _fuse_list(p.steps, around)) for p in procedures)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A step in a list: what it reads and writes, which values are live after it, whether nothing may pass it."""

    step: Step
    after: int
    read: int
    written: int
    stops: bool


def _entry(step: Step, after: int, around: Fusion) -> _Entry:
    stops = any(isinstance(inner, BarrierStep | ReturnStep) for inner in walk((step,)))
    return _Entry(step, after, *around.accesses.of(step), stops)


def _fuse_list(steps: Sequence[Step], around: Fusion) -> tuple[Step, ...]:
    left: list[_Entry] = []
    for step in steps:
        after = around.liveness.after(step)
        inner = replace(step, body=_fuse_list(step.body, around)) if isinstance(step, LoopStep) else step
        left.append(_entry(inner, after, around))
    position = 0
    while position < len(left):
        if not _fuse_forward(left, position, around):
            position += 1
    return tuple(entry.step for entry in left)


def _fuse_forward(entries: list[_Entry], position: int, around: Fusion) -> bool:
    """Fuse the step at ``position`` into the step that reads its result, if that can be done; return whether."""
    producer = entries[position].step
    if not isinstance(producer, _Producer) or (
        isinstance(producer, KernelStep | ComputeStep) and len(producer.outputs) != 1
    ):
        return False
    consumer_at = _only_reader(entries, position)
    if consumer_at is None:
        return False
    consumer = entries[consumer_at]
    fused = _fused(producer, consumer.step, consumer.after, around)
    if fused is None:
        return False
    entries[consumer_at] = _entry(fused, consumer.after, around)
    del entries[position]
    return True


def _only_reader(entries: list[_Entry], position: int) -> int | None:
    """Return where the result is read first, if the producer could as well run there."""
    first = entries[position]
    result, touched, stays = first.written, first.written | first.read, _no_reorder(first.step)
    for other_at in range(position + 1, len(entries)):
        other = entries[other_at]
        if other.stops:
            return None
        if other.read & result:
            return other_at
        if other.written & touched or stays or _no_reorder(other.step):
            return None
    return None


def _no_reorder(step: Step) -> bool:
    return isinstance(step, _Producer) and step.placement.no_reorder


def _fused(producer: _Producer, consumer: Step, after: int, around: Fusion) -> Step | None:
    """Return the step that does the work of both, or None where rules or types forbid it."""
    if not isinstance(consumer, ElementwiseStep) or not _allowed(producer, consumer):
        return None
    result = _result_of(producer)
    if around.types[result].shape != around.types[consumer.output].shape:
        return None
    if result != consumer.output and after >> result & 1:
        return None
    if any(operand_reads(o) >> result & 1 for o in consumer.inputs if o != ValueRef(result)):
        return None
    if isinstance(producer, ElementwiseStep):
        return _joined(producer, consumer, result)
    if isinstance(producer, ComputeStep):
        return _followed(producer, consumer, result, around)
    able = around.epilogues and not (isinstance(producer, KernelStep) and not producer.kernel.epilogue)
    return _with_epilogue(producer, consumer, result, around) if able else None


def _allowed(producer: _Producer, consumer: ElementwiseStep) -> bool:
    first, second = producer.placement, consumer.placement
    return first.fuse and second.fuse and first.scope == second.scope and first.group == second.group


def _result_of(step: _Producer) -> int:
    return step.outputs[0] if isinstance(step, KernelStep | ComputeStep) else step.output


def _joined(producer: ElementwiseStep, consumer: ElementwiseStep, result: int) -> ElementwiseStep | None:
    inputs: list[Operand] = []
    inner = _renumbered(producer.expr, producer.inputs, inputs, {})
    fixed = {number: inner for number, operand in enumerate(consumer.inputs) if operand == ValueRef(result)}
    expr = _renumbered(consumer.expr, consumer.inputs, inputs, fixed)
    if len(linearise(expr).instructions) > LARGEST_EXPRESSION:
        return None
    return replace(consumer, origin=_both(producer, consumer), inputs=tuple(inputs), expr=expr)


def _with_epilogue(
    producer: FoldStep | KernelStep, consumer: ElementwiseStep, result: int, around: Fusion
) -> FoldStep | KernelStep | None:
    """Return the producer with the consumer's expression after its own epilogue."""
    if _main_reads(producer) >> consumer.output & 1:
        return None
    inputs: list[Operand] = [_RESULT]
    before: Expr = tree.Input(0, around.types[result].dtype)
    if producer.epilogue is not None:
        own = (_RESULT, *producer.epilogue.inputs)
        before = _renumbered(producer.epilogue.expr, own, inputs, {})
    fixed = {number: before for number, operand in enumerate(consumer.inputs) if operand == ValueRef(result)}
    expr = _renumbered(consumer.expr, consumer.inputs, inputs, fixed)
    if len(linearise(expr).instructions) > LARGEST_EXPRESSION:
        return None
    epilogue = Epilogue(expr, tuple(inputs[1:]))
    origin = _both(producer, consumer)
    if isinstance(producer, KernelStep):
        return replace(producer, origin=origin, outputs=(consumer.output,), epilogue=epilogue)
    return replace(producer, origin=origin, output=consumer.output, epilogue=epilogue)


def _followed(producer: ComputeStep, consumer: ElementwiseStep, result: int, around: Fusion) -> ComputeStep | None:
    """Return a computation that evaluates the consumer's expression where it stores its result."""
    if _main_reads(producer) >> consumer.output & 1:
        return None
    inputs: list[Operand] = [_RESULT]
    fixed: dict[int, Expr] = {
        number: tree.Input(0, around.types[result].dtype)
        for number, operand in enumerate(consumer.inputs)
        if operand == ValueRef(result)
    }
    expr = _renumbered(consumer.expr, consumer.inputs, inputs, fixed)
    if any(operand_reads(operand) >> consumer.output & 1 for operand in inputs[1:]) and _parts(producer) > 1:
        return None
    types = [around.type_of(operand) for operand in inputs[1:]]
    known = [type_ for type_ in types if type_ is not None]
    if len(known) < len(types):
        return None
    computation = followed(producer.computation, expr, _tensors(known, len(producer.inputs)))
    if computation is None or _longest(computation) > LARGEST_EXPRESSION:
        return None
    return replace(
        producer,
        origin=_both(producer, consumer),
        computation=computation,
        inputs=(*producer.inputs, *inputs[1:]),
        outputs=(consumer.output,),
    )


def _tensors(types: Sequence[TensorType], first: int) -> list[Tensor]:
    """Return operands that a computation with ``first`` inputs reads besides."""
    shapes = [tuple(Index.of(extent) for extent in type_.shape) for type_ in types]
    pairs = enumerate(zip(types, shapes, strict=True), first)
    return [Tensor(f"e{number}", type_.dtype, shape) for number, (type_, shape) in pairs]


def _parts(step: ComputeStep) -> int:
    """Return how many stages store the result: of several, one may overwrite what another has stored."""
    (output,) = step.computation.outputs
    return sum(stage.tensor == output.name for stage in step.computation.stages)


def _longest(computation: Computation) -> int:
    return max(len(linearise(stage.value).instructions) for stage in computation.stages)


def _main_reads(step: FoldStep | KernelStep | ComputeStep) -> int:
    """Return what a kernel reads at other positions than the one that it stores."""
    operands = (step.source,) if isinstance(step, FoldStep) else step.inputs
    bits = 0
    for operand in operands:
        bits |= operand_reads(operand)
    return bits


def _renumbered(expr: Expr, operands: Sequence[Operand], inputs: list[Operand], fixed: dict[int, Expr]) -> Expr:
    """Return ``expr`` over the joint list ``inputs``, which grows by what it lacks; ``fixed`` inputs become trees."""
    replacements: dict[int, Expr] = dict(fixed)
    dtypes = {i.index: i.dtype for i in linearise(expr).instructions if i.function == "input"}
    for number, dtype in dtypes.items():
        if number in fixed:
            continue
        operand = operands[number]
        if operand not in inputs:
            inputs.append(operand)
        replacements[number] = tree.Input(inputs.index(operand), dtype)
    return tree.substitute(expr, replacements)


def _both(producer: _Producer, consumer: ElementwiseStep) -> Origin:
    seen = dict.fromkeys((*producer.origin.statements, *consumer.origin.statements))
    return Origin(consumer.origin.block, tuple(seen))
