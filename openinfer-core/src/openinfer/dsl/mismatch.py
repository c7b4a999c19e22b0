"""Messages about text that does not match the grammar."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean, summary
from openinfer.dsl.grammar import CACHE_VERBS, STATEMENTS, TOKEN, words
from openinfer.dsl.hints import NEGATED_NAME, hint_for, statement_hint
from openinfer.dsl.syntax import Place
from openinfer.errors import DslSyntaxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.diagnostics import Diagnostic, Source
    from openinfer.dsl.grammar import Mismatch


@dataclass(frozen=True, slots=True)
class Finding:
    """An error of phase P before its position is looked up.

    ``expected`` is in a person's words; ``opened`` is where the thing starts that does not end.
    """

    code: str
    message: str
    place: Place
    hint: str | None = None
    expected: tuple[str, ...] = ()
    opened: Place | None = None


_TOKEN = re.compile(rf"(?:[-+](?=[0-9]))?(?:{TOKEN})")
_LONGEST_FIX = 60
_SECTIONS = ("dynamic", "volatile", "constant", "persistent", "block")
_SECTIONS_HINT = (
    "variables go in `dynamic`, `volatile`, `constant` or `persistent` { … }, statements in `block name { … }`"
)
_EXPRESSION = frozenset({"name", "integer", "open_paren", "rounding"})
_VALUE = frozenset({"string", "float", "boolean", "integer"})
_NUMBER = frozenset({"float", "boolean", "integer", "signed"})
_CONTEXT = {"declaration": "dimension expression", "assign": "dimension expression", "loop": "loop range"}


def explain(rule: str, text: str, start: int, mismatch: Mismatch) -> Finding:
    """Return the finding for a rule that does not match the text at ``start``."""
    place = _token_at(text, mismatch.offset)
    found = _shown(text, place)
    expected = _expected(rule, mismatch.expected)
    if "semicolon" in mismatch.expected and _is_next_statement(text, place):
        return _missing_semicolon(rule, text, start, place, expected)
    special = _special(rule, text, start, place, found)
    message = special if special is not None else f"expected {_joined(expected)}, found {found}"
    return Finding("syntax", message, place, hint_for(rule, text, start, place, mismatch.expected), expected)


def _is_next_statement(text: str, place: Place) -> bool:
    """Return whether a token is a brace, the end, or the first word of a line."""
    if place.start == place.end or text[place.start] == "}":
        return True
    is_word = text[place.start].isalpha() or text[place.start] == "_"
    return is_word and "\n" in text[len(text[: place.start].rstrip()) : place.start]


def _missing_semicolon(rule: str, text: str, start: int, place: Place, expected: tuple[str, ...]) -> Finding:
    """Return a finding at the end of a statement without its ``;``, often a line above the next token."""
    end = start + len(text[start : place.start].rstrip())
    what = "declaration" if rule == "declaration" else "statement"
    written = " ".join(text[start:end].split())
    fix = written if len(written) <= _LONGEST_FIX else f"…{written[-20:]}"
    message = f"expected `;` at the end of the {what}, found {_shown(text, place)}"
    return Finding("syntax", message, Place(end, end), f"write `{fix};`", expected)


def _token_at(text: str, offset: int) -> Place:
    token = _TOKEN.match(text, offset)
    if token is None:
        end = len(text.rstrip())
        return Place(end, end)
    return Place(offset, token.end())


def _shown(text: str, place: Place) -> str:
    return f"`{text[place.start : place.end]}`" if place.end > place.start else "the end"


def _expected(rule: str, terminals: frozenset[str]) -> tuple[str, ...]:
    context = _CONTEXT.get(rule)
    if context is not None and terminals >= _EXPRESSION:
        rest = terminals - _EXPRESSION
        return (f"identifier or integer for {context}", *_named(rest))
    return _named(terminals)


def _named(terminals: frozenset[str]) -> tuple[str, ...]:
    if terminals >= _VALUE:
        return ("a value", *_named(terminals - _VALUE - _EXPRESSION - {"open_bracket", "signed"}))
    if terminals >= {*_NUMBER, "name"}:
        return tuple(sorted(("a number", *_named(terminals - _NUMBER))))
    return tuple(sorted({words(terminal) for terminal in terminals}))


def _joined(expected: tuple[str, ...]) -> str:
    if len(expected) < 2:
        return expected[0] if expected else "something else"
    return f"{', '.join(expected[:-1])} or {expected[-1]}"


def _special(rule: str, text: str, start: int, place: Place, found: str) -> str | None:
    """Return a specific message for common mistakes."""
    before = text[start : place.start].rstrip()
    if NEGATED_NAME.match(text, place.start):
        return "unexpected '-' before identifier"
    if rule == "branch" and found in ("`;`", "`=`"):
        return "branch expects condition and two target blocks, or one block"
    if rule == "declaration" and re.search(r"auto_dim\s*\($", before) and found == "`)`":
        return "@auto_dim requires at least one index"
    if rule == "declaration" and re.search(r"@\s*fixed\s*\($", before) and found == "`)`":
        return "@fixed requires at least one bound"
    return None


_OLD_SECTIONS = {
    "inputs": "`inputs` is earlier syntax: this section is called `dynamic`",
    "outputs": "`outputs` is earlier syntax: declare results under `volatile`; every volatile can be fetched",
    "state": "`state` is earlier syntax: this section is called `persistent`",
    "model": "`model: …` is earlier syntax: leave it out; variables are linked to the model by name",
    "graph": "leave `graph! { … }` away: a program is its memory sections and blocks",
}


def unknown_section(text: str, offset: int, word: str) -> Finding:
    """Return the finding for a word that starts neither a memory section nor a block."""
    place = _token_at(text, offset)
    message = f"expected a memory section or a block, found {_shown(text, place)}"
    old = _OLD_SECTIONS.get(word)
    hint = f"{old}; `openinfer fmt --upgrade` rewrites it" if old is not None else None
    hint = hint or did_you_mean(word, _SECTIONS) or _SECTIONS_HINT
    if text[offset] in "{[":
        hint = "graph JSON is read from files that end in .json, and by openinfer.Graph.from_json"
    elif word in STATEMENTS:
        hint = "statements are written inside `block name { … }`: is there an extra `}` before it?"
    return Finding("syntax", message, place, hint, ("a memory section", "a block"))


def unknown_statement(text: str, offset: int, word: str | None) -> Finding:
    """Return the finding for something that starts no statement."""
    place = _token_at(text, offset)
    message = f"expected a statement, found {_shown(text, place)}"
    return Finding("syntax", message, place, statement_hint(text, offset, word), ("a statement",))


def unsupported_cache(verb: re.Match[str]) -> Finding:
    """Return the finding for ``cache.`` with an unknown verb."""
    hint = did_you_mean(verb[1], CACHE_VERBS)
    known = ", ".join(f"cache.{name}" for name in CACHE_VERBS)
    message = f"unsupported cache operation `{verb[1]}`: expected {known}"
    return Finding("syntax", message, Place(verb.start(1), verb.end(1)), hint, CACHE_VERBS)


def syntax_error(source: Source, findings: Sequence[Diagnostic], expected: tuple[str, ...] = ()) -> DslSyntaxError:
    """Return the exception for findings of which the first is one of phase P."""
    span = findings[0].span
    offset = span.start if span is not None else 0
    begin = source.text.rfind("\n", 0, offset) + 1
    end = source.text.find("\n", offset)
    return DslSyntaxError(
        summary(findings),
        diagnostics=findings,
        line=span.line if span is not None else 0,
        column=span.column if span is not None else 0,
        offset=offset,
        expected=expected,
        snippet=source.text[begin : end if end >= 0 else len(source.text)].rstrip("\r"),
    )
