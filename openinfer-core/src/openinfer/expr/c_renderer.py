"""Expressions as C99 statements, for translation units that include ``<math.h>``, ``<stdbool.h>``, ``<stddef.h>``,
``<stdint.h>``.

Compile with ``-ffp-contract=off``: a fused multiply-add would round once where the expression rounds twice.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from openinfer.expr.c_functions import WIDENING, call_text, helpers, widened_as
from openinfer.expr.c_packed import load_text, store_text
from openinfer.expr.c_types import c_type, item_type, literal_text, literal_texts, operand_text
from openinfer.expr.elementary import ELEMENTARY, formula
from openinfer.expr.fragment import Fragment, Helper, in_dependency_order, input_text
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.expr.linear import Program

__all__ = [
    "Fragment",
    "c_type",
    "helper_source",
    "item_type",
    "literal_text",
    "literal_texts",
    "load_text",
    "render",
    "store_text",
]


def render(program: Program, inputs: Mapping[int, str], prefix: str = "t") -> Fragment:
    """Return C statements that compute a program.

    ``inputs`` has, by input number, the expression of the input's element, of its `c_type`; each is written once.
    Temporaries are called ``prefix`` and a number.

    Raises:
        ExprError: generated C does not hold a type of the program, or an input has no expression.
    """
    texts: list[str] = []
    statements: list[str] = []
    needed: dict[str, None] = {}
    for number, step in enumerate(program.instructions):
        if step.value is not None:
            texts.append(operand_text(literal_text(step.dtype, step.value)))
            continue
        if step.function == "input":
            value = input_text(inputs, step.index)
        else:
            operands = [program.instructions[operand].dtype for operand in step.operands]
            call = call_text(step.function, operands, step.dtype, [texts[operand] for operand in step.operands])
            needed.update(dict.fromkeys(call.helpers))
            value = call.text
        texts.append(f"{prefix}{number}")
        statements.append(f"const {c_type(step.dtype)} {texts[-1]} = {value};")
    return Fragment(tuple(statements), texts[-1], tuple(needed))


def helper_source(names: Iterable[str]) -> str:
    """Return the static functions of these names and those that they call, callees first; empty for no names.

    All functions of a translation unit are to be named at once: how f32 is widened depends on whether f64 is rounded.
    """
    functions = _known()
    ordered = in_dependency_order(tuple(names), functions)
    functions = {**functions, WIDENING: widened_as(ordered)}
    return "\n".join(functions[name].source for name in ordered)


@functools.cache
def _known() -> dict[str, Helper]:
    """Return every function that expressions call, by name."""
    return {**helpers(), **{f"oi_{name}_f32": _elementary(name) for name in sorted(ELEMENTARY)}}


def _elementary(name: str) -> Helper:
    """Return the function of a formula."""
    fragment = render(linearise(formula(name)), {0: "x"})
    body = "".join(f"    {line}\n" for line in (*fragment.statements, f"return {fragment.result};"))
    return Helper(f"static inline float oi_{name}_f32(float x)\n{{\n{body}}}\n", fragment.helpers)
