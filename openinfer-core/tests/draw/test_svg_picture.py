"""The SVG picture of a graph: every statement with its type, well-formed whatever the names are, and without script."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from openinfer.draw import svg
from openinfer.draw.accesses import access_type
from openinfer.dsl import graph, load_graph
from openinfer.ir.nodes import CacheRead
from openinfer.symbolic import IntExpr, Name

GOLDEN = Path(__file__).parents[1] / "golden" / "draw"
NAMESPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = "</title><script>alert(1)</script> ]]> & \0 \u202e \ud800"


def texts(picture: str, tag: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(picture).iter(f"{NAMESPACE}{tag}")]


@pytest.mark.parametrize("name", ["control", "decode"])
def test_every_block_and_statement_is_shown(name: str) -> None:
    program = load_graph(GOLDEN / f"{name}.oi")
    picture = svg(program, title=name)
    shown = texts(picture, "text")

    assert all(any(block == text for text in shown) for block in program.blocks)
    # One hover text for each statement, for each edge, and for the picture.
    assert len(texts(picture, "title")) >= 1 + sum(1 for _ in program.nodes())
    assert picture == svg(program, title=name)


def test_names_are_text_and_nothing_else() -> None:
    program = graph('volatile { y: f32; } block entry { scope "<b>&" { op relu(y) >> y; } return y; }')
    picture = svg(program, title=HOSTILE)

    assert "<script" not in picture
    assert "<b>" not in picture
    assert any('scope "<b>&"' in text for text in texts(picture, "text"))


def number(expr: IntExpr) -> int | None:
    return {"T": 5, "D": 8}.get(expr.name) if isinstance(expr, Name) else None


@pytest.mark.parametrize(
    ("access", "declared", "resolved"),
    [
        ("K[0, p..p+T]", "f32[T, D]", "f32[5, 8]"),
        ("K[0, p]", "f32[D]", "f32[8]"),
        ("K[0, 0..n]", "f32[n, D]", "f32[n, 8]"),
        ("K[0, n-3..n]", "f32[3, D]", "f32[3, 8]"),
        ("K[0, 2..2*n+T]", "f32[2*n+T-2, D]", "f32[2*n+3, 8]"),
        ("K[0, ..4]", "f32[4, D]", "f32[4, 8]"),
        ("K[0, 1..-1]", "f32[…, D]", "f32[…, 8]"),
        ("K[0]", "f32[…, D]", "f32[…, 8]"),
        ("K[]", "f32[…, …, D]", "f32[…, …, 8]"),
        ("A[1, 2]", "f32[a, b, D]", "f32[a, b, 8]"),
        ("s", "f32[D]", "f32[8]"),
    ],
)
def test_an_access_has_the_shape_that_its_slots_select(access: str, declared: str, resolved: str) -> None:
    program = graph(
        "persistent { n: i32; p: i32; s: f32[D]; K(l, t): f32[D] @table; A(a, b): f32[a, b, D] @auto_dim(a, b); }"
        f"block entry {{ cache.read {access} >> x; return; }}"
    )
    (read,) = (node.kind for _, node in program.nodes() if isinstance(node.kind, CacheRead))
    decl = program.vars[read.src.base]

    assert access_type(read.src, decl, lambda _: None) == declared
    assert access_type(read.src, decl, number) == resolved


def test_copies_have_types_without_a_model() -> None:
    program = graph(
        "dynamic { x: f32[T, D]; } persistent { n: i32; K(t): f32[D] @table; } block entry {"
        "cache.write x >> K[n..n+T]; cache.read K[0..n] >> k; transfer k >> c; op relu(c) >> d; return; }"
    )
    titles = texts(svg(program), "title")

    assert "cache.write x >> K[n..n+T]: f32[T, D]" in titles
    assert "transfer k >> c: f32[n, D]" in titles
    assert "op relu(c) >> d" in titles
