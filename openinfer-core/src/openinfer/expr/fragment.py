"""Source text of an expression, as the renderers of C and GLSL return it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from openinfer.dtypes import DType
from openinfer.expr.tree import ExprError


@dataclass(frozen=True, slots=True)
class Fragment:
    """Statements that compute an expression, and what they need.

    Attributes:
        statements: declarations of constants, one a line, operands first.
        result: expression of the result.
        helpers: names of the functions called; the renderer's ``helper_source`` has their text.
        requires: GLSL extensions to enable, by name; empty for C.
    """

    statements: tuple[str, ...]
    result: str
    helpers: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Helper:
    """A function in source text, and the names of the functions that it calls."""

    source: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """Text of one value, and the names of the functions in it."""

    text: str
    helpers: tuple[str, ...] = ()


Writer: TypeAlias = Callable[[DType, Sequence[str]], Call]
"""Writes a function of operands of one type, given as texts that bind tighter than any operator."""


def call_of_helper(name: str) -> Writer:
    """Return the writer of a function of ours, of which each type has one."""

    def write(dtype: DType, x: Sequence[str]) -> Call:
        function = f"oi_{name}_{dtype}"
        return Call(f"{function}({', '.join(x)})", (function,))

    return write


def input_text(inputs: Mapping[int, str], index: int) -> str:
    """Return the text of an input.

    Raises:
        ExprError: there is none.
    """
    if index not in inputs:
        raise ExprError(f"the expression reads input {index}, for which no text was given")
    return inputs[index]


def in_dependency_order(names: tuple[str, ...], helpers: dict[str, Helper]) -> tuple[str, ...]:
    """Return the names and what they need, callees first, whatever the order given."""
    ordered: dict[str, None] = {}
    stack = [(name, False) for name in sorted(set(names), reverse=True)]
    while stack:
        name, ready = stack.pop()
        if ready:
            ordered.setdefault(name)
        elif name not in ordered:
            stack.append((name, True))
            stack += [(need, False) for need in reversed(helpers[name].needs)]
    return tuple(ordered)
