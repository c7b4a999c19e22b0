"""Integer expressions of loop bounds and table indices in C, exact in 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from openinfer.codegen import integer_text
from openinfer.errors import SynthesisError
from openinfer.plan.steps import ValueRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Index
    from openinfer.plan.steps import LoopIndex, Register
    from openinfer.synth.c_host.lines import Lines

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


class IntegerOperands(Protocol):
    """How the source spells what integer expressions are made of."""

    def place(self, meaning: LoopIndex | Register) -> str:
        """Return the index of a loop, or a register: an ``int64_t``."""
        ...

    def element(self, value: ValueRef) -> tuple[str, bool]:
        """Return the one element of a value, and whether it may be more than an ``int64_t`` holds: a ``uint64_t``."""
        ...


def declare_integers(
    code: Lines, operands: IntegerOperands, integers: Mapping[str, Index], flag: str = "overflow"
) -> None:
    """Append an ``int64_t`` constant for each expression, by name.

    Where a value, or a step on the way to it, needs more than 64 bits, the generated block returns ``MODEL_INDEX``;
    ``flag`` is the name of the variable that notes it.

    Raises:
        SynthesisError: a number in an expression needs more than 64 bits.
    """
    functions: set[str] = set()
    lines = [f"const int64_t {name} = {_text(index, operands, functions, flag)};" for name, index in integers.items()]
    if not functions:
        code.line(*lines)
        return
    code.line(f"bool {flag} = false;", *lines)
    code.refuse(flag)
    code.index_functions |= functions


def _text(index: Index, operands: IntegerOperands, functions: set[str], flag: str) -> str:
    """Return an ``int64_t`` expression, and note the functions that it calls."""

    def called(function: str, arguments: str) -> str:
        functions.add(function)
        return f"{function}({arguments}, &{flag})"

    def named(meaning: LoopIndex | ValueRef | Register) -> str:
        if not isinstance(meaning, ValueRef):
            return operands.place(meaning)
        element, is_unsigned = operands.element(meaning)
        return called("index_from_u64", element) if is_unsigned else f"(int64_t){element}"

    return integer_text(index, number_text, named, lambda left, op, right: called(FUNCTIONS[op], f"{left}, {right}"))


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
