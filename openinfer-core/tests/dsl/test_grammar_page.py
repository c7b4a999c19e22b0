"""The grammar of docs/specification and the parser accept the same programs, also with a token more or less."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from parsimonious.exceptions import ParseError
from parsimonious.grammar import Grammar

from openinfer.dsl import parse
from openinfer.errors import DslSyntaxError

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "specification" / "grammar.md").read_text(encoding="utf-8")
SPACES = r"""
_       = (~"\\s+" / line / comment)*
line    = ~"//[^\n]*"
comment = "/*" (comment / ~"(?!\\*/|/\\*)[\\s\\S]")* "*/"
"""
TOKEN = re.compile(r"\w+|\"[^\"\n]*\"|\S")
PROGRAMS = [
    *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*/*.oi"))),
    *re.findall(r"^```oi[^\n]*\n(.*?)^```$", (ROOT / "docs" / "language.md").read_text("utf-8"), re.M | re.S),
]
"""Complete programs, and pieces of some that both refuse."""


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    """The rules of the page, with white space after each token."""
    (block,) = re.findall(r"^```text peg\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    rules = [spaced(line) for line in block.splitlines() if line]
    return Grammar("\n".join(["start = _ program", *rules, SPACES]))


def spaced(rule: str) -> str:
    name, _, body = rule.partition("=")
    if body.lstrip().startswith("~"):
        return f"{name} = {body.strip().replace('~', '~r', 1)} _"
    return name + " = " + re.sub(r'"([^"]+)"', token, body)


def token(found: re.Match[str]) -> str:
    text = found[1]
    return f'(~r"{text}(?![A-Za-z0-9_])" _)' if text.isidentifier() else f'("{text}" _)'


def is_accepted(grammar: Grammar, text: str) -> bool:
    try:
        grammar.parse(text)
    except ParseError:
        return False
    return True


def is_parsed(text: str) -> bool:
    """Return whether the parser finds only what is beyond the grammar: values of literals."""
    try:
        parse(text)
    except DslSyntaxError as error:
        return all(found.code in ("bad-number", "bad-string") for found in error.diagnostics)
    return True


@pytest.mark.rule("language.phases.1", "language.text.2")
def test_programs_are_accepted_by_both(grammar: Grammar) -> None:
    accepted = [is_accepted(grammar, text) for text in PROGRAMS]
    assert accepted == [is_parsed(text) for text in PROGRAMS]
    assert sum(accepted) > len(PROGRAMS) * 0.8


@pytest.mark.parametrize("seed", range(4))
def test_programs_with_a_token_less_or_twice_are_judged_alike(grammar: Grammar, seed: int) -> None:
    draw = random.Random(seed)
    for text in PROGRAMS:
        for found in draw.sample(list(TOKEN.finditer(text)), 3):
            changed = draw.choice(("", f"{found[0]} {found[0]}"))
            program = text[: found.start()] + changed + text[found.end() :]
            assert is_accepted(grammar, program) == is_parsed(program), program
