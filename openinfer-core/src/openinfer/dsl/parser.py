"""Phase P: text to syntax tree, a declaration or statement at a time, going on at the next one after an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Related, Severity, as_errors, summary
from openinfer.dsl.grammar import CACHE_VERBS, STATEMENTS, Mismatch, Tree, match
from openinfer.dsl.mismatch import Finding, explain, unknown_section, unknown_statement, unsupported_cache
from openinfer.dsl.positions import Positions
from openinfer.dsl.recovery import next_section, next_statement, skip_blank
from openinfer.dsl.scanner import scan
from openinfer.dsl.syntax import BlockSyntax, LoopStatement, Place, Program, ScopeStatement, Statement
from openinfer.dsl.tree_declarations import declaration_of, old_spellings
from openinfer.dsl.tree_statements import block_header, statement_of
from openinfer.dsl.tree_values import LiteralError
from openinfer.errors import DslSyntaxError
from openinfer.ir.graph import MemoryKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.diagnostics import Source
    from openinfer.dsl.syntax import Declaration, Setting, Word

MAX_LOOPS = 100
"""Deepest nesting of loops and scopes."""

MAX_FINDINGS = 100
"""Parsing stops after this many errors."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VERB = re.compile(r"cache[ \t\r\n\f\v]*\.[ \t\r\n\f\v]*([A-Za-z_][A-Za-z0-9_]*)")
_MEMORY = {**{kind.value: kind for kind in MemoryKind}, "constants": MemoryKind.CONSTANT}


@dataclass(slots=True)
class _Frame:
    """An open block, loop or scope; ``head`` is None for a loop or scope whose head was wrong."""

    head: Statement | tuple[Word, tuple[Setting, ...], Place] | None
    start: int
    statements: list[Statement] = field(default_factory=list[Statement])


class _StopParsing(Exception):  # noqa: N818 - control flow, no error of its own
    """There is no point in going on."""


def parse_program(source: Source, *, strict: bool = False) -> Program:
    """Parse a program.

    Raises:
        DslSyntaxError: with every syntax error found; in strict mode warnings are errors.
    """
    parser = _Parser(source)
    program = parser.run()
    if parser.findings:
        raise _error(source, parser.findings)
    if strict and program.warnings:
        raise _error(source, [(warning, ()) for warning in as_errors(program.warnings)])
    return program


def _error(source: Source, findings: list[tuple[Diagnostic, tuple[str, ...]]]) -> DslSyntaxError:
    first, expected = findings[0]
    span = first.span
    offset = span.start if span is not None else 0
    begin = source.text.rfind("\n", 0, offset) + 1
    end = source.text.find("\n", offset)
    return DslSyntaxError(
        summary([diagnostic for diagnostic, _ in findings]),
        diagnostics=[diagnostic for diagnostic, _ in findings],
        line=span.line if span is not None else 0,
        column=span.column if span is not None else 0,
        offset=offset,
        expected=expected,
        snippet=source.text[begin : end if end >= 0 else len(source.text)].rstrip("\r"),
    )


class _Parser:
    """One pass over one text. ``findings`` pairs each error with what was expected there."""

    def __init__(self, source: Source) -> None:
        self.findings: list[tuple[Diagnostic, tuple[str, ...]]] = []
        self._source = source
        self._positions = Positions(source)
        self._text = ""
        self._offset = 0
        self._declarations: list[Declaration] = []
        self._blocks: list[BlockSyntax] = []
        self._warnings: list[Diagnostic] = []

    def run(self) -> Program:
        scanned = scan(self._source.text)
        self._text = scanned.text
        try:
            for _ in self._sections():
                pass
        except _StopParsing:
            pass
        self._add_flaws([Finding(f.code, f.message, Place(f.start, f.end), f.hint) for f in scanned.flaws])
        return Program(self._source, tuple(self._declarations), tuple(self._blocks), tuple(self._warnings))

    def _add_flaws(self, flaws: list[Finding]) -> None:
        """Join the scanner's findings, the first of each line, with the parser's on other lines."""
        first: dict[int, Finding] = {}
        for flaw in flaws:
            first.setdefault(self._positions.line(flaw.place.start), flaw)
        kept = [f for f in self.findings if f[0].span is None or f[0].span.line not in first]
        found = [(self._diagnostic(flaw), ()) for flaw in first.values()] + kept
        self.findings = sorted(found, key=lambda f: f[0].span.start if f[0].span is not None else 0)

    def _sections(self) -> Iterator[None]:
        while (word := self._next_word()) is not None:
            yield
            if word in _MEMORY:
                self._memory(_MEMORY[word])
            elif word == "block":
                self._block()
            else:
                self._report(unknown_section(self._text, self._offset, word))
                self._offset = next_section(self._text, self._offset)

    # Memory sections

    def _memory(self, kind: MemoryKind) -> None:
        opened = self._offset
        if self._match("memory_header") is None:
            self._offset = next_section(self._text, self._offset)
            return
        while not self._closed("memory section", opened):
            start = self._offset
            tree = self._match("declaration", start)
            if tree is not None:
                self._keep_declaration(tree, kind)
        self._offset += 1

    def _keep_declaration(self, tree: Tree, kind: MemoryKind) -> None:
        try:
            declaration = declaration_of(tree, kind)
        except LiteralError as error:
            self._report(Finding(error.code, str(error), error.place))
            return
        self._declarations.append(declaration)
        for message, place in old_spellings(tree):
            self._warnings.append(self._diagnostic(Finding("old-spelling", message, place), Severity.WARNING))

    # Blocks

    def _block(self) -> None:
        start = self._offset
        tree = self._match("block_header")
        if tree is None and not self._at_body(start):
            self._offset = next_section(self._text, self._offset)
            return
        frames = [_Frame(self._head(tree), start)]
        while frames:
            if self._closed("block" if len(frames) == 1 else "loop or scope", frames[-1].start):
                self._offset += 1
                self._close(frames)
            else:
                self._statement(frames)

    def _head(self, tree: Tree | None) -> tuple[Word, tuple[Setting, ...], Place] | None:
        if tree is None:
            return None
        try:
            return block_header(tree)
        except LiteralError as error:
            self._report(Finding(error.code, str(error), error.place))
            return None

    def _close(self, frames: list[_Frame]) -> None:
        frame = frames.pop()
        statements = tuple(frame.statements)
        if isinstance(frame.head, tuple):
            name, hints, place = frame.head
            self._blocks.append(BlockSyntax(name, hints, statements, place))
        elif frame.head is not None and isinstance(frame.head.body, LoopStatement | ScopeStatement):
            frames[-1].statements.append(replace(frame.head, body=replace(frame.head.body, body=statements)))

    def _statement(self, frames: list[_Frame]) -> None:
        start = self._offset
        word = self._next_word()
        rule = self._rule(word)
        if rule is None:
            return
        tree = self._match(rule, start)
        if tree is None:
            if rule in ("loop", "scope") and self._at_body(start):
                self._open(frames, None, start)
            return
        try:
            statement = statement_of(tree)
        except LiteralError as error:
            self._report(Finding(error.code, str(error), error.place))
            statement = None
        if rule in ("loop", "scope"):
            self._open(frames, statement, start)
        elif statement is not None:
            frames[-1].statements.append(statement)

    def _open(self, frames: list[_Frame], head: Statement | None, start: int) -> None:
        if len(frames) == MAX_LOOPS + 1:
            message = f"nesting too deep: over {MAX_LOOPS} loops and scopes"
            self._report(Finding("syntax", message, Place(start, start + 4)))
        frames.append(_Frame(head, start))

    def _rule(self, word: str | None) -> str | None:
        """Return the rule of the statement that starts here; report and skip what is none."""
        start = self._offset
        if word not in STATEMENTS:
            self._report(unknown_statement(self._text, start, word))
            self._offset = next_statement(self._text, start, start)
            return None
        if word != "cache":
            return word
        verb = _VERB.match(self._text, start)
        if verb is None or verb[1] in CACHE_VERBS:
            return f"cache_{verb[1]}" if verb is not None else "cache_read"
        self._report(unsupported_cache(verb))
        self._offset = next_statement(self._text, start, start)
        return None

    # Movement

    def _next_word(self) -> str | None:
        """Skip white space and return the word there ("" if there is something else), or None at the end."""
        self._offset = skip_blank(self._text, self._offset)
        if self._offset >= len(self._text):
            return None
        found = _WORD.match(self._text, self._offset)
        return found.group() if found is not None else ""

    def _closed(self, what: str, opened: int) -> bool:
        """Return whether ``}`` comes next; report a text that ends before it."""
        if self._next_word() is None:
            end = len(self._text.rstrip())
            message = f"expected `}}` at the end of the {what}, found the end"
            head = self._text.find("{", opened)
            self._report(Finding("syntax", message, Place(end, end), opened=Place(opened, head)))
            raise _StopParsing
        return self._text[self._offset] == "}"

    def _match(self, rule: str, start: int | None = None) -> Tree | None:
        """Match a rule and move behind it; on a mismatch report it and move to where parsing can go on."""
        begin = self._offset if start is None else start
        try:
            result = match(rule, self._text, begin)
        except RecursionError:
            self._report(Finding("syntax", "nesting too deep", Place(begin, begin + 1)))
            self._offset = next_statement(self._text, begin, begin)
            return None
        if not isinstance(result, Mismatch):
            self._offset = result.end
            return result
        finding = explain(rule, self._text, begin, result)
        self._report(finding)
        ended = finding.place.end <= result.offset
        self._offset = result.offset if ended else next_statement(self._text, begin, result.offset)
        return None

    def _at_body(self, start: int) -> bool:
        """Return whether recovery stopped behind the ``{`` of a head that starts at ``start``."""
        return self._offset > start and self._text[self._offset - 1] == "{"

    # Findings

    def _report(self, finding: Finding) -> None:
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
