"""Pieces of a long function as functions of their own, which are short enough to be reviewed.

A piece is a loop, or statements next to each other. It uses nothing of the function but parameters, counters and
places, and declares nothing that is used after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.synth.c_host.lines import INDENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MOST_LINES = 198
"""Lines of the body of a function, which has 200 with its head and its end."""

_LINES_OF_BLOCK = 4
"""Further lines of the function of a block: those that name its parameters, and the return of success."""

_FEWEST_LINES = 12
"""Lines of a piece that is worth a function."""

_SCRATCH = "scratch"
"""The parameter with the memory that a function works in, which parts do not have."""

_LEAVING = frozenset({"return", "POLL"})
"""Words of statements that leave the function: a step that is stopped returns where a loop polls."""

_WORD = re.compile(r"(?<!->)(?<!\.)\b[A-Za-z_]\w*")
_LOOP = re.compile(r"\s*(?:\w+ )?for \((?:ptrdiff_t|int64_t) (\w+) = .*\{")
_DECLARED = re.compile(
    r"\s*(?!return )(?:const |static )*(?P<type>[A-Za-z_]\w*)(?P<names>[ *]+[A-Za-z_][^(=]*)(?:[=;]|$)"
)
_PLACE = re.compile(r"\s*const (?:ptrdiff_t|int64_t) \w+ = ")
_COMMENT = re.compile(r"\s*/\*(?!@).*?\*/")
_ANNOTATION = re.compile(r"\s*/\*@.*?\*/")
_KEPT = re.compile(r"\s*(?:[A-Z_]+\(\w+\);|\(void\)\w+;)")
"""Statements about the function or the loop around them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece with a function of its own.

    Attributes:
        names: parameters, counters and places of the function around it that it has as parameters, in the order of
            their declarations.
        lines: its body.
        is_loop: compilers treat a loop best for itself; other statements are to be as quick as in their place.
        has_status: whether it returns a status, with which the function around it ends if it is not `MODEL_OK`.
    """

    name: str
    names: tuple[str, ...]
    lines: tuple[str, ...]
    is_loop: bool
    has_status: bool


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement of several lines, and the comments before it.

    Attributes:
        head: number of its own first line.
        blocks: the lines in its braces.
        counter: of a loop.
        declared: names, with whether each is a place, which parts may have as a parameter.
    """

    start: int
    head: int
    end: int
    blocks: tuple[tuple[int, int], ...]
    counter: str | None
    words: frozenset[str]
    declared: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Lines that may be moved; ``visible`` are the names that are declared around them in the function."""

    start: int
    end: int
    visible: Mapping[str, bool]
    is_loop: bool

    @property
    def size(self) -> int:
        return self.end - self.start


def in_parts(
    lines: Sequence[str], parameters: Sequence[str], name: Callable[[], str], *, of_block: bool = False
) -> tuple[tuple[str, ...], tuple[Part, ...]]:
    """Return the lines of a function with calls in place of pieces, as few as make it short enough, and these.

    The longest loop that is short enough comes first. Where no loop may be moved, statements are, so many that the
    longer of the two functions is as short as it can be.

    Args:
        parameters: names of the parameters of the function.
        name: returns a name for a part.
        of_block: whether the function is a block of the program. Its parts have all of its parameters, which macros
            use, and may return a status; parts of other functions have no statement that leaves the function.
    """
    left, parts = list(lines), list[Part]()
    most = MOST_LINES - _LINES_OF_BLOCK if of_block else MOST_LINES
    while len(left) > most:
        piece = _next_piece(left, most, of_block=of_block)
        if piece is None:
            break
        body = left[piece.start : piece.end]
        words = _words(body)
        names = [word for word in parameters if of_block or word in words]
        names += [word for word in piece.visible if word in words]
        indent = body[0][: len(body[0]) - len(body[0].lstrip())]
        moved = tuple(INDENT + line.removeprefix(indent) for line in body)
        parts.append(Part(name(), tuple(names), moved, piece.is_loop, has_status=bool(words & _LEAVING)))
        left[piece.start : piece.end] = [indent + line for line in _call(parts[-1])]
    return tuple(left), tuple(parts)


def _call(part: Part) -> tuple[str, ...]:
    """Return the statement that calls a part. Analysers know what a part has written where it returns success only."""
    call = f"{part.name}({', '.join(part.names)});"
    if not part.has_status:
        return (call,)
    lines = (
        f"const int32_t status = {call}",
        "/*@ split status == 0; */",
        "if (status != MODEL_OK) { return status; }",
        "/*@ merge status == 0; */",
    )
    return ("{", *(INDENT + line for line in lines), "}")


def _next_piece(lines: Sequence[str], most: int, *, of_block: bool) -> _Piece | None:
    """Return the piece of at most so many lines to move next; None: no piece may be moved."""
    leaving = frozenset[str]() if of_block else _LEAVING
    visible: dict[str, bool] = {} if of_block else {_SCRATCH: False}
    loops, others = list[_Piece](), list[_Piece]()
    for piece in _pieces(lines, 0, len(lines), visible, leaving):
        if _FEWEST_LINES <= piece.size <= most:
            (loops if piece.is_loop else others).append(piece)
    if loops:
        return max(loops, key=lambda loop: loop.size)
    return min(others, key=lambda piece: max(piece.size, len(lines) - piece.size), default=None)


def _pieces(
    lines: Sequence[str], start: int, end: int, visible: Mapping[str, bool], leaving: frozenset[str]
) -> Iterator[_Piece]:
    """Yield the pieces among the lines of a block that may be moved. ``visible`` is declared around the block."""
    statements, declared = list(_statements(lines, start, end)), dict(visible)
    for statement in statements:
        is_loop = statement.counter is not None
        if is_loop and _is_movable(statement, declared, leaving):
            yield _Piece(statement.head, statement.end, dict(declared), is_loop=True)
        inner = declared | ({statement.counter: True} if statement.counter is not None else {})
        for first, last in statement.blocks:
            yield from _pieces(lines, first, last, inner, leaving)
        declared |= statement.declared
    kept = [not _is_movable(s, visible, leaving) or _is_kept(lines, s) for s in statements]
    yield from _stretches(statements, kept, visible)


def _is_movable(statement: _Statement, visible: Mapping[str, bool], leaving: frozenset[str]) -> bool:
    used = statement.words & visible.keys()
    return not statement.words & leaving and all(visible[word] for word in used)


def _is_kept(lines: Sequence[str], statement: _Statement) -> bool:
    """Return whether a statement is about what is around it, or ends the function in success."""
    texts = lines[statement.head : statement.end]
    is_about_others = any(_ANNOTATION.match(text) for text in texts[:1]) or bool(_KEPT.fullmatch("".join(texts)))
    return is_about_others or any("return MODEL_OK;" in text for text in texts)


def _stretches(statements: Sequence[_Statement], kept: Sequence[bool], visible: Mapping[str, bool]) -> Iterator[_Piece]:
    """Yield the statements next to each other that are short enough, and share no variable with those around them."""
    last_use = {word: number for number, statement in enumerate(statements) for word in statement.words}
    declared_at: dict[str, int] = {}
    needs, reaches = list[int](), list[int]()
    for number, statement in enumerate(statements):
        declared_at |= {name: number for name, is_place in statement.declared.items() if not is_place}
        needs.append(min((declared_at[word] for word in statement.words if word in declared_at), default=number))
        reaches.append(max((last_use[name] for name in statement.declared if name in last_use), default=number))
    declared = dict(visible)
    for first, statement in enumerate(statements):
        around, reach = dict(declared), first
        for last in range(first, len(statements)):
            end = statements[last].end
            if kept[last] or needs[last] < first or end - statement.start > MOST_LINES:
                break
            reach = max(reach, reaches[last])
            if reach == last:
                yield _Piece(statement.start, end, around, is_loop=False)
        declared |= statement.declared


def _statements(lines: Sequence[str], start: int, end: int) -> Iterator[_Statement]:
    """Yield the statements of a block, which are between two lines."""
    at = start
    while at < end:
        first = at
        while at < end and _COMMENT.fullmatch(lines[at]):
            at += 1
        head, depth, begun, blocks = at, 0, at, list[tuple[int, int]]()
        while at < end:
            line = lines[at]
            if line.lstrip().startswith("}"):
                depth -= 1
                if depth == 0:
                    blocks.append((begun, at))
            if line.endswith("{"):
                begun = at + 1 if depth == 0 else begun
                depth += 1
            at += 1
            goes_on = at < end and lines[at].lstrip().startswith("else")
            if depth == 0 and line.endswith((";", "}")) and not goes_on:
                break
        loop = _LOOP.fullmatch(lines[head]) if head < end else None
        declared = {} if blocks else _declared(" ".join(line.strip() for line in lines[head:at]))
        counter = None if loop is None else loop[1]
        yield _Statement(first, head, at, tuple(blocks), counter, _words(lines[head:at]), declared)


def _declared(annotated: str) -> dict[str, bool]:
    text = _ANNOTATION.sub("", annotated)
    declared = _DECLARED.match(text)
    if declared is None:
        return {}
    return dict.fromkeys(_WORD.findall(declared["names"]), _PLACE.match(text) is not None)


def _words(lines: Sequence[str]) -> frozenset[str]:
    return frozenset(word for line in lines for word in _WORD.findall(_COMMENT.sub("", line)))
