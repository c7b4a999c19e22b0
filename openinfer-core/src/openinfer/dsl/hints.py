"""What to do about a text that does not match the grammar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean
from openinfer.dsl.grammar import CACHE_VERBS, STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from openinfer.dsl.syntax import Place

NEGATED_NAME = re.compile(r"-[ \t\r\n\f\v]*([A-Za-z_][A-Za-z0-9_]*)")
"""A name with a sign, which the language does not have."""

_NAME = r"[A-Za-z_]\w*"
_WORD = re.compile(rf"{_NAME}|[0-9]\w*")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|inf|nan)")
_LITERALS = ("true", "false", "inf", "nan")
_LAST_NAME = re.compile(rf"(?<!\w){_NAME}\Z")
_COLON = re.compile(r"\s*:")
_PARENTHESIS = re.compile(r"[();]")
_BRACKET = re.compile(r"[()\[\]{}]")
_ATTRIBUTE = re.compile(rf"@\s*{_NAME}\Z")
_LONGEST_CALL = 60
_BUFFER = re.compile(rf"{_NAME}\s*:\s*buffer\s*\(")
_INDEXED_MODEL = re.compile(r"\bmodel\s*\[")
_TYPED = re.compile(rf"{_NAME}+[^:]*+:\s*({_NAME})")
_NO_ATTRIBUTES = "only declarations have attributes: an operator takes `name=value`, a hint `with { name = value }`"


def hint_for(rule: str, text: str, start: int, place: Place, expected: Set[str]) -> str | None:
    """Return what to do about the token at ``place``, where one of the terminals ``expected`` would go on."""
    before, found = text[start : place.start].rstrip(), text[place.start : place.end]
    negated = NEGATED_NAME.match(text, place.start)
    if negated is not None and not (found == "-" and "arrow" in expected):
        return _negation_hint(rule, before, negated[1])
    hint = _part_hint(rule, text, start, place, expected) or _rule_hint(rule, text, before, place)
    hint = hint or _token_hint(rule, text, place, found, before)
    return hint or _upgrade(rule, text, start) or _separator_hint(before, found, expected)


_AMOUNT_LAST = re.compile(
    rf"cache\s*\.\s*(increment|decrement)\s+({_NAME})\s*(?:by\b|[-+]=|,)?\s*([0-9]\w*|{_NAME})\s*;"
)


def _part_hint(rule: str, text: str, start: int, place: Place, expected: Set[str]) -> str | None:
    """Return a hint for statements without one of their parts, or with one in the wrong place."""
    found = text[place.start : place.end]
    if rule == "op" and found == "(":
        return _call_hint(text, text[start : place.start].rstrip(), place)
    if rule == "loop" and found == "(" and "name" in expected:
        return "a loop has a name: write `loop NAME (i in …)`"
    if rule in ("cache_increment", "cache_decrement") and (old := _AMOUNT_LAST.match(text, start)) is not None:
        return f"the amount comes first: write `cache.{old[1]} {old[3]} {old[2]};`"
    if found == ";" and "arrow" in expected and rule in ("op", "transfer", "cache_read", "cache_write"):
        target = "K[…]" if rule == "cache_write" else "x"
        return f"write where the value goes, such as `>> {target}`"
    return None


def _rule_hint(rule: str, text: str, before: str, place: Place) -> str | None:
    """Return a hint for mistakes of one kind of statement."""
    word = text[place.start : place.end]
    if rule == "branch" and word == "=":
        return "the condition and the blocks have no names: write `branch ready then_block else_block;`"
    if rule == "declaration":
        return _declaration_hint(text, before, place)
    if rule == "assign" and word == "(" and ":" in before:
        return "extents are written in brackets, such as `f32[B, D]`"
    if word == "@":
        return _NO_ATTRIBUTES
    is_target = re.search(rf">>\s*{_NAME}$", before) is not None
    if rule in ("op", "transfer", "cache_read") and word == "[" and is_target:
        return "prefix table entries are read-only, and cache entries are written by cache.write"
    return _input_hint(before, word) if rule in ("op", "transfer") and ">>" not in before else None


def _input_hint(before: str, found: str) -> str | None:
    """Return a hint for something that is not an input."""
    if before.count("[") > before.count("]"):
        if found == "..":
            return "an input is one entry of a prefix table: ranges are read from persistent tables, by cache.read"
        return "entries of prefix tables count from 0" if found.startswith("-") else None
    return None


def _call_hint(text: str, before: str, place: Place) -> str | None:
    """Return a hint for an operator called inside another's inputs."""
    name, end = _LAST_NAME.search(before), _closing(text, place.start)
    if name is None or end is None or "(" not in before or ">>" in before:
        return None
    call = f"{name[0]}{' '.join(text[place.start : end].split())}"
    shown = call if len(call) <= _LONGEST_CALL else f"{name[0]}(…)"
    return f"an input is a variable or a number: write `op {shown} >> t;` before, and `t` here"


def _closing(text: str, opened: int) -> int | None:
    """Return the offset after the parenthesis that closes one of the same statement."""
    depth = 0
    for mark in _PARENTHESIS.finditer(text, opened):
        depth += {"(": 1, ")": -1}.get(mark[0], 0)
        if depth == 0:
            return mark.end()
        if mark[0] == ";":
            return None
    return None


def _declaration_hint(text: str, before: str, place: Place) -> str | None:
    mark = text[place.start : place.end]
    if _is_next_declaration(text, before, place):
        return "a declaration ends with `;`"
    typed = _TYPED.fullmatch(before)
    if typed is not None and mark == "(" and typed[1] != "buffer":
        return f"extents are written in brackets, such as `{typed[1]}[B, D]`"
    if typed is not None and re.fullmatch(_NAME, mark):
        return f"extents are written in brackets, such as `{typed[1]}[B, D]`, and attributes start with `@`"
    if mark == "," and re.fullmatch(_NAME, before):
        return f"declare one variable at a time: `{before}: f32[B, D];`"
    if mark == "=" and ":" in before:
        return "an initial value is written `@init(…)`"
    if re.fullmatch(_NAME, before) and mark == ";":
        return f"write its type: `{before}: f32[B, D];`"
    if re.fullmatch(_NAME, before) and re.fullmatch(_NAME, mark):
        return f"write `{before}: {mark}`"
    return None


def _is_next_declaration(text: str, before: str, place: Place) -> bool:
    """Whether a declaration goes on with a comma, or with the next declaration."""
    if ":" not in before or before.count("[") > before.count("]"):
        return False
    word = text[place.start : place.end]
    return word == "," or bool(re.fullmatch(_NAME, word) and _COLON.match(text, place.end))


def _token_hint(rule: str, text: str, place: Place, found: str, before: str) -> str | None:
    """Return a hint for tokens that are wrong in any context."""
    if found in ("...", "..="):
        return "ranges are half-open and written `start..end`"
    if found == "." and text[place.end : place.end + 1].isdigit():
        if text[place.start - 1 : place.start].isdigit():
            return "a number has no suffix" if _takes_floats(rule, before) else "a whole number is expected here"
        return "write `0.…`: a number starts with a digit"
    if found in (">", "-") and before.endswith((")", "]")) and ">>" not in before:
        return "what is written comes after `>>`"
    if found in _LITERALS:
        return f"`{found}` is a literal, not a name"
    if re.fullmatch(r"[0-9]\w*", found) and not _NUMBER.fullmatch(found):
        return "a name starts with a letter or `_`; an integer is written as 12, 0xFF, 0o17 or 0b11"
    return None


def _takes_floats(rule: str, before: str) -> bool:
    """Whether a float is legal after a text: as an input, setting, hint or argument of an attribute."""
    opened: list[int] = []
    for bracket in _BRACKET.finditer(before):
        if bracket[0] in "([{":
            opened.append(bracket.start())
        elif opened:
            opened.pop()
    if not opened:
        return False
    around = before[: opened[-1]].rstrip()
    is_list = before[opened[-1]] == "[" and around.endswith(("=", "(", ","))
    if rule == "op":
        return is_list or before[opened[-1]] != "["
    return is_list or _ATTRIBUTE.search(around) is not None


def _separator_hint(before: str, found: str, expected: Set[str]) -> str | None:
    """Return a hint for two words in a list with nothing between."""
    is_list = before.count("(") > before.count(")") or before.count("[") > before.count("]")
    return "is a `,` missing?" if is_list and "comma" in expected and _WORD.fullmatch(found) else None


def _negation_hint(rule: str, before: str, name: str) -> str:
    """Return what to write instead of ``-name``: an expression, where one is allowed."""
    if re.search(r"init\s*\($", before):
        return "an initial value is a number or truth value"
    is_indexed = before.count("[") > before.count("]")
    is_input = rule == "op" and before.endswith(("(", ",")) and not is_indexed
    if is_input or (rule in ("transfer", "cache_write") and not is_indexed):
        return f"an input is a variable or a number: write `op neg({name}) >> t;` before, and `t` here"
    return f"write `0-{name}`"


def _upgrade(rule: str, text: str, start: int) -> str | None:
    """Return what to write instead of the earlier syntax (``specification: language.earlier``)."""
    line_end = text.find(";", start)
    statement = text[start : line_end if line_end >= 0 else len(text)]
    if rule == "declaration" and _BUFFER.match(statement):
        return "`buffer(f32, [B])` is earlier syntax: declare `name: f32[B];` under `persistent`"
    if _INDEXED_MODEL.search(statement):
        return "model data is linked by name: declare a variable, with @ref or @pattern where the names differ"
    return None


_ASSIGNED_OP = re.compile(rf"({_NAME})\s*=\s*op\s+({_NAME})")
_ASSIGNED_CALL = re.compile(rf"({_NAME})\s*=\s*({_NAME})\s*\(")
_CALL = re.compile(rf"({_NAME})\s*(?=\()")
_RESULT = re.compile(rf"\s*>>\s*({_NAME})")
_COPY = re.compile(rf"{_NAME}(?:\[[^\];]*\])?\s*(?:=|>>)")
_EFFECT = re.compile(rf"(?:{_NAME}\s*=\s*)?effect\b")
_LOOP = "write `loop name (i in 0..n) { … }`"
_BRANCH = "write `branch condition then_block else_block;`"
_OTHER_LANGUAGES: Mapping[str, str] = {
    "for": _LOOP,
    "while": _LOOP,
    "if": _BRANCH,
    "else": _BRANCH,
    "let": "temporaries are declared by `assign name: dtype[dims];`",
    "var": "temporaries are declared by `assign name: dtype[dims];`",
    **{verb: f"write `cache.{verb} …;`" for verb in CACHE_VERBS},
}


def statement_hint(text: str, offset: int, word: str | None) -> str | None:
    """Return what to do about something that starts no statement."""
    if _EFFECT.match(text, offset):
        return "`effect` is earlier syntax: write `cache.write value >> c[i];` or `cache.read c[i] >> value;`"
    if (old := _ASSIGNED_OP.match(text, offset)) is not None:
        written = f"`assign {old[1]}: dtype[dims];` once and `op {old[2]}(…) >> {old[1]};`"
        return f"`t = op …` is earlier syntax: write {written}; `openinfer fmt --upgrade` rewrites it"
    if word == "block":
        return "blocks do not nest: put the statements directly into the loop, or the block after this one"
    if word in ("dynamic", "volatile", "constant", "constants", "persistent"):
        return "memory sections are written outside blocks: is a `}` missing?"
    if (call := _ASSIGNED_CALL.match(text, offset)) is not None:
        return f"write `op {call[2]}(…) >> {call[1]};`"
    if (call := _CALL.match(text, offset)) is not None and (end := _closing(text, call.end())) is not None:
        result = _RESULT.match(text, end)
        if result is not None:
            return f"write `op {call[1]}(…) >> {result[1]};`"
    if text.startswith(";", offset) and text[:offset].rstrip().endswith("}"):
        return "write no `;` after a `}`"
    if _COPY.match(text, offset):
        return "to copy a value write `transfer source >> target;`"
    if word is not None and word in _OTHER_LANGUAGES:
        return _OTHER_LANGUAGES[word]
    return did_you_mean(word, STATEMENTS) if word else None
