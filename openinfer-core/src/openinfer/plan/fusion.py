"""Fusion: a step takes over the step that computes one of its inputs, so that this input is never stored.

Expressions are composed as they are: each part keeps the cast that rounds it to its own element type, so a fused step
gives the same bits as its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.compute.elementwise import expression_of
from openinfer.compute.follow import followed
from openinfer.compute.inline import inlined
from openinfer.compute.stage import expressions_of
from openinfer.compute.substitution import renamed
from openinfer.diagnostics import counted
from openinfer.dims import Stride
from openinfer.dtypes import I8, U8
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ops.derived import expression_computation
from openinfer.plan.accesses import operand_reads
from openinfer.plan.failing import refuses_elements
from openinfer.plan.in_place import overwritten
from openinfer.plan.operands import symbols
from openinfer.plan.passing import Entry, Passing
from openinfer.plan.report import kind_of
from openinfer.plan.steps import (
    Arrangement,
    ComputeStep,
    CopyStep,
    Epilogue,
    KernelStep,
    LoopIndex,
    LoopStep,
    Origin,
    Procedure,
    Register,
    ValueRef,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.compute import Computation
    from openinfer.expr.tree import Expr
    from openinfer.ir.types import TensorType
    from openinfer.plan.accesses import Accesses
    from openinfer.plan.liveness import Liveness
    from openinfer.plan.steps import Argument, Operand, Step

LARGEST_EXPRESSION = 64
"""Most instructions of a fused expression; longer ones gain nothing and run compilers out of registers."""

BYTE = 8
"""Bits of the codes of quantised layers."""

_RESULT = LoopIndex(-1)
"""The element that a kernel has computed, which is not an operand of the plan."""

_Producer = KernelStep | ComputeStep


@dataclass(frozen=True, slots=True)
class Fusion:
    """What fusion has to know of the program around a list of steps.

    Attributes:
        epilogues: whether the target's kernels carry out epilogues.
        kept: values that live on between steps, as bits.
        sizes: registers that keep their values during a step: sizes that the caller gives, and their broadcasts.
        most_ops: most operators of one step; None: any number.
        keeps_codes: whether bytes that a fold computes are stored as bytes, where a step alone would store them wider.
        known: computations that were joined before, with their parts, by the identities of these and their operands.
    """

    types: Sequence[TensorType]
    liveness: Liveness
    accesses: Accesses
    epilogues: bool
    kept: int = 0
    most_ops: int | None = None
    sizes: frozenset[int] = frozenset()
    keeps_codes: bool = False
    known: dict[tuple[object, ...], tuple[Computation, Computation, Computation | None]] = field(
        default_factory=dict["tuple[object, ...]", "tuple[Computation, Computation, Computation | None]"]
    )


def fuse(procedures: Sequence[Procedure], around: Fusion) -> tuple[Procedure, ...]:
    """Return the procedures with steps fused into those that read their results."""
    return tuple(Procedure(p.name, _fuse_list(p.steps, around)) for p in procedures)


def _fuse_list(steps: Sequence[Step], around: Fusion) -> tuple[Step, ...]:
    entries: list[Entry] = []
    for step in steps:
        after = around.liveness.after(step)
        inner = replace(step, body=_fuse_list(step.body, around)) if isinstance(step, LoopStep) else step
        entries.append(Entry.of(inner, after, around.accesses))
    left = Passing(entries, around.kept)
    for position in range(len(entries)):
        _fuse_forward(left, position, around)
    return left.steps()


def _fuse_forward(left: Passing, position: int, around: Fusion) -> None:
    """Fuse the step at ``position`` into the step that reads its result, if that can be done."""
    producer = _as_computation(left[position].step, around)
    if not isinstance(producer, _Producer) or len(producer.outputs) != 1:
        return
    at = left.reader(position)
    fused = at if isinstance(at, str) else _fused(producer, left[at].step, left[at].after, around)
    if not isinstance(fused, str) and isinstance(at, int):
        left.join(position, at, Entry.of(fused, left[at].after, around.accesses))
    elif isinstance(fused, str) and isinstance(left[position].step, _Producer):
        left.exchange(position, replace(producer, stored=fused))


def _as_computation(step: Step, around: Fusion) -> Step:
    """Return a copy of a value of the same type as a computation, which the reader of the copy can take over."""
    if not isinstance(step, CopyStep) or not isinstance(step.source, ValueRef) or step.count is not None:
        return step
    type_ = around.types[step.output]
    if around.types[step.source.value] != type_:
        return step
    computation = expression_computation("copy", tree.Input(0, type_.dtype), [type_], type_)
    return ComputeStep(
        origin=step.origin, op="copy", computation=computation, inputs=(step.source,), outputs=(step.output,)
    )


def _fused(producer: _Producer, consumer: Step, after: int, around: Fusion) -> _Producer | str:
    """Return the step that does the work of both, or why there is none."""
    if not isinstance(consumer, ComputeStep):
        return "" if isinstance(consumer, CopyStep) else f"read by {kind_of(consumer)}"
    if (_is_varying(producer) or _is_varying(consumer)) and not _have_sizes_of_steps(producer, consumer, around):
        return f"its sizes, or those of {consumer.op}, are known at run time only"
    if not _are_placed_together(producer, consumer):
        return f"kept apart from {consumer.op} by hints or scopes"
    if around.most_ops is not None and operators(producer) + operators(consumer) > around.most_ops:
        return f"the device has steps of at most {counted(around.most_ops, 'operator')}"
    (result,) = producer.outputs
    if result not in consumer.outputs and after >> result & 1:
        return f"needed after {consumer.op}"
    if any(operand_reads(o) >> result & 1 for o in consumer.inputs if o != ValueRef(result)):
        return f"an index of {consumer.op}"
    if around.keeps_codes and _widens(producer, consumer, around):
        return f"{consumer.op} would store it wider"
    if isinstance(producer, ComputeStep):
        return _joined(producer, consumer, result, around)
    return _with_epilogue(producer, consumer, result, around)


def _widens(producer: _Producer, consumer: ComputeStep, around: Fusion) -> bool:
    """Whether a step stores the bytes that a fold computes as wider elements, which the reader of these can do."""
    if not isinstance(producer, ComputeStep) or all(stage.fold is None for stage in producer.computation.stages):
        return False
    (result,), outputs = producer.outputs, consumer.outputs
    is_byte = around.types[result].dtype in (I8, U8)
    return is_byte and any(around.types[output].dtype.bits > BYTE for output in outputs)


def operators(step: _Producer) -> int:
    """Return how many operators of the program a step carries out."""
    return kind_of(step).count("+") + 1


def may_join(producer: _Producer, consumer: ComputeStep) -> bool:
    """Whether hints and scopes leave it open that two steps become one, whose sizes are known."""
    return not (_is_varying(producer) or _is_varying(consumer)) and _are_placed_together(producer, consumer)


def _are_placed_together(producer: _Producer, consumer: ComputeStep) -> bool:
    first, second = producer.placement, consumer.placement
    return first.fuse and second.fuse and first.scope == second.scope and first.group == second.group


def _is_varying(step: _Producer) -> bool:
    return isinstance(step, ComputeStep) and bool(step.computation.parameters)


def _have_sizes_of_steps(producer: _Producer, consumer: ComputeStep, around: Fusion) -> bool:
    """Whether the parameters of two steps go together, and are sizes that the caller gives or their broadcasts."""
    arguments = _arguments(producer, consumer) if isinstance(producer, ComputeStep) else None
    read = (symbol for argument in (arguments or {}).values() for symbol in symbols(argument.value))
    bounds = (symbol.operand for symbol in read)
    is_of_sizes = all(isinstance(bound, Register) and bound.number in around.sizes for bound in bounds)
    return arguments is not None and is_of_sizes


def _arguments(producer: ComputeStep, consumer: ComputeStep) -> dict[Var, Argument] | None:
    """Return the parameters of two steps as those of one, with their values.

    None: they are not the same, and none is the stride of a dim that broadcasts, which only its statement may need.
    """
    first, second = (
        list(zip(step.computation.parameters, step.arguments, strict=True)) for step in (producer, consumer)
    )
    both = dict((*first, *second))
    if first != second and not any(isinstance(var, Stride) for var in both):
        return None
    agree = all(both[var] == argument for var, argument in first)
    return both if agree and len({var.name for var in both}) == len(both) else None


def _joined(producer: ComputeStep, consumer: ComputeStep, result: int, around: Fusion) -> ComputeStep | str:
    """Return a fused computation: the producer's expression is evaluated where the consumer reads it, or vice versa."""
    inputs: list[Operand] = []
    made = _numbered(producer.inputs, inputs)
    read = _numbered(consumer.inputs, inputs, ValueRef(result))
    key = (id(producer.computation), id(consumer.computation), made, read)
    if key not in around.known:
        computation = _composed(producer.computation, made, consumer.computation, read)
        around.known[key] = (producer.computation, consumer.computation, computation)
    *_, computation = around.known[key]
    if computation is None:
        return f"not worth evaluating inside of {consumer.op}"
    arguments = _arguments(producer, consumer) or {}
    if computation.parameters != tuple(arguments):
        computation = replace(computation, parameters=tuple(arguments))
    joined = replace(
        consumer,
        origin=_both(producer, consumer),
        placement=producer.placement if producer.placement.no_reorder else consumer.placement,
        op=f"{producer.op}+{consumer.op}",
        computation=computation,
        inputs=tuple(inputs),
        temporaries=(*producer.temporaries, *consumer.temporaries),
        arguments=tuple(arguments.values()),
    )
    return joined if _is_safe(joined) else f"{consumer.op} would overwrite what it reads"


def one_after_the_other(producer: ComputeStep, consumer: ComputeStep) -> ComputeStep | None:
    """Return one step that carries out both, whose temporary is the one result of the producer.

    None: its result would overwrite what it reads.
    """
    (result,) = producer.outputs
    inputs: list[Operand] = []
    made = _numbered(producer.inputs, inputs)
    read = _numbered(consumer.inputs, inputs, ValueRef(result))
    first = renamed(producer.computation, {**_names(producer.computation, made), _output(producer): "result"})
    second = renamed(consumer.computation, _names(consumer.computation, read))
    tensors = {tensor.name: tensor for tensor in (*first.inputs, *second.inputs)}
    computation = replace(
        second,
        name=f"{first.name}_{second.name}",
        inputs=tuple(tensors[f"x{number}"] for number in range(len(inputs))),
        stages=(*first.stages, *second.stages),
        temporaries=(first.tensor("result"), *first.temporaries, *second.temporaries),
    )
    joined = replace(
        consumer,
        origin=_both(producer, consumer),
        op=f"{producer.op}+{consumer.op}",
        computation=computation,
        inputs=tuple(inputs),
        temporaries=(result, *producer.temporaries, *consumer.temporaries),
    )
    return joined if _is_safe(joined) else None


def apart(step: ComputeStep, name: str) -> ComputeStep:
    """Return a step whose temporaries have names of their own, to be carried out stage by stage."""
    names = {tensor.name: f"{name}{number}" for number, tensor in enumerate(step.computation.temporaries)}
    return replace(step, computation=renamed(step.computation, names), arrangement=Arrangement())


def _output(step: ComputeStep) -> str:
    return step.computation.outputs[0].name


def _numbered(operands: Sequence[Operand], inputs: list[Operand], result: Operand | None = None) -> tuple[int, ...]:
    """Return the place of each operand in ``inputs``, which grows as needed; -1 for ``result``."""
    for operand in operands:
        if operand != result and operand not in inputs:
            inputs.append(operand)
    return tuple(-1 if operand == result else inputs.index(operand) for operand in operands)


def _composed(
    producer: Computation, made: Sequence[int], consumer: Computation, read: Sequence[int]
) -> Computation | None:
    """Return one computation for two, whose inputs have numbers; -1: the result of the producer."""
    first = renamed(producer, {**_names(producer, made), producer.outputs[0].name: "result"})
    second = renamed(consumer, _names(consumer, read))
    computation = None if producer.parameters else inlined(first, second, "result")
    computation = computation or followed(first, second, "result")
    return None if computation is None or _longest(computation) > LARGEST_EXPRESSION else computation


def _names(computation: Computation, numbers: Sequence[int]) -> dict[str, str]:
    pairs = zip(computation.inputs, numbers, strict=True)
    return {tensor.name: "result" if number < 0 else f"x{number}" for tensor, number in pairs}


def _is_safe(step: ComputeStep) -> bool:
    """Whether a step overwrites only those of its inputs that it may."""
    read = 0
    for operand in step.inputs:
        read |= operand_reads(operand)
    return all(not read >> value & 1 or overwritten(step, value) >> value & 1 for value in step.outputs)


def _longest(computation: Computation) -> int:
    return max(len(linearise(expr).instructions) for stage in computation.stages for expr in expressions_of(stage))


def _with_epilogue(producer: KernelStep, consumer: ComputeStep, result: int, around: Fusion) -> KernelStep | str:
    """Return the producer with the consumer's expression after its own epilogue."""
    (output,), expression = consumer.outputs[:1], expression_of(consumer.computation)
    if not (around.epilogues and producer.kernel.epilogue):
        return "the kernel takes no epilogue"
    if expression is None or around.types[result].shape != around.types[output].shape:
        return f"{consumer.op} reads it at other places"
    if any(operand is not None and operand_reads(operand) >> output & 1 for operand in producer.inputs):
        return f"{consumer.op} overwrites an input of the kernel"
    inputs: list[Operand] = [_RESULT]
    before: Expr = tree.Input(0, around.types[result].dtype)
    if producer.epilogue is not None:
        own = (_RESULT, *producer.epilogue.inputs)
        before = _renumbered(producer.epilogue.expr, own, inputs, {})
    fixed = {number: before for number, operand in enumerate(consumer.inputs) if operand == ValueRef(result)}
    expr = _renumbered(expression, consumer.inputs, inputs, fixed)
    if len(linearise(expr).instructions) > LARGEST_EXPRESSION:
        return f"more than {LARGEST_EXPRESSION} instructions with {consumer.op}"
    epilogue = Epilogue(expr, tuple(inputs[1:]))
    return replace(producer, origin=_both(producer, consumer), outputs=(output,), epilogue=epilogue)


def _renumbered(expr: Expr, operands: Sequence[Operand], inputs: list[Operand], fixed: dict[int, Expr]) -> Expr:
    """Return ``expr`` over the joint list ``inputs``, which grows as needed; ``fixed`` inputs become trees."""
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


def _both(producer: _Producer, consumer: ComputeStep) -> Origin:
    seen = tuple(dict.fromkeys((*producer.origin.statements, *consumer.origin.statements)))
    failing = consumer if refuses_elements(consumer) and not refuses_elements(producer) else producer
    fault = failing.origin.fault
    return Origin(consumer.origin.block, seen, 0 if fault is None else seen.index(fault))
