"""Loops of a long function as functions of their own, which are short enough to be reviewed.

A loop is moved where it uses nothing of the function but parameters and counters, and does not return.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.synth.c_host.lines import INDENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MOST_LINES = 198
"""Lines of the body of a function, which has 200 with its head and its end."""

_FEWEST_LINES = 12
"""Lines of a loop that is worth a function."""

_SCRATCH = "scratch"
"""The parameter with the memory that a function works in, which parts do not have."""

_LEAVING = frozenset({"return", "POLL"})
"""Words of statements that leave the function: a step that is stopped returns where a loop polls."""

_WORD = re.compile(r"\b[A-Za-z_]\w*")
_LOOP = re.compile(r"\s*(?:\w+ )?for \(ptrdiff_t (\w+) = .*\{")
_DECLARED = re.compile(
    r"\s*(?!return )(?:const |static )*(?P<type>[A-Za-z_]\w*)(?P<names>[ *]+[A-Za-z_][^(=]*)(?:[=;]|$)"
)
_PLACE = re.compile(r"\s*const ptrdiff_t \w+ = ")


@dataclass(frozen=True, slots=True)
class Part:
    """A loop with a function of its own.

    Attributes:
        names: parameters and counters of the function around it that it uses, in the order of their declarations.
        lines: its body.
    """

    name: str
    names: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    """A loop that may be moved: its lines, and what is declared around it that it uses."""

    start: int
    end: int
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        return self.end - self.start


def in_parts(
    lines: Sequence[str], parameters: Sequence[str], name: Callable[[], str]
) -> tuple[tuple[str, ...], tuple[Part, ...]]:
    """Return the lines of a function with calls in place of loops, as few as make it short enough, and these.

    Args:
        parameters: names of the parameters of the function.
        name: returns a name for a part.
    """
    left, parts = list(lines), list[Part]()
    while len(left) > MOST_LINES:
        blocks = (block for block in _blocks(left, parameters) if _FEWEST_LINES <= block.size <= MOST_LINES)
        block = max(blocks, key=lambda block: block.size, default=None)
        if block is None:
            break
        body = left[block.start : block.end]
        indent = body[0][: len(body[0]) - len(body[0].lstrip())]
        parts.append(Part(name(), block.names, tuple(INDENT + line.removeprefix(indent) for line in body)))
        left[block.start : block.end] = [f"{indent}{parts[-1].name}({', '.join(block.names)});"]
    return tuple(left), tuple(parts)


def _blocks(lines: Sequence[str], parameters: Sequence[str]) -> Iterator[_Block]:
    """Yield the loops that may be moved."""
    scopes, begun = [dict.fromkeys(parameters, False), {_SCRATCH: False}], ""
    for number, line in enumerate(lines):
        loop = _LOOP.fullmatch(line)
        if loop is not None:
            block = _block(lines, number, _end(lines, number), scopes)
            if block is not None:
                yield block
        statement = f"{begun}{line}"
        declared = _DECLARED.match(statement)
        if declared is not None:
            is_place = _PLACE.match(statement) is not None
            scopes[-1].update(dict.fromkeys(_WORD.findall(declared["names"]), is_place))
        begun = "" if line.endswith((";", "{", "}")) else statement
        if line.lstrip().startswith("}"):
            scopes.pop()
        if line.endswith("{"):
            scopes.append({loop[1]: True} if loop is not None else {})


def _end(lines: Sequence[str], start: int) -> int:
    """Return the number of the line after the end of the loop that begins at a line."""
    depth = 0
    for number in range(start, len(lines)):
        depth += lines[number].endswith("{") - lines[number].lstrip().startswith("}")
        if depth == 0:
            return number + 1
    return len(lines)


def _block(lines: Sequence[str], start: int, end: int, scopes: Sequence[dict[str, bool]]) -> _Block | None:
    """Return a loop that may be moved; None: it uses more, or returns. A name in a scope: whether it is a place."""
    words = {word for line in lines[start:end] for word in _WORD.findall(line)}
    parameters, *inner = scopes
    used = [word for word in parameters if word in words]
    local = {word: is_place for scope in inner for word, is_place in scope.items() if word in words}
    if words & _LEAVING or not all(local.values()):
        return None
    return _Block(start, end, (*used, *local))
