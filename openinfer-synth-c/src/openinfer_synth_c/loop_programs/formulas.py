"""Functions on vectors for formulas that one loop over lanes stores many times, as after the sums of a convolution."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from zlib import crc32

from openinfer.dtypes import BOOL, F16, F32
from openinfer.expr.c_renderer import literal_text, render
from openinfer.expr.linear import linearise
from openinfer.expr.text import program_text
from openinfer.loops import Memory, Store
from openinfer_synth_c.loop_programs.lanes import has_vector_type
from openinfer_synth_c.loop_programs.vector_functions import (
    applied,
    converted_halves,
    is_narrow,
    rounded,
    select_of,
    shifted,
)
from openinfer_synth_c.loop_programs.vector_types import (
    PARAMETERS,
    apart,
    define,
    define_by_lane,
    lanes,
    splat,
    vector_type,
)
from openinfer_synth_c.loop_programs.vector_values import WHOLE, is_choice, roundings, widens_rounded, within_roundings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.expr.linear import Instruction, Program
    from openinfer.loops import Statement
    from openinfer_synth_c.code import Code

LONG = 4
"""Functions of a formula that registers have, from which on it is worth a name."""


def repeated_formulas(body: Sequence[Statement], count: int) -> frozenset[Program]:
    """Return the formulas of more than one function that several stores of a loop over ``count`` lanes have.

    Those of registers have at least `LONG` functions: shorter ones have forms of their own.
    """
    stores = [statement for statement in body if isinstance(statement, Store)]
    stored = Counter(linearise(s.value.expr) for s in stores if s.buffer.memory is not Memory.PRIVATE)
    in_registers = Counter(linearise(s.value.expr) for s in stores if s.buffer.memory is Memory.PRIVATE)
    stored += Counter({p: uses for p, uses in in_registers.items() if _functions(p) >= LONG})
    return frozenset(program for program, uses in stored.items() if uses > 1 and _is_formula(program, count))


def formula(code: Code, program: Program, count: int) -> str:
    """Return the name of a function on vectors that evaluates a program; its parameters are the inputs in order."""
    inputs = dict(zip(program.inputs, lanes(code, len(program.inputs)), strict=True))
    types = {step.index: step.dtype for step in program.instructions if step.function == "input"}
    result = program.instructions[-1].dtype
    of = "_".join(dict.fromkeys(step.function for step in program.instructions if step.operands))
    # Formulas of the same functions differ in constants and order.
    names = (f"v{number}" for number in range(len(program.instructions)))
    lines, text = program_text(program, {number: f"x{number}" for number in types}, lambda: next(names))
    name = f"oi_{of}_{crc32(' '.join((*lines, text, *map(str, types.values()))).encode()):08x}_{result}x{count}"
    operands = [types[number] for number in program.inputs]
    in_vectors = (code.has_helium and _has_vectors(program)) or (code.has_vector_types and _has_halves(program))
    if in_vectors or _has_narrow(program):
        _define_by_function(code, name, program, count)
        return name
    fragment = render(program, inputs, "v")
    code.helpers.update(dict.fromkeys(fragment.helpers))
    define_by_lane(code, name, operands, result, count, fragment.result, fragment.statements)
    return name


def _define_by_function(code: Code, name: str, program: Program, count: int) -> None:
    """Define a function on vectors by its functions, of which each treats all lanes before the next one does."""
    letters = dict(zip(program.inputs, PARAMETERS, strict=False))
    instructions, texts, lines, parameters = program.instructions, list[str](), list[str](), dict[str, str]()
    rounding, unused = roundings(instructions), within_roundings(instructions)
    for number, step in enumerate(instructions):
        kind = "" if step.dtype is BOOL else vector_type(code, step.dtype, count)
        if step.value is not None:
            texts.append(literal_text(step.dtype, step.value))
        elif step.function == "input":
            texts.append(letters[step.index])
            parameters[letters[step.index]] = kind
        elif is_choice(instructions, number):
            texts.append("")
        elif step.function == "select":
            lines.append(f"const {kind} v{number} = {_selected(code, step, instructions, count, texts)};")
            texts.append(f"v{number}")
        elif number not in unused and step.function == "trunc" and instructions[step.operands[0]].function in WHOLE:
            texts.append(texts[step.operands[0]])
        elif number in unused:
            texts.append("")
        elif number in rounding:
            lines.append(f"const {kind} v{number} = {rounded(code, step.dtype, count, texts[rounding[number]])};")
            texts.append(f"v{number}")
        elif code.has_vector_types and widens_rounded(step, instructions):
            function = converted_halves(code, F32, count, is_rounded=True)
            lines.append(f"const {kind} v{number} = {function}({texts[step.operands[0]]});")
            texts.append(f"v{number}")
        else:
            types = [instructions[operand].dtype for operand in step.operands]
            text = shifted(code, step, instructions, count, texts[step.operands[0]])
            if text is None:
                given = [_vector(code, instructions[operand], count, texts[operand]) for operand in step.operands]
                text = applied(code, step.function, types, step.dtype, count, given)
            lines.append(f"const {kind} v{number} = {text};")
            texts.append(f"v{number}")
    kind = vector_type(code, instructions[-1].dtype, count)
    head = ", ".join(f"{parameters[letter]} {letter}" for letter in letters.values())
    define(code, name, f"{apart(code)} {kind} {name}({head})", [*lines, f"return {texts[-1]};"])


def _vector(code: Code, step: Instruction, count: int, text: str) -> str:
    """Return the vector of the result of a step, which may be a constant."""
    return text if step.value is None else splat(code, step.dtype, count, text)


def _selected(
    code: Code, step: Instruction, instructions: Sequence[Instruction], count: int, texts: Sequence[str]
) -> str:
    """Return a choice by a comparison."""
    condition, *either = step.operands
    compared = instructions[condition].operands
    vectors = [_vector(code, instructions[operand], count, texts[operand]) for operand in (*compared, *either)]
    function, dtype = instructions[condition].function, instructions[compared[0]].dtype
    return select_of(code, function, dtype, step.dtype, count, vectors)


def _has_vectors(program: Program) -> bool:
    """Return whether all results of a program but those that vectors are chosen by have vector types."""
    instructions = program.instructions
    return all(step.dtype is not BOOL or is_choice(instructions, number) for number, step in enumerate(instructions))


def _has_narrow(program: Program) -> bool:
    return any(
        is_narrow(program.instructions[step.operands[0]].dtype, step.dtype)
        for step in program.instructions
        if step.operands
    )


def _has_halves(program: Program) -> bool:
    """Return whether a program has f16, for which processors have conversions of whole vectors."""
    return any(step.dtype is F16 for step in program.instructions)


def _functions(program: Program) -> int:
    return sum(1 for step in program.instructions if step.operands)


def _is_formula(program: Program, count: int) -> bool:
    functions = [step for step in program.instructions if step.operands]
    is_small = len(functions) > 1 and 1 <= len(program.inputs) <= len(PARAMETERS)
    outside = [step for step in program.instructions if step.function == "input" or step is program.instructions[-1]]
    return (
        is_small
        and not (
            (_has_narrow(program) or _has_halves(program)) and any(step.dtype is BOOL for step in program.instructions)
        )
        and all(has_vector_type(step.dtype, count) for step in outside)
        and all(step.dtype is BOOL or has_vector_type(step.dtype, count) for step in functions)
    )
