"""Pieces of a long function as functions of their own, which are short enough to be reviewed.

A piece is a loop, or statements next to each other. It uses nothing of the function but parameters, counters of loops
and constant indices, and declares nothing that is used after it.
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

_FEWEST_LINES = 12
"""Lines of a piece that is worth a function."""

_SCRATCH = "scratch"
"""The parameter with the memory that a function works in, which parts do not have."""

_LEAVING = frozenset({"return", "POLL"})
"""Words of statements that leave the function: a step that is stopped returns where a loop polls."""

_OUTSIDE = frozenset({"case", "default", "goto"})
_OF_LOOP = frozenset({"break", "continue"})
"""Words of statements that mean a place, or a loop, of the function around them, where a plugin prints any."""

_WORD = re.compile(r"(?<!->)(?<!\.)\b[A-Za-z_]\w*")
_LOOP = re.compile(r"\s*(?:\w+ )?for \((?P<type>\w+)(?P<names> [^;]*);.*\{")
_DECLARED = re.compile(
    r"\s*(?!return )(?:const |static )*(?P<type>[A-Za-z_]\w*)(?P<names>[ *]+[A-Za-z_][^(=]*(?:[=;].*|$))"
)
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_COMMENT = re.compile(r"\s*/\*(?!@).*?\*/")
_ANNOTATION = re.compile(r"\s*/\*@.*?\*/")
_MACRO = re.compile(r"\s*[A-Z][A-Z_]*")
"""A statement without a semicolon, such as POLL."""

_KEPT = re.compile(r"\s*(?:[A-Z_]+\(\w+\);|\(void\)\w+;)")
"""Statements about the function or the loop around them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece with a function of its own.

    Attributes:
        names: parameters, counters and constant indices of the function around it that it has as parameters, in the
            order of their declarations.
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
        counters: names that the head of any loop declares, likewise.
        declared: names, with whether each is a constant index, which parts may have as a parameter.
    """

    start: int
    head: int
    end: int
    blocks: tuple[tuple[int, int], ...]
    is_loop: bool
    counters: Mapping[str, bool]
    words: frozenset[str]
    declared: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class _Level:
    """The statements of a block, and the names that are declared around it in the function."""

    statements: Sequence[_Statement]
    visible: Mapping[str, bool]


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
    """Return the lines of a function with calls in place of as few pieces as make it short enough, and the parts.

    The longest loop that is short enough comes first. Where no loop may be moved, statements are, so many that the
    longer of the two functions is as short as it can be.

    Args:
        parameters: names of the parameters of the function.
        name: returns a name for a part.
        of_block: whether the function is a block of the program. Its parts have all of its parameters, which macros
            use, and may return a status; parts of other functions have no statement that leaves the function.
    """
    left, parts = list(lines), list[Part]()
    # The function of a block names each of its parameters, and returns success.
    most = MOST_LINES - len(parameters) - 1 if of_block else MOST_LINES
    while len(left) > most:
        calls = frozenset(part.name for part in parts)
        piece = _Function(left, most, calls, of_block).next_piece()
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


@dataclass(frozen=True, slots=True)
class _Function:
    """A function that is too long.

    Attributes:
        most: lines that a piece may have.
        calls: names of the parts that it calls already.
        of_block: as for `in_parts`.
    """

    lines: Sequence[str]
    most: int
    calls: frozenset[str]
    of_block: bool

    def next_piece(self) -> _Piece | None:
        """Return the piece to move next; None: no piece may be moved."""
        visible: dict[str, bool] = {} if self.of_block else {_SCRATCH: False}
        levels = list(self._levels(0, len(self.lines), visible))
        loops = [loop for level in levels for loop in self._loops(level) if _FEWEST_LINES <= loop.size <= self.most]
        if loops:
            return max(loops, key=lambda loop: loop.size)
        count, best = len(self.lines), None
        for level in levels:
            for piece in self._stretches(level):
                if count > 2 * self.most and piece.size > self.most - _FEWEST_LINES:
                    return piece  # Others leave a function that is cut again, too.
                if best is None or max(piece.size, count - piece.size) < max(best.size, count - best.size):
                    best = piece
        return best

    def _levels(self, start: int, end: int, visible: Mapping[str, bool]) -> Iterator[_Level]:
        """Yield the statements between two lines, and those of the blocks among them."""
        statements, declared = list(self._statements(start, end)), dict(visible)
        yield _Level(statements, visible)
        for statement in statements:
            for first, last in statement.blocks:
                yield from self._levels(first, last, declared | dict(statement.counters))
            declared |= statement.declared

    def _loops(self, level: _Level) -> Iterator[_Piece]:
        declared = dict(level.visible)
        for statement in level.statements:
            if statement.is_loop and self._is_movable(statement, declared) and not self._succeeds(statement):
                yield _Piece(statement.head, statement.end, dict(declared), is_loop=True)
            declared |= statement.declared

    def _is_movable(self, statement: _Statement, visible: Mapping[str, bool]) -> bool:
        words = statement.words
        if words & _OUTSIDE or (words & _OF_LOOP and not statement.is_loop) or (words & _LEAVING and not self.of_block):
            return False
        return all(visible[word] for word in words & visible.keys())

    def _succeeds(self, statement: _Statement) -> bool:
        """Return whether a statement may end the function in success, after which a part would be followed by more."""
        return any("return MODEL_OK;" in text for text in self.lines[statement.head : statement.end])

    def _is_kept(self, statement: _Statement) -> bool:
        """Return whether a statement is about what is around it: lines of the preprocessor and labels are, too.

        So are calls of parts, of which others would make a chain.
        """
        texts = self.lines[statement.head : statement.end]
        if any(_ANNOTATION.match(text) for text in texts[:1]) or _KEPT.fullmatch("".join(texts)):
            return True
        return bool(statement.words & self.calls) or any(
            text.lstrip().startswith("#") or text.endswith(":") for text in texts
        )

    def _stretches(self, level: _Level) -> Iterator[_Piece]:
        """Yield statements next to each other that are short enough, and share no variable with those around them."""
        statements = level.statements
        kept = [not self._is_movable(s, level.visible) or self._succeeds(s) or self._is_kept(s) for s in statements]
        last_use = {word: number for number, statement in enumerate(statements) for word in statement.words}
        declared_at: dict[str, int] = {}
        needs, reaches = list[int](), list[int]()
        for number, statement in enumerate(statements):
            declared_at |= {name: number for name, is_index in statement.declared.items() if not is_index}
            needs.append(min((declared_at[word] for word in statement.words if word in declared_at), default=number))
            reaches.append(max((last_use[name] for name in statement.declared if name in last_use), default=number))
        declared = dict(level.visible)
        for first, statement in enumerate(statements):
            around, reach = dict(declared), first
            for last in range(first, len(statements)):
                end = statements[last].end
                if kept[last] or needs[last] < first or end - statement.start > self.most:
                    break
                reach = max(reach, reaches[last])
                if reach == last and end - statement.start >= _FEWEST_LINES:
                    yield _Piece(statement.start, end, around, is_loop=False)
            declared |= statement.declared

    def _statements(self, start: int, end: int) -> Iterator[_Statement]:
        """Yield the statements of a block, which are between two lines."""
        lines, at = self.lines, start
        while at < end:
            first = at
            while at < end and _COMMENT.fullmatch(lines[at]):
                at += 1
            head, depth, begun, blocks = at, 0, at, list[tuple[int, int]]()
            while at < end:
                line = _COMMENT.sub("", lines[at])
                if line.lstrip().startswith("}"):
                    depth -= 1
                    if depth == 0:
                        blocks.append((begun, at))
                if line.endswith("{"):
                    begun = at + 1 if depth == 0 else begun
                    depth += 1
                at += 1
                goes_on = at < end and lines[at].lstrip().startswith("else")
                if depth == 0 and (line.endswith((";", "}")) or _MACRO.fullmatch(line)) and not goes_on:
                    break
            yield self._statement(first, head, at, blocks)

    def _statement(self, start: int, head: int, end: int, blocks: Sequence[tuple[int, int]]) -> _Statement:
        texts = [_COMMENT.sub("", _ANNOTATION.sub("", line)).strip() for line in self.lines[head:end]]
        loop = _LOOP.fullmatch(texts[0]) if texts else None
        types = {"ptrdiff_t", "int64_t"} if self.of_block else {"ptrdiff_t"}
        if loop is not None:
            # All names but the counter, such as that of the end, stay where they are.
            counter, *others = _declarators(loop["names"])
            is_counter = loop["type"] in types
            counters = {counter: is_counter, **dict.fromkeys(others, False)}
            return _Statement(start, head, end, tuple(blocks), is_counter, counters, _words(texts), {})
        is_constant = bool(texts) and texts[0].startswith("const ")
        declaration = _DECLARED.match(" ".join(texts))
        if declaration is None or (blocks and "=" not in texts[0]):
            return _Statement(start, head, end, tuple(blocks), False, {}, _words(texts), {})
        is_index = is_constant and declaration["type"] in types and "*" not in declaration["names"].split("=")[0]
        declared = dict.fromkeys(_declarators(declaration["names"]), is_index)
        # The lines in braces are those of a table.
        return _Statement(start, head, end, (), False, {}, _words(texts), declared)


def _declarators(text: str) -> list[str]:
    """Return the names that a declaration has after its type."""
    text = text.split(";")[0]
    while text != (text := _BRACKETS.sub("", text)):
        pass
    return [_WORD.findall(declarator.split("=")[0])[-1] for declarator in text.split(",")]


def _words(lines: Sequence[str]) -> frozenset[str]:
    return frozenset(word for line in lines for word in _WORD.findall(_COMMENT.sub("", line)))
