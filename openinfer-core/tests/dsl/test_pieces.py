"""A text as the reader cuts it: tokens with only white space between, pieces without a hole, gaps where it is wrong."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.diagnostics import Source
from openinfer.dsl import grammar
from openinfer.dsl.grammar import Mismatch
from openinfer.dsl.parser import Parsed, recover_program
from openinfer.dsl.pieces import Piece
from openinfer.dsl.tokens import scan

PROGRAM = """\
// sizes come from the model
dynamic { x: f32[3*D, -1]; s: f32 @init(- 1.5e-3) /* a /* nested */ one */; }
block entry with { fuse = true } {
  loop l (i in 0..n+1) { cache.read K[i, 0..-3] >> y; scope "a; b {" { return; } }
}
"""
ANY_TEXT = st.text(alphabet=st.sampled_from('op loop{}()[];:="/*\\@.>- ab1#!é\n'), max_size=80)
PROGRAMS = st.lists(st.sampled_from(PROGRAM.split(" ")), max_size=40).map(" ".join)


def recovered(text: str) -> Parsed:
    return recover_program(Source("<text>", text))


def pieces(text: str) -> list[tuple[str, str]]:
    """The rule of every piece, in parentheses if it is a gap, and its text."""
    return [
        (f"({piece.rule})" if piece.is_gap else piece.rule, text[piece.start : piece.end].strip())
        for piece in list(recovered(text).cut.pieces())
    ]


@given(ANY_TEXT | PROGRAMS)
def test_between_tokens_there_is_only_white_space(text: str) -> None:
    rest = text
    for token in reversed(scan(text).tokens()):
        assert text[token.start : token.end] == token.text
        rest = rest[: token.start] + rest[token.end :]

    assert rest.strip() == ""


@given(ANY_TEXT | PROGRAMS)
def test_pieces_follow_one_another_without_a_hole(text: str) -> None:
    found = list(recovered(text).cut.pieces())

    assert (found[0].start, found[-1].end) == (0, len(text))
    assert all(one.end == other.start for one, other in pairwise(found))


@given(ANY_TEXT | PROGRAMS)
def test_every_token_is_in_one_piece(text: str) -> None:
    cut = recovered(text).cut
    tokens = cut.scan.tokens()
    shared = [(piece, token) for piece, mine in cut.with_tokens(tokens) for token in mine]

    assert [token for _, token in shared] == tokens
    assert all(piece.start <= token.start and token.end <= piece.end for piece, token in shared if token.kind == "mark")


def test_a_leaf_of_a_tree_begins_and_ends_with_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves: list[tuple[int, int]] = []

    def walk(tree: Any) -> None:
        if tree.expr_name in grammar.TERMINALS and tree.text:
            leaves.append((tree.start, tree.start + len(tree.text.rstrip())))
        for child in tree.children:
            walk(child)

    def watched(rule: str, text: str, offset: int) -> Any:
        tree = grammar.match(rule, text, offset)
        if not isinstance(tree, Mismatch):
            walk(tree)
        return tree

    monkeypatch.setattr("openinfer.dsl.parser.match", watched)
    text = PROGRAM.replace(", -1]", "]")
    words = recovered(text).cut.scan.words()

    assert {start for start, _ in leaves} <= {word.start for word in words}
    assert {end for _, end in leaves} <= {word.end for word in words}
    assert len(leaves) > 50


def test_a_program_is_its_heads_declarations_statements_and_ends() -> None:
    text = "dynamic { x: f32; } // in\nblock entry { scope s { return x; } }\n// end"

    assert pieces(text) == [
        ("memory_header", "dynamic {"),
        ("declaration", "x: f32;"),
        ("close_brace", "}"),
        ("block_header", "// in\nblock entry {"),
        ("scope", "scope s {"),
        ("return", "return x;"),
        ("close_brace", "}"),
        ("close_brace", "}"),
        ("end", "// end"),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("op relu(x >> y; return;", [("(op)", "op relu(x >> y;"), ("return", "return;")]),
        ("op relu(x) >> y\n return;", [("(op)", "op relu(x) >> y"), ("return", "return;")]),
        ("lop l { barrier; } return;", [("()", "lop l { barrier; }"), ("return", "return;")]),
        ("loop l (i) { return; }", [("(loop)", "loop l (i) {"), ("return", "return;"), ("close_brace", "}")]),
        ("scope é { return; }", [("(scope)", "scope é {"), ("return", "return;"), ("close_brace", "}")]),
    ],
)
def test_what_cannot_be_read_is_a_gap(body: str, expected: list[tuple[str, str]]) -> None:
    found = pieces(f"block b {{ {body} }}")

    assert found == [("block_header", "block b {"), *expected, ("close_brace", "}"), ("end", "")]


def test_a_piece_knows_its_section_and_block() -> None:
    found = recovered("constants { c: f32; }\nblock b { return; }").cut.pieces()

    assert [(piece.rule, piece.section, piece.block) for piece in found] == [
        *(("memory_header", "", ""), ("declaration", "constant", ""), ("close_brace", "constant", "")),
        *(("block_header", "", ""), ("return", "block", "b"), ("close_brace", "block", "b"), ("end", "", "")),
    ]


def test_a_section_after_a_forgotten_end_is_at_the_top() -> None:
    found = list(recovered("block a {\n  return;\n\nblock b {\n  return;\n}\n").cut.pieces())
    heads = [piece for piece in found if piece.rule == "block_header"]

    assert [(piece.section, piece.is_gap) for piece in heads] == [("", False), ("", False)]
    assert Piece("", found[1].end, found[1].end, "block", "a", is_gap=True) in found


def test_a_wrong_number_is_shown_whole() -> None:
    errors = recovered("persistent { K(l): f32 @table @fixed(l=1e-6); }").errors

    assert [error.message for error in errors] == ["expected an integer, found `1e-6`"]
