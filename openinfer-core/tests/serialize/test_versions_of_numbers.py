"""Numbers as inputs of operators need version 4 of the graph JSON, in place or by name; settings do not."""

from __future__ import annotations

import pytest

from openinfer.dsl import graph
from openinfer.serialize import GraphSerialize


@pytest.mark.rule("json.versions.1")
@pytest.mark.parametrize(
    "statement",
    [
        "op f(x, 0.5) >> y;",
        "op mul(x, b=0.5) >> y;",
        "op mul(a=2, b=x) >> y;",
        "op where(mask, x, b=-inf) >> y;",
        "loop l (i in 0..2) { op add(x, b=1) >> y; }",
    ],
)
def test_a_graph_with_a_number_as_an_input_has_version_4(statement: str) -> None:
    written = GraphSerialize.json(graph(f"volatile {{ y: f32; }} block entry {{ {statement} }}"))

    assert written["schema_version"] == 4


@pytest.mark.rule("json.versions.1")
@pytest.mark.parametrize("statement", ["op softmax(x, axis=1) >> y;", "op mul(a=x, b=x) >> y;", "op f(x, b=1) >> y;"])
def test_settings_are_no_inputs(statement: str) -> None:
    written = GraphSerialize.json(graph(f"volatile {{ y: f32; }} block entry {{ {statement} }}"))

    assert "schema_version" not in written
