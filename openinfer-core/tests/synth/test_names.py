"""Identifiers, comments and strings of generated source: whatever a program is called, nothing breaks out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.synth.c_text import comment, string_literal
from openinfer.synth.identifiers import RESERVED, Identifiers

IDENTIFIER = re.compile(r"[a-z]+_[A-Za-z0-9]+(_[A-Za-z0-9]+)*")


@pytest.mark.rule("api.bundles.3")
@given(st.lists(st.text(max_size=80), max_size=20))
def test_identifiers_are_legal_and_differ_ignoring_case(raw):
    names = Identifiers()

    made = [names.name("v_", name) for name in raw]

    assert all(IDENTIFIER.fullmatch(name) for name in made)
    assert all(len(name) <= 63 for name in made)
    assert not RESERVED & {name.lower() for name in made}
    assert len({name.lower() for name in made}) == len(made)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (["int"], ["v_int"]),
        (["a__b", "a_b", "A_B"], ["v_a_b", "v_a_b_2", "v_A_B_3"]),
        (["gl_x", "_", ""], ["v_gl_x", "v_x", "v_x_2"]),
        (["x_2", "x", "X"], ["v_x_2", "v_x", "v_X_3"]),
        (["é", "*/"], ["v_x", "v_x_2"]),
    ],
)
def test_identifiers_of_names(raw, expected):
    names = Identifiers()

    assert [names.name("v_", name) for name in raw] == expected


def test_a_prefix_is_lower_case_letters_and_an_underscore():
    with pytest.raises(ValueError, match="prefix 'V'"):
        Identifiers().name("V", "x")


@given(st.text())
def test_a_comment_is_one_line_that_ends_where_it_says(text):
    shown = comment(text)

    assert re.fullmatch(r"/\* [ -~]* \*/", shown)
    inside = shown[2:-2]
    assert "*/" not in inside
    assert "/*" not in inside
    assert "??" not in inside


@pytest.mark.rule("api.bundles.3")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("op add(a, b) >> c", "/* op add(a, b) >> c */"),
        ("*/ ??/", "/* * / ? ?/ */"),
        ("/*/", "/* / * / */"),
        ("a\\\nb", "/* a\\\\nb */"),
        ("\u202e", "/* \\u202e */"),
    ],
)
def test_comments(text, expected):
    assert comment(text) == expected


@pytest.mark.rule("api.bundles.3")
@given(st.text(st.characters(exclude_characters="\0")))
def test_a_string_literal_is_the_bytes_of_the_text(text):
    literal = string_literal(text)

    assert re.fullmatch(r'"([^"\\?\n]|\\[0-7]{3})*"', literal)
    octal = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), literal[1:-1])
    assert octal.encode("latin-1") == text.encode("utf-8", "surrogatepass")


def test_a_c_string_never_contains_a_null_character():
    with pytest.raises(ValueError, match="null character"):
        string_literal("a\0b")
