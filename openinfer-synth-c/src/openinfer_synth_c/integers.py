"""Integer expressions of loop bounds and table indices in C; they saturate instead of overflowing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import U64
from openinfer.plan.indices import constant
from openinfer.plan.steps import LoopIndex
from openinfer.symbolic import BinOp, Const, Name

if TYPE_CHECKING:
    from openinfer.plan.steps import IndexExpr, ValueRef
    from openinfer.symbolic import IntExpr
    from openinfer_synth_c.names import Names

FUNCTIONS = {"+": "index_add", "-": "index_sub", "*": "index_mul"}
"""Functions of the generated source, in its template."""


def integer_text(index: IndexExpr, names: Names) -> str:
    """Return an ``int64_t`` expression."""
    known = constant(index)
    if known is not None:
        return number_text(known)
    bound = {name: _bound_text(meaning, names) for name, meaning in index.names}
    done: list[str] = []
    stack: list[IntExpr | str] = [index.expr]
    while stack:
        item = stack.pop()
        if isinstance(item, Const):
            done.append(number_text(item.value))
        elif isinstance(item, Name):
            done.append(bound[item.name])
        elif isinstance(item, BinOp):
            stack += [item.op, item.right, item.left]
        else:
            right, left = done.pop(), done.pop()
            done.append(f"{FUNCTIONS[item]}({left}, {right})")
    return done[0]


def number_text(value: int) -> str:
    """Return a number as an ``int64_t`` constant, held to its range."""
    held = min(max(value, -(2**63) + 1), 2**63 - 1)
    return str(held) if abs(held) < 2**31 else f"INT64_C({held})"


def _bound_text(meaning: int | LoopIndex | ValueRef, names: Names) -> str:
    if isinstance(meaning, int):
        return number_text(meaning)
    if isinstance(meaning, LoopIndex):
        return names.loops[meaning.loop]
    element = f"{names.value(meaning.value)}[0]"
    return f"index_from_u64({element})" if names.type_of(meaning).dtype is U64 else f"(int64_t){element}"
