"""Functions on vectors for formulas that one loop over lanes stores many times, as behind the sums of a convolution."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from zlib import crc32

from openinfer.dtypes import BOOL
from openinfer.expr.c_renderer import render
from openinfer.expr.linear import linearise
from openinfer.expr.text import program_text
from openinfer.loops import Memory, Store
from openinfer_synth_c.loop_programs.lanes import has_vector_type
from openinfer_synth_c.loop_programs.vector_types import PARAMETERS, define_by_lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.expr.linear import Program
    from openinfer.loops import Statement
    from openinfer_synth_c.code import Code


def repeated_formulas(body: Sequence[Statement], count: int) -> frozenset[Program]:
    """Return the formulas of more than one function that several stores of a loop over ``count`` lanes have."""
    stores = (statement for statement in body if isinstance(statement, Store))
    stored = Counter(linearise(s.value.expr) for s in stores if s.buffer.memory is not Memory.PRIVATE)
    return frozenset(program for program, uses in stored.items() if uses > 1 and _is_formula(program, count))


def formula(code: Code, program: Program, count: int) -> str:
    """Return the name of a function on vectors with the value of a program: its parameters are the inputs in order."""
    inputs = {number: f"{PARAMETERS[place]}_lanes[l]" for place, number in enumerate(program.inputs)}
    types = {step.index: step.dtype for step in program.instructions if step.function == "input"}
    result = program.instructions[-1].dtype
    of = "_".join(dict.fromkeys(step.function for step in program.instructions if step.operands))
    # Formulas of the same functions differ in constants and order.
    names = (f"v{number}" for number in range(len(program.instructions)))
    lines, text = program_text(program, {number: f"x{number}" for number in types}, lambda: next(names))
    name = f"oi_{of}_{crc32(' '.join((*lines, text, *map(str, types.values()))).encode()):08x}_{result}x{count}"
    fragment = render(program, inputs, "v")
    code.helpers.update(dict.fromkeys(fragment.helpers))
    operands = [types[number] for number in program.inputs]
    define_by_lane(code, name, operands, result, count, fragment.result, fragment.statements)
    return name


def _is_formula(program: Program, count: int) -> bool:
    functions = [step for step in program.instructions if step.operands]
    is_small = len(functions) > 1 and 1 <= len(program.inputs) <= len(PARAMETERS)
    outside = [step for step in program.instructions if step.function == "input" or step is program.instructions[-1]]
    return (
        is_small
        and all(has_vector_type(step.dtype, count) for step in outside)
        and all(step.dtype is BOOL or has_vector_type(step.dtype, count) for step in functions)
    )
