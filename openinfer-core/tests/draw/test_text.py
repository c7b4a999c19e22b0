"""Mermaid and Graphviz text of graphs: golden files, the control flow they show, and hostile names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.draw import dot, mermaid
from openinfer.draw.flow import LINES_PER_RUN, MAX_HANDOVERS, EdgeKind, FlowKind, flow_of
from openinfer.draw.statements import Labels
from openinfer.dsl import graph, load_graph
from openinfer.ir.graph import Graph
from openinfer.model import Model
from openinfer.validate import resolve

GOLDEN = Path(__file__).parents[1] / "golden" / "draw"
PROGRAMS = ("control", "decode")
MINIMAL = "block entry { %s }"
HOSTILE = "</script><script>alert(1)</script> \"'`]]> --> %%{init: {}}%% \\ & #quot; ;\n\r\0\u202e \ud800"


@pytest.mark.parametrize("name", PROGRAMS)
def test_mermaid_is_the_golden_file(name: str) -> None:
    assert mermaid(load_graph(GOLDEN / f"{name}.oi")) == (GOLDEN / f"{name}.mmd").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PROGRAMS)
def test_dot_is_the_golden_file(name: str) -> None:
    assert dot(load_graph(GOLDEN / f"{name}.oi")) == (GOLDEN / f"{name}.dot").read_text(encoding="utf-8")


def edges_of(text: str) -> list[tuple[str, str, EdgeKind]]:
    """The edges of a program, each end named by the last line of its box."""
    built = graph(text)
    flow = flow_of(built, Labels(built))
    boxes = {node.number: f"{block.name}: {node.lines[-1]}" for block in flow.blocks for node in block.nodes}
    return [(boxes[edge.source], boxes[edge.target], edge.kind) for edge in flow.edges]


def test_a_loop_goes_into_its_body_back_to_its_head_and_on() -> None:
    edges = edges_of(MINIMAL % "loop l (i in 0..n) { barrier; } return;")

    assert ("entry: loop l (i in 0..n)", "entry: barrier", EdgeKind.EACH) in edges
    assert ("entry: barrier", "entry: loop l (i in 0..n)", EdgeKind.REPEAT) in edges
    assert ("entry: loop l (i in 0..n)", "entry: return", EdgeKind.NEXT) in edges


def test_an_empty_loop_goes_back_to_itself() -> None:
    edges = edges_of(MINIMAL % "loop l (i in 0..n) { }")

    assert ("entry: loop l (i in 0..n)", "entry: loop l (i in 0..n)", EdgeKind.REPEAT) in edges


def test_a_branch_calls_blocks_and_goes_on() -> None:
    edges = edges_of(MINIMAL % "branch c a b; branch a; barrier;" + "block a { return; } block b { return; }")

    assert ("entry: branch c a b", "a: start", EdgeKind.THEN) in edges
    assert ("entry: branch c a b", "b: start", EdgeKind.ELSE) in edges
    assert ("entry: branch c a b", "entry: branch a", EdgeKind.NEXT) in edges
    assert ("entry: branch a", "a: start", EdgeKind.CALL) in edges


def test_a_branch_to_a_block_that_is_missing_has_no_edge() -> None:
    assert edges_of(MINIMAL % "branch nowhere;") == [("entry: start", "entry: branch nowhere", EdgeKind.NEXT)]


def test_nothing_follows_a_return() -> None:
    edges = edges_of(MINIMAL % "return; barrier;")

    assert [edge[:2] for edge in edges] == [("entry: start", "entry: return")]


def test_yields_meet_the_awaits_of_consumers_and_the_other_way_round() -> None:
    text = MINIMAL % "yield x, y; await x; await y;" + "block p { await x; yield x; } block q { await y; yield y; }"
    handed = {edge[:2] for edge in edges_of(text) if edge[2] is EdgeKind.HANDOVER}

    assert handed == {
        ("entry: yield x, y", "p: await x"),
        ("entry: yield x, y", "q: await y"),
        ("p: yield x", "entry: await x"),
        ("q: yield y", "entry: await y"),
    }


def test_runs_are_cut_at_scopes_and_at_their_longest_length() -> None:
    text = MINIMAL % ("barrier; " * (LINES_PER_RUN + 1) + 'scope "s" { barrier; }')
    built = graph(text)
    (block,) = flow_of(built, Labels(built)).blocks

    assert [(node.kind, len(node.lines)) for node in block.nodes] == [
        (FlowKind.START, 1),
        (FlowKind.RUN, LINES_PER_RUN),
        (FlowKind.RUN, 1),
        (FlowKind.RUN, 2),
    ]
    assert block.nodes[-1].lines[0] == 'scope "s"'


def test_many_hand_overs_are_bounded_and_counted() -> None:
    text = MINIMAL % ("yield x; " * 60) + "".join(f"block p{i} {{ await x; yield x; }}" for i in range(60))
    built = graph(text)

    assert flow_of(built, Labels(built)).left_out == 60 * 60 - MAX_HANDOVERS
    assert f"{60 * 60 - MAX_HANDOVERS} more hand-overs" in mermaid(built)
    assert f"{60 * 60 - MAX_HANDOVERS} more hand-overs" in dot(built)


def test_shapes_are_the_declared_ones_without_a_model_and_numbers_with_one() -> None:
    built = graph("dynamic { x: f32[B]; } volatile { y: f32[B]; } block entry { op relu(x) >> y; return; }")
    resolved = resolve(built, Model.from_arrays(sizevars={"B": 3}))

    assert "op relu(x) >> y : f32[B]" in dot(built)
    assert "op relu(x) >> y : f32[3]" in dot(built, resolved)
    assert "x: f32[3]" in dot(built, resolved)


def test_a_loop_shows_how_often_it_runs_when_its_bounds_are_known() -> None:
    built = graph(
        "volatile { N: i32[2]; } block entry { loop l (i in 1..B) { loop m (B in 0..B) { barrier; } } return; }"
    )
    plain = graph("block entry { loop l (i in 1..2*B) { loop m (j in 0..i) { barrier; } } return; }")
    model = Model.from_arrays(sizevars={"B": 3})

    assert "times" not in dot(built, resolve(built, model)), "an index of that name hides the size"
    assert re.findall(r"(\w+) \(.*(\d) times", dot(plain, resolve(plain, model))) == [("l", "5")]


# Hostile names

SAFE_MERMAID = re.compile(r"[A-Za-z0-9 _.,()\[\]=+*/@|…-]|#(?:\d+|quot|lt|gt|amp);|<br/>")


def labels_of_mermaid(text: str) -> list[str]:
    """What is in quotes; checks that nothing else holds a quote."""
    parts = text.split('"')
    assert len(parts) % 2 == 1
    return parts[1::2]


def with_scope(name: str) -> Graph:
    """A program with one statement in a scope of that name."""
    built = graph('block entry { scope "s" { op relu(x, s="t") >> x; } }')
    block = built.blocks["entry"]
    nodes = tuple(replace(node, scope=(name,)) for node in block.nodes)
    return replace(built, blocks=MappingProxyType({"entry": replace(block, nodes=nodes)}))


def assert_mermaid_is_safe(text: str) -> None:
    for label in labels_of_mermaid(text):
        assert SAFE_MERMAID.sub("", label) == ""
    outside = "".join(text.split('"')[0::2])
    assert re.fullmatch(r"[\w \n\[\](){}/\\|<>.,:=-]*", outside), "only what the writer itself writes"


def assert_dot_is_safe(text: str) -> None:
    """Every line is one of the writer's, with quoted strings that end where they should."""
    text.encode("utf-8")
    quoted = r'"(?:[^"\\\n]|\\.)*"'
    for line in text.split("\n"):
        plain = re.sub(quoted, "Q", line)
        assert re.fullmatch(r"[\w =,;\[\]{}>.-]*", plain), line


@pytest.mark.parametrize("name", [HOSTILE, "\\", '"', "\\n", '\\"', "a\nb", "%%{init:{}}%%", "style: x#1;", "`md`"])
def test_hostile_scope_names_stay_inside_their_labels(name: str) -> None:
    built = with_scope(name)

    assert_mermaid_is_safe(mermaid(built))
    assert_dot_is_safe(dot(built))


@given(st.text(st.characters(exclude_categories=())))
def test_any_scope_name_stays_inside_its_label(name: str) -> None:
    built = with_scope(name)

    assert_mermaid_is_safe(mermaid(built))
    assert_dot_is_safe(dot(built))


def test_a_block_name_that_the_language_would_refuse_is_escaped_too() -> None:
    built = with_scope("s")
    block = replace(built.blocks["entry"], name=HOSTILE)
    odd = replace(built, blocks=MappingProxyType({HOSTILE: block}))

    assert_mermaid_is_safe(mermaid(odd))
    assert_dot_is_safe(dot(odd))


def test_graphviz_entities_of_a_program_are_text() -> None:
    assert "&amp;lt;" in dot(with_scope("&lt;"))
