"""Whether the applications in an expression are of functions that exist, on operands that these take."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.expr.tree import ExprError, Input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.expr.linear import Instruction, Program
    from openinfer.expr.tree import Expr

_NOT_FUNCTIONS = frozenset(("cast", "literal", "substitute"))


@cache
def functions() -> Mapping[str, Callable[..., Expr]]:
    """Return the functions of `openinfer.expr.tree` that build an application, by name."""
    return {
        name: function
        for name, function in vars(tree).items()
        if inspect.isfunction(function) and not name.startswith("_") and name not in _NOT_FUNCTIONS
    }


def verify(expr: Expr) -> None:
    """Check the applications in an expression.

    Raises:
        ExprError: the function is unknown, or takes other operands, or yields another type.
    """
    program = linearise(expr)
    for instruction in program.instructions:
        if instruction.function not in ("input", "literal", "size"):
            _check(instruction, program)


def _check(instruction: Instruction, program: Program) -> None:
    name, count = instruction.function, len(instruction.operands)
    build = functions().get(name)
    if build is None and name != "cast":
        raise ExprError(f"there is no function {name!r}")
    expected = 1 if build is None else len(inspect.signature(build).parameters)
    if count != expected:
        raise ExprError(f"{name} takes {expected} operands, found {count}")
    if build is None:
        return
    made = build(*(Input(operand, program.instructions[operand].dtype) for operand in instruction.operands))
    if made.dtype is not instruction.dtype:
        raise ExprError(f"{name} yields {made.dtype}, not {instruction.dtype}")
