"""Single steps as C functions, for a device that runs a program node by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import helper_source, item_type
from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plan.steps import Origin
from openinfer.plan.values import InputMemory, OutputMemory, PlanInput, PlanOutput, PlanValue, Role
from openinfer.synth.c_host.integer_functions import integer_functions
from openinfer_synth_c.code import Code
from openinfer_synth_c.names import Names
from openinfer_synth_c.polls import definition, with_polls
from openinfer_synth_c.rolled_loops import DEFINITION, uses_rolled
from openinfer_synth_c.statements import StatementWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.plan.steps import Step

NOWHERE = Origin("entry", ())
"""Origin of a step that is bound for itself."""

_INCLUDES = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stddef", "stdint", "string"))

_STATUS = "enum model_status { MODEL_OK = 0, MODEL_INPUT = 1, MODEL_INDEX = 2, MODEL_WEIGHTS = 3 };\n"


@dataclass(frozen=True, slots=True)
class StepFunction:
    """The body of a function and what it calls; equal steps on equal types compare equal.

    ``definitions`` are types and functions of vectors; ``keeps_memory``: it has static memory, so that one thread at a
    time may be in it; ``work`` is an estimate of what it does.
    """

    lines: tuple[str, ...]
    helpers: tuple[str, ...]
    index_functions: frozenset[str]
    keeps_memory: bool
    work: int
    definitions: tuple[tuple[str, str], ...] = ()


def step_function(
    step: Step, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, has_vector_types: bool = False
) -> StepFunction:
    """Return a step on memory of the caller: values are numbered inputs first, then outputs.

    Args:
        has_vector_types: whether the compiler has vectors of the types of GCC and Clang.

    Raises:
        SynthesisError: the step cannot be written out in C.
    """
    plan = _plan(inputs, outputs)
    code, names = Code(depth=1, has_vector_types=has_vector_types), Names(plan, weights_apart=False)
    _structure(code, "inputs", [f"const {item_type(t.dtype)} *{n};" for t, n in zip(inputs, names.inputs, strict=True)])
    _structure(code, "outputs", [f"{item_type(t.dtype)} *{n};" for t, n in zip(outputs, names.outputs, strict=True)])
    StatementWriter(code, names, plan).steps((step,))
    code.line("return MODEL_OK;")
    lines, work = with_polls(code.lines, {}, {})
    return StepFunction(
        lines=tuple(lines),
        helpers=tuple(code.helpers),
        index_functions=frozenset(code.index_functions),
        definitions=tuple(code.definitions.items()),
        keeps_memory=code.keeps_memory,
        work=work,
    )


def _structure(code: Code, name: str, fields: Sequence[str]) -> None:
    """Append the pointers of the caller as a structure like those of whole programs."""
    places = ", ".join(f"{name}_given[{number}]" for number in range(len(fields))) or "0"
    code.line(f"const struct {{ {' '.join(fields) or 'char unused;'} }} {name}_here = {{{places}}},")
    code.line(f"    *const {name} = &{name}_here;", f"(void){name};", f"(void){name}_given;")


def library_source(functions: Sequence[StepFunction]) -> str:
    """Return the source of functions ``step_0``, ``step_1`` and so on."""
    helpers = dict.fromkeys(name for function in functions for name in function.helpers)
    index_functions = {name for function in functions for name in function.index_functions}
    definitions = dict(definition for function in functions for definition in function.definitions)
    return "\n".join(
        [
            f"{_INCLUDES}\n{_STATUS}",
            definition("*stop"),
            *([DEFINITION] if definitions or any(uses_rolled(function.lines) for function in functions) else []),
            *integer_functions(index_functions),
            helper_source(helpers),
            *definitions.values(),
            *(_definition(number, function.lines) for number, function in enumerate(functions)),
        ]
    )


def _definition(number: int, lines: Iterable[str]) -> str:
    head = f"int step_{number}(const void *const *inputs_given, void *const *outputs_given, const volatile int *stop)"
    return "\n".join((f"{head};", f"{head} {{", "    (void)stop;", *lines, "}", ""))


def _plan(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> ExecutionPlan:
    """Return a plan without steps, whose values are those of a function."""
    values = [
        PlanValue(number=n, name=f"x{n}", type=type_, role=Role.INPUT, memory=InputMemory(n))
        for n, type_ in enumerate(inputs)
    ]
    values += [
        PlanValue(number=len(inputs) + n, name=f"y{n}", type=type_, role=Role.OUTPUT, memory=OutputMemory(n))
        for n, type_ in enumerate(outputs)
    ]
    return ExecutionPlan(
        target="c",
        inputs=tuple(
            PlanInput(name=f"x{n}", type=type_, value=n, default=None, needed=True) for n, type_ in enumerate(inputs)
        ),
        outputs=tuple(PlanOutput(name=f"y{n}", type=type_, value=len(inputs) + n) for n, type_ in enumerate(outputs)),
        values=tuple(values),
        weights=(),
        tables=(),
        procedures=(),
        arena_nbytes=0,
    )
