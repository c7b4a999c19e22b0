"""Highlighting: the Pygments lexer and the TextMate grammar."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.dsl import grammar as language
from openinfer.editors import textmate, words

pytest.importorskip("pygments", reason="pygments, the extra `editors`, is not installed")

from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Comment, Error, Keyword, Name, Number, String

from openinfer.editors.pygments_lexer import OpenInferLexer

GOLDEN = Path(__file__).parents[1] / "golden" / "draw"


def tokens(text: str) -> list[tuple[object, str]]:
    return [(kind, value) for kind, value in OpenInferLexer().get_tokens(text) if value.strip()]


def kind_of(text: str, value: str, occurrence: int = 0) -> object:
    return [kind for kind, found in tokens(text) if found == value][occurrence]


@pytest.mark.parametrize("name", ["control", "decode"])
def test_programs_have_no_error_tokens(name: str) -> None:
    text = (GOLDEN / f"{name}.oi").read_text(encoding="utf-8")

    assert [value for kind, value in tokens(text) if kind is Error] == []


def programs_of_pages() -> list[tuple[str, str]]:
    docs = Path(__file__).parents[3] / "docs"
    pages = {page.name: page.read_text(encoding="utf-8") for page in sorted(docs.glob("*.md"))}
    fence = re.compile(r"^```(oi)\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [(name, found[2]) for name, text in pages.items() for found in fence.finditer(text)]


def test_the_lexer_colours_every_program_of_the_documentation_by_the_language_of_its_fence() -> None:
    programs = programs_of_pages()
    if not programs:
        pytest.skip("the documentation is not next to the tests")
    lexer = get_lexer_by_name("oi")
    wrong = [(name, value) for name, text in programs for kind, value in lexer.get_tokens(text) if kind in Error]
    assert wrong == []
    assert len(programs) > 20


def test_keywords_are_keywords_only_where_statements_begin() -> None:
    text = "dynamic { op: f32; loop: f32; } block block { op op(op, loop) >> op; yield op; }"

    assert [kind for kind, value in tokens(text) if value == "op"] == [
        *(Name.Variable, Keyword, Name.Builtin),
        *(Name, Name, Name),
    ]
    assert kind_of(text, "loop", 0) is Name.Variable
    assert kind_of(text, "block", 1) is Name.Function


def test_a_type_name_is_a_type_only_where_types_are_written() -> None:
    text = "block entry { assign f32: f32[t1]; op cast(t1, to=i8, acc=[i2, i4]) >> f32; }"

    assert [kind for kind, value in tokens(text) if value == "f32"] == [Name.Variable, Keyword.Type, Name]
    assert [kind for kind, value in tokens(text) if value == "t1"] == [Name, Name]
    assert [kind_of(text, name) for name in ("i8", "i2", "i4")] == [Keyword.Type] * 3


def test_loops_hints_and_scopes_nest() -> None:
    text = (
        'block b with { fast = true } { scope "s{" { loop l (i in 0..n) with { fuse = true } { barrier; } } return; }'
    )

    assert kind_of(text, "l") is Name.Label
    assert kind_of(text, "i") is Name.Variable
    assert kind_of(text, "barrier") is Keyword
    assert kind_of(text, "return") is Keyword
    assert kind_of(text, "fuse") is Name.Attribute


def test_numbers_strings_and_nested_comments() -> None:
    text = 'block b { /* a /* b */ c */ op f(0x1F, 1.5e-3, 0..5, -inf, "a\\n") >> x; // end\n }'

    assert kind_of(text, "0x1F") is Number.Integer
    assert kind_of(text, "1.5e-3") is Number.Float
    assert kind_of(text, "0") is Number.Integer
    assert kind_of(text, "inf") is Keyword.Constant
    assert kind_of(text, "\\n") is String.Escape
    assert kind_of(text, " c ") is Comment.Multiline


def test_the_installed_entry_point_finds_the_lexer() -> None:
    assert type(get_lexer_by_name("openinfer")) is OpenInferLexer
    assert type(get_lexer_for_filename("model.oi")) is OpenInferLexer


@given(st.text(alphabet=st.sampled_from('op loop{}()[];:="/*\\@.>- ab1\n'), max_size=60))
def test_any_text_comes_out_whole(text: str) -> None:
    lexer = OpenInferLexer(stripnl=False, ensurenl=False)

    assert "".join(value for _, value in lexer.get_tokens(text)) == text


def test_the_grammar_file_is_the_one_that_the_word_lists_give() -> None:
    hint = "run `python -m openinfer.editors.textmate > .../openinfer/editors/openinfer.tmLanguage.json`"

    assert textmate.shipped() == textmate.grammar_text(), hint


def regexes(node: object) -> list[str]:
    if isinstance(node, list):
        return [pattern for item in node for pattern in regexes(item)]
    if not isinstance(node, dict):
        return []
    own = [node[key] for key in ("match", "begin", "end") if key in node]
    return own + [pattern for value in node.values() for pattern in regexes(value)]


def test_the_grammar_has_legal_expressions_and_only_rules_that_exist() -> None:
    grammar = json.loads(textmate.shipped())
    included = re.findall(r'"include": "#([\w-]+)"', textmate.shipped())

    assert set(included) <= set(grammar["repository"])
    for pattern in regexes(grammar):
        re.compile(pattern)


def test_every_word_of_the_language_is_highlighted() -> None:
    grammar = textmate.shipped()

    for word in (*language.STATEMENTS, *language.CACHE_VERBS, *language.ATTRIBUTES, *words.MEMORY, *words.DTYPES):
        assert re.search(rf"[(|:*]{word}[|)\\]", grammar), word


def test_plugins_do_not_load_highlighting() -> None:
    program = "import sys, openinfer.builtin; print([m for m in sys.modules if 'pygments' in m or 'editors' in m])"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert finished.stdout.strip() == "[]"
