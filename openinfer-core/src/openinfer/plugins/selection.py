"""What carries out an operator on a device or synth target: a kernel, its expression, or its decomposition.

Chosen once, when an executor or plan is built. A hand-written kernel takes precedence over the definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.compute.constants import without_constants
from openinfer.compute.stage import expressions_of
from openinfer.dtypes import BOOL, BUILTIN
from openinfer.expr.linear import linearise
from openinfer.expr.tree import Literal
from openinfer.loops.substitution import values_of
from openinfer.ops.applying import decomposition, fold_expression, refused_expression, scalar_expression
from openinfer.ops.calls import Decomposition
from openinfer.ops.computations import computation_of, refusing_computation, row_copied, stages_of
from openinfer.ops.loop_programs import loop_program_of
from openinfer.ops.schema import Composite, Compute, Elementwise, Fold, Loops, OpSchema, Reduction
from openinfer.plugins.crossing import UNKNOWN, blame, fault, wrong
from openinfer.plugins.types import DeviceSpec, SynthTargetSpec, load_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from openinfer.compute import Computation
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall
    from openinfer.plugins.crossing import Owner
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.types import Fallback, KernelSpec


DEEPEST_DECOMPOSITION = 32
"""Deepest nesting of operators that are defined by others; a circular definition passes it."""

MOST_PARTS = 10_000
"""Calls that an operator may consist of: nested definitions can grow exponentially."""


@dataclass(frozen=True, slots=True)
class HandWritten:
    """A kernel of the target's backend or of a plugin."""

    kernel: KernelSpec


@dataclass(frozen=True, slots=True)
class DerivedExpression:
    """The expression of one element, from stored inputs to stored output."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class DerivedFold:
    """A reduction of its input over ``axes``."""

    axes: tuple[int, ...]
    fold: Fold


@dataclass(frozen=True, slots=True)
class Decomposed:
    """Calls of other operators."""

    decomposition: Decomposition


@dataclass(frozen=True, slots=True)
class Computed:
    """The stages of the operator, for the inputs that are given."""

    computation: Computation


@dataclass(frozen=True, slots=True)
class Looped:
    """The loop program of the operator, for the inputs that are given."""

    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Missing:
    """Nothing fits.

    Attributes:
        call: what nothing carries out: the call that was requested, or a part of its decomposition.
        reason: why, one line.
        inside: element types, by name, that only occur within the expression of the operator, and that the target does
            not compute in.
        code: kind of the finding: ``"unsupported"`` where the decomposition has no end or too many parts.
    """

    call: OpCall
    reason: str
    inside: frozenset[str] = frozenset()
    code: str = "kernel-missing"

    def is_taken_by(self, fallback: Fallback) -> bool:
        """Whether the call may run on the device that a fallback names, as far as its types go."""
        return fallback.takes(self.call, self.inside)


Implementation: TypeAlias = HandWritten | DerivedExpression | DerivedFold | Decomposed | Computed | Looped | Missing


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Kernels of one device or synth target, and the element types that its derived kernels take.

    Attributes:
        expression_dtypes: what they may read, compute in and write.
        optional_dtypes: what they may also compute in, between inputs and outputs.
        computations: whether operators may be carried out by their stages.
        loop_programs: whether operators may be carried out by loop programs of their own.
        state: whether values may be kept between steps.
        is_device: whether it is of a device, else of a synth target.
        fitting_programs: whether it is of a device that runs node by node what it cannot run whole.
        has_function: whether derived kernels may use a function on operands of some types; None: every one.
    """

    target: str
    kernels: Mapping[str, Sequence[KernelSpec]]
    expression_dtypes: frozenset[str]
    optional_dtypes: frozenset[str] = frozenset()
    computations: bool = False
    loop_programs: bool = False
    state: bool = False
    is_device: bool = False
    fitting_programs: bool = False
    has_function: Callable[[str, Sequence[DType]], bool] | None = None


def kernel_table(environment: Environment, spec: DeviceSpec | SynthTargetSpec) -> KernelTable:
    """Return the kernels for a device or synth target (imports what its plugins need for that)."""
    every = frozenset(dtype.name for dtype in BUILTIN)
    taken = every if spec.expression_dtypes is None else spec.expression_dtypes
    optional = spec.optional_dtypes if isinstance(spec, DeviceSpec) else frozenset[str]()
    kernels = environment.kernels(spec.name)
    return KernelTable(
        spec.name,
        kernels,
        taken,
        optional,
        spec.computations,
        spec.loop_programs,
        state=spec.state,
        is_device=isinstance(spec, DeviceSpec),
        fitting_programs=isinstance(spec, DeviceSpec) and spec.fitting_programs,
        has_function=None if spec.functions is None else load_object(spec.functions, _owner(environment, spec)),
    )


def _owner(environment: Environment, spec: DeviceSpec | SynthTargetSpec) -> Owner:
    return environment.owner("device" if isinstance(spec, DeviceSpec) else "synth target", spec.name)


def select(environment: Environment, table: KernelTable, call: OpCall) -> Implementation:
    """Return what carries out ``call`` on the target of ``table``."""
    fitting = [kernel for kernel in table.kernels.get(call.op, ()) if fits(kernel, call)]
    if fitting:
        return HandWritten(environment.kernel_choice(call, fitting, table.target))
    return _derived(environment, table, call)


@dataclass(frozen=True, slots=True)
class Choice:
    """A call and what carries it out; ``parts`` are the choices for the calls that a decomposition consists of."""

    call: OpCall
    chosen: Implementation
    parts: tuple[Choice, ...] = ()

    def missing(self) -> Iterator[Missing]:
        """Yield what keeps the target from carrying out the call, in order of the parts."""
        if isinstance(self.chosen, Missing):
            yield self.chosen
        for part in self.parts:
            yield from part.missing()


def choose(call: OpCall, select_one: Callable[[OpCall], Implementation]) -> Choice:
    """Return what carries out a call and, where others do, what carries out each of those.

    ``select_one`` is `select` for a target. A decomposition that is nested too deeply or has too many parts is missing
    as a whole.
    """
    try:
        return _Choosing(select_one).choice(call, 0)
    except _OversizedError:
        limits = f"nested more than {DEEPEST_DECOMPOSITION} deep or with more than {MOST_PARTS:,} parts"
        reason = f"{call.op} is defined by other operators, {limits}: does its definition lead back to itself?"
        return Choice(call, Missing(call, reason, code="unsupported"))


class _OversizedError(Exception):
    """A decomposition passes a limit."""


class _Choosing:
    """One walk through a decomposition, with the calls met so far."""

    def __init__(self, select_one: Callable[[OpCall], Implementation]) -> None:
        self._select = select_one
        self._met = 0

    def choice(self, call: OpCall, depth: int) -> Choice:
        self._met += 1
        if depth > DEEPEST_DECOMPOSITION or self._met > MOST_PARTS:
            raise _OversizedError
        chosen = self._select(call)
        if not isinstance(chosen, Decomposed):
            return Choice(call, chosen)
        return Choice(call, chosen, tuple(self.choice(step.call, depth + 1) for step in chosen.decomposition.steps))


def missing_kernels(
    environment: Environment, table: KernelTable, call: OpCall, *, passed_over: tuple[type[Exception], ...] = ()
) -> Iterator[Missing]:
    """Yield the calls without a kernel on a target: ``call`` itself or parts of its decomposition.

    Parts for which `select` raises one of ``passed_over`` count as supported.
    """
    later = Missing(call, "it is selected when it runs")

    def select_one(part: OpCall) -> Implementation:
        try:
            return select(environment, table, part)
        except passed_over:
            return later

    return (missing for missing in choose(call, select_one).missing() if missing is not later)


def fits(kernel: KernelSpec, call: OpCall) -> bool:
    """Return whether a kernel takes the element types and shapes of a call.

    Raises:
        PluginError: the kernel's ``supports`` raised something, or returned something else than a bool.
    """
    if kernel.dtypes is not None and any(t is not None and t.dtype.name not in kernel.dtypes for t in call.inputs):
        return False
    if kernel.supports is None:
        return True
    owner, action = kernel.owner or UNKNOWN, f"`supports` of the kernel {kernel.title} of {call.op}"
    try:
        found: Any = kernel.supports(call)
    except BaseException as error:  # noqa: BLE001 - a plugin has no say over the process
        blame(owner, action, error, hook="openinfer_kernels")
    if not isinstance(found, bool):
        raise fault(owner, f"{action} {wrong(found, 'a bool')}", hook="openinfer_kernels")
    return found


def _derived(environment: Environment, table: KernelTable, call: OpCall) -> Implementation:
    schema = environment.op(call.op)
    if isinstance(schema.definition, Composite):
        return Decomposed(decomposition(schema, call, environment.op))
    # A loop program is written for numbers: sizes of run time take the stages.
    takes_loops = table.loop_programs and isinstance(schema.definition, Loops) and not call.has_sizes
    if table.computations and not takes_loops and stages_of(schema) is not None:
        return _computed(table, schema, call)
    foreign = _foreign_dtypes(table, call)
    if foreign and (set(foreign) - table.optional_dtypes or not _is_constant(schema, call)):
        return Missing(call, f"{table.target} has no {call.op} for {', '.join(foreign)}")
    return _from_definition(table, schema, call)


def _is_constant(schema: OpSchema, call: OpCall) -> bool:
    """Return whether every element of a result is one constant, whose bits are written and not computed in."""
    return isinstance(schema.definition, Elementwise) and isinstance(scalar_expression(schema, call), Literal)


def _from_definition(table: KernelTable, schema: OpSchema, call: OpCall) -> Implementation:
    if isinstance(schema.definition, Elementwise):
        refusal = schema.definition.refusal
        if refusal is not None and refused_expression(schema, call) is not None:
            if table.computations:
                computation = refusing_computation(schema, call)
                return _stages_uncomputed(table, call, computation) or Computed(computation)
            out = call.outputs[0].dtype
            message = f"{table.target} has no kernel for {schema.name} to {out}, and an expression reports no errors"
            return Missing(call, f"{message} ({refusal.rule})")
        expr = scalar_expression(schema, call)
        return _uncomputed(table, call, _steps_in(expr)) or DerivedExpression(expr)
    if isinstance(schema.definition, Reduction):
        axes, fold = fold_expression(schema, call)
        return _uncomputed(table, call, _steps_of_fold(fold)) or DerivedFold(axes, fold)
    if isinstance(schema.definition, Loops) and table.loop_programs:
        kernel = loop_program_of(schema, call)
        return _uncomputed(table, call, _steps_of_loops(kernel)) or Looped(kernel)
    if table.kernels.get(schema.name):
        given = ", ".join(str(t) for t in call.inputs if t is not None)
        return Missing(
            call, f"{table.target} has no {schema.name} for {given}: its kernels take other types or settings"
        )
    return Missing(call, f"{table.target} has no kernel for {schema.name}, which has no expression or decomposition")


_CHOOSING = frozenset({"select", "eq", "ne", "lt", "le", "gt", "ge", "is_nan", "minimum", "maximum"})
"""Functions that are exact for floats of any width."""


def _computed(table: KernelTable, schema: OpSchema, call: OpCall) -> Implementation:
    """Return the stages of a call, if the target has the types that they compute in.

    Operands may also be of optional types: of integers, which are exact everywhere, and of floats that are moved,
    compared and chosen only.
    """
    foreign = _foreign_dtypes(table, call)
    if set(foreign) - table.optional_dtypes:
        return Missing(call, f"{table.target} has no {call.op} for {', '.join(foreign)}")
    is_row = call.has_sizes and isinstance(schema.definition, Compute) and schema.definition.in_order
    computation = row_copied(call) if is_row else computation_of(schema, call)
    expressions = [expr for stage in computation.stages for expr in expressions_of(stage)]
    floats = {t.dtype.name for t in (*call.inputs, *call.outputs) if t is not None and t.dtype.is_float} & set(foreign)
    if any(_computes_in(expr, floats) for expr in expressions):
        return Missing(call, f"{table.target} has no {call.op} for {', '.join(foreign)}")
    return _stages_uncomputed(table, call, computation) or Computed(computation)


def _computes_in(expr: Expr, names: set[str]) -> bool:
    """Return whether an expression does more with elements of some types than comparing and choosing."""
    steps = linearise(expr).instructions
    computed = [step for step in steps if step.operands and step.function not in _CHOOSING]
    results = {step.dtype.name for step in computed}
    return not names.isdisjoint(results | {steps[place].dtype.name for step in computed for place in step.operands})


def _foreign_dtypes(table: KernelTable, call: OpCall) -> list[str]:
    names = {t.dtype.name for t in (*call.inputs, *call.outputs) if t is not None}
    return sorted(names - table.expression_dtypes)


@dataclass(frozen=True, slots=True)
class _Step:
    """A function of an expression, a constant or an input, and the types that it is about."""

    function: str
    result: DType
    operands: tuple[DType, ...] = ()


def _uncomputed(
    table: KernelTable, call: OpCall, steps: Iterable[_Step], while_running: Iterable[_Step] | None = None
) -> Missing | None:
    """Return why a derived kernel whose inputs and outputs are fine cannot be had, where that is so.

    ``while_running`` are the steps that depend on inputs, by default all.
    """
    steps = tuple(steps)
    given = ", ".join(str(t.dtype) for t in call.inputs if t is not None) or str(call.outputs[0].dtype)
    reason = f"{table.target} has no {call.op} for {given}: its expression"
    # Conditions do not occupy memory of a device, which has comparisons or cannot take expressions at all.
    foreign = {step.result.name for step in steps} - table.expression_dtypes - table.optional_dtypes - {BOOL.name}
    if foreign:
        return Missing(call, f"{reason} computes in {', '.join(sorted(foreign))}", frozenset(foreign))
    unknown = _unknown_functions(table, steps if while_running is None else while_running)
    if not unknown:
        return None
    names = sorted({f"{step.function} of {step.operands[-1]}" for step in unknown})
    inside = frozenset(dtype.name for step in unknown for dtype in step.operands)
    return Missing(call, f"{reason} uses {', '.join(names)}", inside)


def _unknown_functions(table: KernelTable, steps: Iterable[_Step]) -> list[_Step]:
    has_function = table.has_function
    if has_function is None:
        return []
    return [step for step in steps if step.operands and not has_function(step.function, step.operands)]


def _steps_in(expr: Expr) -> Iterator[_Step]:
    steps = linearise(expr).instructions
    return (_Step(s.function, s.dtype, tuple(steps[place].dtype for place in s.operands)) for s in steps)


def _steps_of_stages(computation: Computation) -> Iterator[_Step]:
    return (step for stage in computation.stages for expr in expressions_of(stage) for step in _steps_in(expr))


def _stages_uncomputed(table: KernelTable, call: OpCall, computation: Computation) -> Missing | None:
    """Do the same for stages. Those that read no input are computed before the program runs, with any function."""
    _, rest = without_constants(computation)
    return _uncomputed(table, call, _steps_of_stages(computation), _steps_of_stages(rest))


def _steps_of_loops(kernel: Kernel) -> Iterator[_Step]:
    return (step for value in values_of(kernel.body) for step in _steps_in(value.expr))


def _steps_of_fold(fold: Fold) -> Iterator[_Step]:
    for part in (fold.start, fold.element, fold.combine):
        yield from () if part is None else _steps_in(part)
    # The number of elements is a constant, whatever the type in which `finish` has it.
    for step, instruction in zip(_steps_in(fold.finish), linearise(fold.finish).instructions, strict=True):
        if (instruction.function, instruction.index) != ("input", 1):
            yield step
