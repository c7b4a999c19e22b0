"""Source text of an expression, as the renderers of C and GLSL return it."""

from __future__ import annotations

from dataclasses import dataclass


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
