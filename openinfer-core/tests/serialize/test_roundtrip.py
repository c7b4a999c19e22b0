"""Properties over generated graphs: printing and parsing, and writing and reading JSON, lose nothing."""

from __future__ import annotations

import json
import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import LIMITS, graphs

from openinfer.diagnostics import Diagnostic
from openinfer.dsl import graph
from openinfer.dsl.formatting import formatted
from openinfer.errors import DslSyntaxError, GraphError
from openinfer.ir.graph import Graph
from openinfer.serialize import GraphDeserialize, GraphSerialize
from openinfer.testing.waiting import limit_s


@pytest.mark.rule("language.canonical.1")
@LIMITS
@given(graphs())
def test_printed_text_parses_to_an_equal_graph(built: Graph) -> None:
    text = built.to_dsl()
    again = graph(text)
    assert again == built
    assert again.to_dsl() == text


@pytest.mark.rule("json.graphs.8")
@LIMITS
@given(graphs())
def test_json_reads_back_as_an_equal_graph_with_the_same_numbers_and_ids(built: Graph) -> None:
    text = GraphSerialize.text(built)
    again = GraphDeserialize.from_json(text)
    assert again == built
    assert again.warnings == ()
    assert again.next_index == built.next_index
    assert {(node.index, node.uuid) for _, node in again.nodes()} == {
        (node.index, node.uuid) for _, node in built.nodes()
    }
    assert GraphSerialize.text(again) == text
    assert GraphDeserialize.from_json(json.loads(text)) == built


@LIMITS
@given(graphs())
def test_text_json_and_text_again_agree(built: Graph) -> None:
    read = graph(built.to_dsl())
    again = GraphDeserialize.from_json(GraphSerialize.json(read))
    assert sorted(again.to_dsl().splitlines()) == sorted(built.to_dsl().splitlines())
    assert graph(again.to_dsl()) == built


PIECES = st.sampled_from(
    [
        *(
            "block entry { ",
            "}",
            "{",
            ";",
            "op f(x) >> y",
            "loop l (i in 0..3) {",
            "x: f32[B]",
            "volatile {",
            "@init(",
            "1.0",
        ),
        *(
            ")",
            "(",
            "[",
            "]",
            "..",
            ">>",
            "with { ",
            "fuse = true",
            '"',
            '"a"',
            "//",
            "/*",
            "*/",
            "\n",
            "cache.read K[",
            "-",
        ),
        *(
            "@",
            "assign t",
            ":",
            ",",
            "0x",
            "9" * 30,
            "\\",
            "é",
            "#",
            "scope s {",
            "branch a b",
            "+",
            "*",
            "1e",
            "return",
            " ",
        ),
    ]
)


def findings_of(text: str) -> tuple[Diagnostic, ...]:
    try:
        graph(text)
    except (DslSyntaxError, GraphError) as error:
        return error.diagnostics or pytest.fail(f"no findings in {error!r}")
    return ()


@pytest.mark.rule("language.phases.5")
@settings(max_examples=300, deadline=1000 * limit_s(5))
@given(st.one_of(st.lists(PIECES, max_size=25).map("".join), st.text(max_size=40)))
def test_any_text_is_a_program_or_an_error_with_a_place(text: str) -> None:
    assert all(0 <= finding.span.start <= finding.span.end <= len(text) for finding in findings_of(text))


@LIMITS
@given(graphs())
def test_layout_leaves_canonical_text_as_it_is(built: Graph) -> None:
    assert formatted(built.to_dsl()) == built.to_dsl()


@LIMITS
@given(graphs(), st.randoms(use_true_random=False))
def test_layout_does_not_depend_on_white_space(built: Graph, random: Random) -> None:
    canonical = built.to_dsl()
    crowded = re.sub(
        r'("(?:[^"\\\n]|\\[^\n])*")|([;{}(),\[\]=:@]) ?|\n *',
        lambda found: found[1] or f"{found[2] or ''}{random.choice(['', ' ', chr(10), '  '])}",
        canonical,
    )
    laid_out = formatted(crowded)
    assert graph(laid_out) == built
    assert formatted(laid_out) == laid_out
