"""Expressions as GLSL 4.50 statements. Every float temporary is ``precise``: no contraction, no reassociation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32
from openinfer.expr.fragment import Fragment, in_dependency_order, input_text
from openinfer.expr.glsl_functions import call_text, helpers
from openinfer.expr.glsl_low_floats import unpacking_helpers
from openinfer.expr.glsl_types import glsl_type, literal_text, required_extensions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.dtypes import DType
    from openinfer.expr.linear import Program

__all__ = ["Fragment", "glsl_type", "helper_source", "literal_text", "render"]


_ARITHMETIC = frozenset({"add", "sub", "mul", "fma"})


def render(
    program: Program, inputs: Mapping[int, str], prefix: str = "t", widened: Mapping[int, str] | None = None
) -> Fragment:
    """Return GLSL statements that compute a program.

    ``inputs`` has, by input number, an expression of the input's element, of its `glsl_type` (an i8 as an ``int``, a
    bool as a ``bool``, a low float as its bits); each is written once. Temporaries are called ``prefix`` and a number.
    A program with f64 needs the device feature ``shaderFloat64``. ``widened`` has, by input number of a low float, an
    expression of it as f32 that may lose the sign of a NaN. It is written where f32 is only used by arithmetic,
    whose NaNs have no defined sign; an input that is then unused is not written.

    Raises:
        ExprError: generated GLSL does not hold a type of the program, or a function on it (of the functions of
            f64 beyond arithmetic, ``sqrt`` and rounding there are none), or an input has no expression.
    """
    texts: list[str] = []
    statements: list[str] = []
    needed: dict[str, None] = {}
    extensions: dict[str, None] = {}
    free = _free_of_signs(program, widened or {})
    unused = _used_only_by(program, free)
    for number, step in enumerate(program.instructions):
        extensions.update(dict.fromkeys(required_extensions(step.dtype)))
        if step.value is not None:
            literal = literal_text(step.dtype, step.value)
            texts.append(f"({literal})" if literal.startswith("-") else literal)
            continue
        if number in unused:
            texts.append("")
            continue
        if number in free:
            value = free[number]
        elif step.function == "input":
            value = input_text(inputs, step.index)
        else:
            operands = [program.instructions[operand].dtype for operand in step.operands]
            call = call_text(step.function, operands, step.dtype, [texts[operand] for operand in step.operands])
            needed.update(dict.fromkeys(call.helpers))
            value = call.text
        texts.append(f"{prefix}{number}")
        statements.append(f"{_declared(step.dtype)} {texts[-1]} = {value};")
    return Fragment(tuple(statements), texts[-1], tuple(needed), tuple(extensions))


def helper_source(names: Iterable[str], *, halves: bool = False) -> str:
    """Return the functions of these names and those that they call, callees first; empty for no names.

    ``halves``: for devices whose ``unpackHalf2x16`` keeps subnormals.
    """
    all_helpers = {**helpers(), **unpacking_helpers()} if halves else helpers()
    return "\n".join(all_helpers[name].source for name in in_dependency_order(tuple(names), all_helpers))


def _free_of_signs(program: Program, widened: Mapping[int, str]) -> dict[int, str]:
    """Return the texts of conversions to f32 that arithmetic alone uses, by their places."""
    steps = program.instructions
    shown = {operand for step in steps if step.function not in _ARITHMETIC for operand in step.operands} | {
        len(steps) - 1
    }
    unsigned: dict[int, str] = {}
    for number, step in enumerate(steps):
        if step.function == "cast" and step.dtype is F32 and number not in shown:
            source = steps[step.operands[0]]
            if source.function == "input" and source.index in widened:
                unsigned[number] = widened[source.index]
    return unsigned


def _used_only_by(program: Program, places: Mapping[int, str]) -> set[int]:
    """Return the operands of some instructions that no other uses."""
    steps = program.instructions
    others = {operand for number, step in enumerate(steps) if number not in places for operand in step.operands}
    return {operand for number in places for operand in steps[number].operands} - others


def _declared(dtype: DType) -> str:
    computed = dtype.is_float and not dtype.is_low_float
    return f"precise {glsl_type(dtype)}" if computed else glsl_type(dtype)
