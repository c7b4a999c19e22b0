"""Passes of plugins: rewritings of a plan's steps, at the stages that `openinfer.plugins.types.PASS_STAGES` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from openinfer.errors import SynthesisError
from openinfer.ir.types import TensorType
from openinfer.plan.accesses import called, touched, walk
from openinfer.plan.liveness import Liveness
from openinfer.plan.step_structure import procedures_misfit
from openinfer.plan.steps import ComputeStep, KernelStep, Procedure, ValueRef
from openinfer.plugins.crossing import crossing, fault
from openinfer.plugins.types import load_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from openinfer.plan.steps import Operand, Step
    from openinfer.plugins.environment import Environment


class Pass(Protocol):
    """A function that rewrites steps; the options of its description are further keyword arguments."""

    def __call__(self, procedures: tuple[Procedure, ...], types: tuple[TensorType, ...]) -> tuple[Procedure, ...]:
        """Return the procedures with steps left out, reordered or replaced; callees precede their callers.

        Args:
            types: of the plan's values, by number. A pass adds none.
        """
        ...


def with_passes(
    procedures: tuple[Procedure, ...],
    types: tuple[TensorType, ...],
    results: int,
    environment: Environment,
    stage: str = "plan",
    done: Callable[[str, tuple[Procedure, ...]], None] | None = None,
) -> tuple[Procedure, ...]:
    """Return procedures as the passes of plugins leave them, which run in order of their names.

    Args:
        results: mask of the values that are read when the program has ended.
        stage: the passes of which stage run.
        done: is called after each pass with its name and what it returned.

    Raises:
        PluginError: a pass raised something, or what it returned is not a program on these values.
    """
    for name in sorted(name for name, spec in environment.passes.items() if spec.stage == stage):
        owner = environment.owner("pass", name)
        spec = environment.passes[name]
        run: Pass = load_part(spec.run, spec.options, owner)
        with crossing(owner, f"pass {name}"):
            rewritten = run(procedures, types)
        unfit = procedures_misfit(rewritten) if owner.is_foreign else None
        if unfit is not None:
            raise fault(owner, f"pass {name} returned what is not a tuple of procedures: {unfit}")
        try:
            with crossing(owner, f"the values that pass {name} returned are wrong: reading them"):
                _check(procedures, rewritten, types, results)
        except SynthesisError as error:
            raise fault(owner, f"pass {name} {error}") from None
        procedures = rewritten
        if done is not None:
            done(name, procedures)
    return procedures


def _check(before: Sequence[Procedure], after: Sequence[Procedure], types: Sequence[TensorType], results: int) -> None:
    if not after or after[-1].name != before[-1].name:
        raise SynthesisError(f"returned procedures of which the last one is not {before[-1].name!r}")
    checked: set[str] = set()
    for procedure in after:
        for step in walk(procedure.steps):
            _check_step(step, checked, types)
        checked.add(procedure.name)
    unwritten = Liveness(after, results).at_start & ~Liveness(before, results).at_start
    if unwritten:
        raise SynthesisError(f"returned steps that read value {unwritten.bit_length() - 1} before it is written")


def _check_step(step: Step, checked: set[str], types: Sequence[TensorType]) -> None:
    missing = set(called(step)) - checked
    if missing:
        raise SynthesisError(f"returned a call of {missing.pop()!r}, which does not precede its caller")
    if touched([Procedure("", (step,))]) >> len(types):
        raise SynthesisError(f"returned a step on a value that is none of the {len(types)} of the plan")
    for operand, wanted in _typed(step):
        if operand is not None and types[operand] != wanted:
            raise SynthesisError(f"returned a step that takes {wanted} where value {operand} is {types[operand]}")


def _typed(step: Step) -> Iterator[tuple[int | None, TensorType]]:
    """Yield the values of a step that computes, None for other operands, with the types that it takes there."""
    if isinstance(step, ComputeStep) and not step.arguments:
        computation = step.computation
        tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
        for tensor, value in zip(tensors, (*map(_value, step.inputs), *step.outputs, *step.temporaries), strict=True):
            yield value, TensorType(tensor.dtype, tuple(extent.evaluate({}) for extent in tensor.shape))
    elif isinstance(step, KernelStep):
        pairs = zip((*step.call.inputs, *step.call.outputs), (*map(_value, step.inputs), *step.outputs), strict=True)
        yield from ((value, type_) for type_, value in pairs if type_ is not None)


def _value(operand: Operand | None) -> int | None:
    return operand.value if isinstance(operand, ValueRef) else None
