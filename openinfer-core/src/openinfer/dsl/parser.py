"""Phase P: text to syntax tree, a declaration or statement at a time, going on at the next one after an error."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Related, Severity
from openinfer.dsl.grammar import CACHE_VERBS, SPACE, STATEMENTS, Mismatch, Tree, match
from openinfer.dsl.mismatch import Finding, explain, syntax_error, unknown_section, unknown_statement, unsupported_cache
from openinfer.dsl.pieces import NOWHERE, Cut
from openinfer.dsl.placeholders import head_of_block, head_of_statement
from openinfer.dsl.positions import Positions
from openinfer.dsl.recovery import next_section, next_statement
from openinfer.dsl.syntax import BlockSyntax, LoopStatement, Place, Program, ScopeStatement, Statement
from openinfer.dsl.tokens import scan
from openinfer.dsl.tree_declarations import declaration_of, old_spellings
from openinfer.dsl.tree_statements import block_header, statement_of
from openinfer.dsl.tree_values import LiteralError
from openinfer.ir.graph import MemoryKind
from openinfer.ir.language import MAX_NESTING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.diagnostics import Source
    from openinfer.dsl.syntax import Declaration, Setting, Word

MAX_FINDINGS = 100
"""Parsing stops after this many errors."""

_NEXT_WORD = re.compile(rf"({SPACE})([A-Za-z_][A-Za-z0-9_]*|)")
_VERB = re.compile(r"cache[ \t\r\n\f\v]*\.[ \t\r\n\f\v]*([A-Za-z_][A-Za-z0-9_]*)")
_MEMORY = {**{kind.value: kind for kind in MemoryKind}, "constants": MemoryKind.CONSTANT}
_SECTIONS = ("block", *_MEMORY)
_SECTION = re.compile(r"(?:block\s+[A-Za-z_]\w*\s*(?:\{|with\b)|(?:dynamic|volatile|constants?|persistent)\s*\{)")
"""What starts a section, and no declaration of a variable that is called so."""


@dataclass(slots=True)
class _Frame:
    """An open block, loop or scope."""

    head: Statement | tuple[Word, tuple[Setting, ...], Place]
    start: int
    statements: list[Statement] = field(default_factory=list[Statement])


class _StopParsing(Exception):  # noqa: N818 - control flow, no error of its own
    """There is no point in going on."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What could be read of a text, with every syntax error; ``expected`` is what was expected at the first."""

    program: Program
    cut: Cut
    errors: tuple[Diagnostic, ...]
    expected: tuple[str, ...]


def parse_program(source: Source) -> Parsed:
    """Parse a program.

    Raises:
        DslSyntaxError: with every syntax error found.
    """
    parsed = recover_program(source)
    if parsed.errors:
        raise syntax_error(source, parsed.errors, parsed.expected)
    return parsed


def recover_program(source: Source) -> Parsed:
    """Parse what can be read of a program."""
    parser = _Parser(source)
    program = parser.run()
    errors = tuple(diagnostic for diagnostic, _ in parser.findings)
    return Parsed(program, parser.cut, errors, parser.findings[0][1] if parser.findings else ())


class _Parser:
    """One pass over one text. ``findings`` pairs each error with what was expected there."""

    def __init__(self, source: Source) -> None:
        self.findings: list[tuple[Diagnostic, tuple[str, ...]]] = []
        self.cut = Cut(scan(source.text), [])
        self._source = source
        self._positions = Positions(source)
        self._text, self._flaws = self.cut.scan.text, self.cut.scan.flaws
        self._flaw_starts = [flaw.start for flaw in self._flaws]
        self._offset = 0
        self._around = NOWHERE
        self._frames: list[_Frame] = []
        self._declarations: list[Declaration] = []
        self._blocks: list[BlockSyntax] = []
        self._warnings: list[Diagnostic] = []

    def run(self) -> Program:
        try:
            for _ in self._sections():
                pass
        except _StopParsing:
            self._lose("", self._offset, self._offset)
            while self._frames:
                self._close()
            if self._text[self._offset :].strip():
                self._lose("section", self._offset, len(self._text))
        self.cut.marks.append(("end", len(self._text), False, self._around))
        self._add_flaws([Finding(f.code, f.message, Place(f.start, f.end), f.hint) for f in self._flaws])
        declarations, blocks = tuple(self._declarations), tuple(self._blocks)
        gaps = self.cut.gaps() if self.findings else ()
        return Program(self._source, declarations, blocks, tuple(self._warnings), gaps)

    def _add_flaws(self, flaws: list[Finding]) -> None:
        """Join the scanner's findings, the first of each line, with the parser's on other lines."""
        first: dict[int, Finding] = {}
        for flaw in flaws:
            first.setdefault(self._positions.line(flaw.place.start), flaw)
        kept = [f for f in self.findings if f[0].span is None or f[0].span.line not in first]
        found = [(self._diagnostic(flaw), ()) for flaw in first.values()] + kept
        self.findings = sorted(found, key=lambda f: f[0].span.start if f[0].span is not None else 0)

    def _flawed(self, start: int, end: int) -> bool:
        """Return whether a piece of the text contains illegal characters, apart from the space after it."""
        if not self._flaws:
            return False
        end = start + len(self._text[start:end].rstrip())
        found = bisect_left(self._flaw_starts, start)
        return found < len(self._flaw_starts) and self._flaw_starts[found] < end

    def _keep(self, rule: str, tree: Tree) -> None:
        """Add a piece, whose last token is a ``;`` or ``{``."""
        self.cut.marks.append((rule, tree.children[-1].start + 1, False, self._around))

    def _lose(self, rule: str, start: int, end: int) -> None:
        """Add a gap: from ``start`` to ``end`` there is one that cannot be read, or is missing."""
        written = start + len(self._text[start:end].rstrip())
        is_ended = written > start and self._text[written - 1] in ";{}"
        self.cut.marks.append((rule, written if is_ended else end if end > start else 0, True, self._around))

    def _sections(self) -> Iterator[None]:
        while (word := self._next_word()) is not None:
            yield
            if word in _MEMORY:
                self._memory(_MEMORY[word])
            elif word == "block":
                self._block()
            else:
                start = self._offset
                self._report(unknown_section(self._text, start, word), start)
                self._offset = next_section(self._text, start)
                self._lose("section", start, self._offset)

    # Memory sections

    def _memory(self, kind: MemoryKind) -> None:
        opened = self._offset
        tree = self._match("memory_header")
        if tree is None:
            self._offset = next_section(self._text, self._offset)
            self._lose("section", opened, self._offset)
            return
        self._keep("memory_header", tree)
        self._around = (kind.value, "")
        while self._next_inside("memory section", opened) != "}":
            start = self._offset
            if _SECTION.match(self._text, start) is not None:
                self._report_open("memory section", opened)
                self._around = NOWHERE
                return
            tree = self._match("declaration", start)
            if tree is None or not self._keep_declaration(tree, kind):
                self._lose("declaration", start, self._offset)
        self._end_piece()
        self._around = NOWHERE

    def _keep_declaration(self, tree: Tree, kind: MemoryKind) -> bool:
        try:
            declaration = declaration_of(tree, kind)
        except LiteralError as error:
            self._report(Finding(error.code, str(error), error.place), tree.start)
            return False
        if self._flawed(tree.start, tree.end):
            return False
        self._declarations.append(declaration)
        self._keep("declaration", tree)
        for message, place, hint in old_spellings(tree):
            self._warnings.append(self._diagnostic(Finding("old-spelling", message, place, hint), Severity.WARNING))
        return True

    # Blocks

    def _block(self) -> None:
        start = self._offset
        tree = self._match("block_header")
        if tree is None and not self._at_body(start):
            self._offset = next_section(self._text, self._offset)
            self._lose("section", start, self._offset)
            return
        head = self._head(tree, start)
        end = self._offset if tree is None else tree.children[-1].start + 1
        self.cut.marks.append(("block_header", end, False, NOWHERE))
        self._frames, self._around = [_Frame(head, start)], ("block", head[0].text)
        while self._frames:
            word = self._next_inside(self._innermost(), self._frames[-1].start)
            if word == "}":
                self._end_piece()
                self._close()
            elif self._is_next_section(word):
                self._end_block()
            else:
                self._statement(word)
        self._around = NOWHERE

    def _innermost(self) -> str:
        return "block" if len(self._frames) == 1 else "loop or scope"

    def _head(self, tree: Tree | None, start: int) -> tuple[Word, tuple[Setting, ...], Place]:
        """Return the head of a block, or what can be read of it."""
        try:
            if tree is not None:
                return block_header(tree)
        except LiteralError as error:
            self._report(Finding(error.code, str(error), error.place), start)
        head = head_of_block(self._text, start)
        if not head[0].text:
            self._lose("section", start, start)
        return head

    def _close(self) -> None:
        frame = self._frames.pop()
        statements = tuple(frame.statements)
        if isinstance(frame.head, tuple):
            name, hints, place = frame.head
            self._blocks.append(BlockSyntax(name, hints, statements, place))
        elif isinstance(frame.head.body, LoopStatement | ScopeStatement) and len(self._frames) <= MAX_NESTING:
            whole = replace(frame.head, body=replace(frame.head.body, body=statements))
            self._frames[-1].statements.append(whole)

    def _is_next_section(self, word: str) -> bool:
        """Return whether a section starts here as far left as the block around it: a ``}`` was forgotten."""
        if word not in _SECTIONS:
            return False
        opened = self._frames[0].start
        here, around = self._positions.span(self._offset, self._offset), self._positions.span(opened, opened)
        return here.line > around.line and here.column <= around.column

    def _end_block(self) -> None:
        """Report the missing end of a block in front of the next section, and end it."""
        self._report_open(self._innermost(), self._frames[-1].start)
        self._lose("", self._offset, self._offset)
        while self._frames:
            self._close()

    def _report_open(self, what: str, opened: int) -> None:
        """Report that the next section comes before the end of what starts at ``opened``."""
        word = self._next_word()
        message = f"expected `}}` at the end of the {what}, found `{word}`"
        place = Place(self._offset, self._offset + len(word or ""))
        self._report(Finding("syntax", message, place, opened=Place(opened, self._text.find("{", opened))), place.start)

    def _statement(self, word: str) -> None:
        start = self._offset
        rule = self._rule(word)
        if rule is None:
            self._lose("", start, self._offset)
            if word == "block" and self._at_body(start):
                self._open(head_of_statement("scope", self._text, start, self._offset), start)
            return
        tree = self._match(rule, start)
        statement = self._read(tree) if tree is not None else None
        if tree is None or statement is None or self._flawed(start, self._offset):
            self._lose(rule, start, self._offset)
            if rule not in ("loop", "scope") or not self._at_body(start):
                return
            statement = statement or head_of_statement(rule, self._text, start, self._offset)
        else:
            self._keep(rule, tree)
        if rule in ("loop", "scope"):
            self._open(statement, start)
        else:
            self._frames[-1].statements.append(statement)

    def _read(self, tree: Tree) -> Statement | None:
        try:
            return statement_of(tree)
        except LiteralError as error:
            self._report(Finding(error.code, str(error), error.place), tree.start)
            return None

    def _open(self, head: Statement, start: int) -> None:
        if len(self._frames) == MAX_NESTING + 1:
            message = f"nesting too deep: over {MAX_NESTING} loops and scopes"
            self._report(Finding("syntax", message, Place(start, start + 4)), start)
        self._frames.append(_Frame(head, start))

    def _rule(self, word: str) -> str | None:
        """Return the rule of the statement that starts here; report and skip what is none."""
        start = self._offset
        if word not in STATEMENTS:
            self._report(unknown_statement(self._text, start, word), start)
            self._offset = next_statement(self._text, start, start)
            return None
        if word != "cache":
            return word
        verb = _VERB.match(self._text, start)
        if verb is None or verb[1] in CACHE_VERBS:
            return f"cache_{verb[1]}" if verb is not None else "cache_read"
        self._report(unsupported_cache(verb), start)
        self._offset = next_statement(self._text, start, start)
        return None

    # Movement

    def _end_piece(self) -> None:
        """Move past a ``}``."""
        self._offset += 1
        self.cut.marks.append(("close_brace", self._offset, False, self._around))

    def _next_word(self) -> str | None:
        """Skip white space and return the word there ("" if there is something else), or None at the end."""
        found = _NEXT_WORD.match(self._text, self._offset)
        self._offset = found.end(1) if found is not None else len(self._text)
        return found[2] if found is not None and self._offset < len(self._text) else None

    def _next_inside(self, what: str, opened: int) -> str:
        """Return the next word, or ``}``; report a text that ends before it."""
        word = self._next_word()
        if word is None:
            end = len(self._text.rstrip())
            message = f"expected `}}` at the end of the {what}, found the end"
            head = self._text.find("{", opened)
            if not self._ends_in_flaw():
                self._report(Finding("syntax", message, Place(end, end), opened=Place(opened, head)))
            raise _StopParsing
        return "}" if self._text[self._offset] == "}" else word

    def _ends_in_flaw(self) -> bool:
        """Return whether there is nothing but refused characters, such as a comment without an end, at the end."""
        return bool(self._flaws) and not self._text[self._flaws[-1].start :].strip()

    def _match(self, rule: str, start: int | None = None) -> Tree | None:
        """Match a rule and move past the match; report a mismatch and move to where parsing can resume."""
        begin = self._offset if start is None else start
        try:
            result = match(rule, self._text, begin)
        except RecursionError:
            self._report(Finding("syntax", "nesting too deep", Place(begin, begin + 1)), begin)
            self._offset = next_statement(self._text, begin, begin)
            return None
        if not isinstance(result, Mismatch):
            self._offset = result.end
            return result
        finding = explain(rule, self._text, begin, result)
        self._report(finding, begin)
        ended = finding.place.end <= result.offset
        self._offset = result.offset if ended else next_statement(self._text, begin, result.offset)
        return None

    def _at_body(self, start: int) -> bool:
        """Return whether recovery stopped after the ``{`` of a head that starts at ``start``."""
        return self._offset > start and self._text[self._offset - 1] == "{"

    # Findings

    def _report(self, finding: Finding, start: int | None = None) -> None:
        """Record a finding about what begins at ``start``, unless it comes of refused characters in there."""
        if start is not None and self._flawed(start, finding.place.end):
            return
        self.findings.append((self._diagnostic(finding), finding.expected))
        if len(self.findings) >= MAX_FINDINGS:
            raise _StopParsing

    def _diagnostic(self, finding: Finding, severity: Severity = Severity.ERROR) -> Diagnostic:
        return Diagnostic(
            code=finding.code,
            message=finding.message,
            severity=severity,
            span=self._positions.of(finding.place),
            hint=finding.hint,
            related=() if finding.opened is None else (Related("it starts here", self._positions.of(finding.opened)),),
        )
