"""Integer expressions of loop bounds and table indices in C, exact in 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.codegen import integer_text
from openinfer.dtypes import U64
from openinfer.errors import SynthesisError
from openinfer.plan.steps import LoopIndex, Register
from openinfer_synth_c.elements import Bound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plan.steps import IndexExpr, ValueRef
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.names import Names

FUNCTIONS = {
    "+": "index_add",
    "-": "index_sub",
    "*": "index_mul",
    "/": "index_div",
    "%": "index_rem",
    "floor": "index_floor",
    "ceil": "index_ceil",
}
"""Functions of the generated source by operator."""


def declare_integers(code: Code, names: Names, integers: Mapping[str, IndexExpr], flag: str = "overflow") -> None:
    """Append an ``int64_t`` constant for each expression, by name.

    Where a value, or a step on the way to it, needs more than 64 bits, the generated block returns ``MODEL_INDEX``;
    ``flag`` is the name of the variable that notes it.

    Raises:
        SynthesisError: a number in an expression needs more than 64 bits.
    """
    functions: set[str] = set()
    lines = [
        f"const int64_t {name} = {_text(code, index, names, functions, flag)};" for name, index in integers.items()
    ]
    if not functions:
        code.line(*lines)
        return
    code.line(f"bool {flag} = false;", *lines, f"if ({flag}) {{ return MODEL_INDEX; }}")
    code.index_functions |= functions


def _text(code: Code, index: IndexExpr, names: Names, functions: set[str], flag: str) -> str:
    """Return an ``int64_t`` expression, and note the functions that it calls."""

    def called(left: str, operator: str, right: str) -> str:
        return _called(FUNCTIONS[operator], f"{left}, {right}", functions, flag)

    return integer_text(index, number_text, lambda meaning: _bound_text(code, meaning, names, functions, flag), called)


def number_text(value: int) -> str:
    """Return a number as an ``int64_t`` constant.

    Raises:
        SynthesisError: it needs more than 64 bits.
    """
    if value == -(2**63):
        return "INT64_MIN"
    if abs(value) >= 2**63:
        message = f"the number {value} in a loop bound or an index needs more than the 64 bits of C's int64_t"
        raise SynthesisError(message, code="unsupported")
    return str(value) if abs(value) < 2**31 else f"INT64_C({value})"


def _bound_text(
    code: Code, meaning: LoopIndex | ValueRef | Register, names: Names, functions: set[str], flag: str
) -> str:
    if isinstance(meaning, LoopIndex):
        return names.loops[meaning.loop]
    if isinstance(meaning, Register):
        return names.register(meaning.number)
    element = Bound(names.value(meaning.value), names.type_of(meaning), code).at("0")
    if names.type_of(meaning).dtype is not U64:
        return f"(int64_t){element}"
    return _called("index_from_u64", element, functions, flag)


def _called(function: str, arguments: str, functions: set[str], flag: str) -> str:
    functions.add(function)
    return f"{function}({arguments}, &{flag})"
