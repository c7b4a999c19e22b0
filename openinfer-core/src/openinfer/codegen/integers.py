"""Integer expressions of a plan, such as bounds of loops and indices of tables, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.indices import constant
from openinfer.symbolic import BinOp, Const, Name

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.plan.steps import IndexExpr, LoopIndex, Register, ValueRef
    from openinfer.symbolic import IntExpr


def integer_text(
    index: IndexExpr,
    number: Callable[[int], str],
    named: Callable[[LoopIndex | ValueRef | Register], str],
    combined: Callable[[str, str, str], str],
) -> str:
    """Return an expression as text.

    Args:
        number: the text of a constant.
        named: the text of a loop's index, of the one element of a value, or of a register.
        combined: the text of an operation, from the texts of its left operand, the operator (``+``, ``-`` or ``*``) and
            its right operand.
    """
    known = constant(index)
    if known is not None:
        return number(known)
    bound = {name: number(meaning) if isinstance(meaning, int) else named(meaning) for name, meaning in index.names}
    done: list[str] = []
    stack: list[IntExpr | str] = [index.expr]
    while stack:
        item = stack.pop()
        if isinstance(item, Const):
            done.append(number(item.value))
        elif isinstance(item, Name):
            done.append(bound[item.name])
        elif isinstance(item, BinOp):
            stack += [item.op, item.right, item.left]
        else:
            right, left = done.pop(), done.pop()
            done.append(combined(left, item, right))
    return done[0]
