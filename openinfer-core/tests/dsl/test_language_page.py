"""The language page shows every construct: each production of the grammar, and each alternative and option within one.

What the page shows runs: `tests/readme` executes its blocks. Here the parser reads them and counts which productions
met which.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from openinfer.dsl import grammar, graph, parser
from openinfer.dsl.grammar import Mismatch
from openinfer.dtypes import BUILTIN
from openinfer.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[3] / "docs" / "language.md"

Edge = tuple[str, str]


def programs() -> Iterator[str]:
    """Yield the programs of the page that are run or checked, parts of programs as whole ones."""
    if not PAGE.is_file():
        pytest.skip("the documentation is not next to the tests")
    for words, body in re.findall(r"^```oi ?([^\n]*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        kind, _, section = words.partition(" ")
        if kind == "declarations":
            yield f"{section} {{\n{body}}}"
        elif kind == "statements":
            yield f"block entry {{\n{body}}}"
        elif kind not in ("wrong", "strict"):
            yield body


def shown(monkeypatch: pytest.MonkeyPatch) -> tuple[set[Edge], dict[str, set[str]]]:
    """Return which production directly held which in the programs of the page, and the texts of each."""
    edges: set[Edge] = set()
    texts: dict[str, set[str]] = {}

    def walk(tree: Any, owner: str) -> None:
        name = tree.expr_name or owner
        if tree.expr_name:
            edges.add((owner, name))
            texts.setdefault(name, set()).add(tree.text.strip())
        for child in tree.children:
            walk(child, name)

    def watched(rule: str, text: str, offset: int) -> Any:
        tree = grammar.match(rule, text, offset)
        if not isinstance(tree, Mismatch):
            walk(tree, "")
        return tree

    monkeypatch.setattr(parser, "match", watched)
    for text in programs():
        graph(text)
    return edges, texts


def possible() -> set[Edge]:
    """Return which production can directly hold which, as the grammar says."""
    rules = grammar._grammar()
    edges: set[Edge] = set()

    def walk(expression: Any, owner: str) -> None:
        for member in getattr(expression, "members", ()):
            if member.name:
                edges.add((owner, member.name))
            elif type(member).__name__ != "Lookahead":
                walk(member, owner)

    for name, expression in rules.items():
        walk(expression, name)
    return edges


REFUSED = {("item", "string"), ("item", "boolean")}
"""What the grammar takes only so that a finding can tell more of it."""


@pytest.mark.parametrize("item", ['"a"', "true"])
def test_what_the_grammar_takes_to_be_refused_is_refused(item: str) -> None:
    with pytest.raises(GraphError) as caught:
        graph(f"block entry {{ op f(x, a=[{item}]) >> y; }}")
    assert caught.value.code == "bad-list"


def is_mark(name: str) -> bool:
    """Return whether a terminal is punctuation or a keyword, which is wherever its production is."""
    return name.startswith(("kw_", "open_", "close_")) or name in ("colon", "semicolon", "equals", "arrow", "dot")


def test_every_production_is_shown_with_every_alternative_and_option(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {(owner, part) for owner, part in possible() - REFUSED if not is_mark(part) and owner != "known_name"}
    assert len(wanted) > 100
    assert sorted(wanted - shown(monkeypatch)[0]) == []


FORMS = {
    "memory": (r"dynamic \{", r"volatile \{", r"constant \{", r"constants \{", r"persistent \{"),
    "integer": (r"\b0x", r"\b0o", r"\b0b", r"\d_\d", r"\d[iu](8|16|32|64|size)\b"),
    "float": (r"\d\.\d", r"\de-?\d", r"\d\.(?![\d.])", r"\binf\b", r"-inf\b", r"\bnan\b"),
    "boolean": (r"\btrue\b", r"\bfalse\b"),
    "string": (r"\\n", r"\\x[0-9a-f]{2}", r"\\u\{", r'\\"', r"\\\\"),
    "operator": (r"\+", r"-", r"\*"),
    "slots": (r"\w\[\]", r"\w\[,", r", \]"),
    "slice": (r"\.\.-\d", r"[\[ ]\.\.", r"\.\.[\],]", r"\w\.\.\w"),
    "branch": (r"branch \w+;", r"branch \w+ \w+ \w+;"),
    "return": (r"return;", r"return \w+;", r"return \w+, \w+"),
    "text": (r'@ref\("', r"@ref\(\w", r'scope "', r"scope \w"),
    "comment": (r"// ", r"/\* "),
    "dtype": tuple(rf"\b{name}\b" for dtype in BUILTIN for name in (dtype.name, *dtype.aliases)),
}
"""Spellings of a construct, as regular expressions."""


@pytest.mark.parametrize("construct", FORMS)
def test_every_spelling_of_a_construct_is_shown(construct: str) -> None:
    text = "\n".join(programs())
    assert [spelling for spelling in FORMS[construct] if not re.search(spelling, text)] == []
