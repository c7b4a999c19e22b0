"""Temporaries that no path to a statement has assigned are reported before the program runs, where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from openinfer.diagnostics import Diagnostic, Severity
from openinfer.dsl import graph
from openinfer.errors import OpenInferError, ValidationError
from openinfer.model import Model
from openinfer.ops.applying import call_of
from openinfer.validate import op_inference, operators, resolve

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema

WRONG = {
    "read": "transfer «t» >> y; assign t: f32[2];",
    "written": "transfer x >> «t»; assign t: f32[2];",
    "input of an operator": "op add(x, «t») >> y; assign t: f32[2];",
    "output of an operator": "op relu(x) >> «t»; assign t: f32[2];",
    "written to a cache": "cache.write «t» >> P; assign t: f32[2];",
    "read from a cache": "cache.read P >> «t»; assign t: f32[2];",
    "condition": "branch «c» s s; assign c: bool;",
    "first round of a loop": "loop l (i in 0..2) { transfer «t» >> y; assign t: f32[2]; }",
    "a loop before": "loop l (i in 0..2) { transfer «t» >> y; } assign t: f32[2];",
    "scope": 'scope "s" { transfer «t» >> y; } assign t: f32[2];',
}
RIGHT = {
    "assigned before": "assign t: f32[2]; transfer t >> y;",
    "assigned in a loop that may not run": "loop l (i in 0..n) { assign t: f32[2]; } transfer t >> y;",
    "an earlier statement of the loop": "loop l (i in 0..2) { assign t: f32[2]; transfer t >> y; }",
    "after the end": "return; transfer t >> y; assign t: f32[2];",
    "a name in an index that means a size": "cache.read K[N] >> y; assign N: f32[2];",
}


def program(statements: str) -> str:
    return (
        "dynamic { x: f32[2]; n: i64; } volatile { y: f32[2]; } persistent { P: f32[2]; K(l): f32[2] @table; }\n"
        f"block entry {{ {statements} return; }}\nblock s {{ return; }}\n"
    )


def errors(text: str) -> list[Diagnostic]:
    try:
        resolve(graph(text), Model.from_arrays({}, sizevars={"N": 3}))
    except ValidationError as error:
        found = [each for each in error.diagnostics if isinstance(each, Diagnostic)]
        return [each for each in found if each.severity is Severity.ERROR]
    return []


def findings(text: str) -> list[tuple[str, int]]:
    """Return code and offset of every error."""
    return [(found.code, found.span.start) for found in errors(text) if found.span is not None]


@pytest.mark.rule("language.temporaries.4")
@pytest.mark.parametrize("statements", WRONG.values(), ids=WRONG)
def test_a_use_before_the_assign_is_reported_at_the_use(statements: str) -> None:
    text = program(statements)
    place = text.index("«")
    found = findings(text.replace("«", "").replace("»", ""))
    assert found == [("temporary-unset", place)]


@pytest.mark.rule("language.temporaries.4")
@pytest.mark.parametrize("statements", RIGHT.values(), ids=RIGHT)
def test_what_may_have_been_assigned_is_left_to_the_run(statements: str) -> None:
    assert findings(program(statements)) == []


def test_each_temporary_is_reported_at_each_statement_with_the_place_of_its_assign() -> None:
    text = program("op add(t, t) >> y; transfer t >> y; assign t: f32[2];")
    found = errors(text)
    assert [each.code for each in found] == ["temporary-unset", "temporary-unset"]
    spans = [related.span for each in found for related in each.related]
    assert [text[span.start : span.end] for span in spans] == ["assign t: f32[2]"] * 2


def test_the_rule_of_a_statement_whose_types_are_inferred_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(schema: OpSchema, *arguments: Any) -> OpCall:
        calls.append(schema.name)
        return call_of(schema, *arguments)

    monkeypatch.setattr(operators, "call_of", counted)
    monkeypatch.setattr(op_inference, "call_of", counted)
    text = "op exp(x) >> t; op concat(t, x, axis=0) >> u; op slice(u, starts=[1], ends=[3]) >> y; op add(t, y) >> y;"
    resolved = resolve(graph(program(text)), Model.from_arrays({}))
    assert calls == ["exp", "concat", "slice", "add"]
    assert [op.output_types[0].shape for op in resolved.ops.values()] == [(2,), (4,), (2,), (2,)]


STATEMENTS = {
    "plain": "op exp(x) >> t; op add(t, x) >> u; op relu(u) >> y;",
    "in place": "op exp(x) >> t; op add(t, x) >> t; op relu(t) >> y;",
    "in a loop": "loop l (i in 0..2) { op exp(x) >> t; op add(t, i) >> u; }",
    "what is read from memory": "cache.read K[0..n] >> k; op exp(k) >> e; op exp(e) >> f;",
    "counted": "op nonzero(x) >> places, count; op neg(places) >> t;",
    "persistent": "op exp(P) >> t;",
    "a table": "op exp(K) >> t;",
    "written twice": "op exp(x) >> t; op gt(x, x) >> t;",
    "another shape": "op exp(x) >> t; op exp(n) >> t;",
    "unknown": "op exp(z) >> t; op exp(t) >> u;",
    "indexed": "op exp(x) >> t; op exp(t[0]) >> u;",
    "too many outputs": "op exp(x) >> t, u;",
}


def never(_: object) -> None:
    """Settle no statement."""


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_inference_settled_is_what_the_check_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[object] = []
    for is_checked in (False, True):
        if is_checked:
            monkeypatch.setattr("openinfer.validate.operators._Resolution._plain", never)
        try:
            outcomes.append(resolve(graph(program(STATEMENTS[name]), check=False), Model.from_arrays({})).ops)
        except OpenInferError as error:
            outcomes.append(error.diagnostics)
    assert outcomes[0] == outcomes[1]
