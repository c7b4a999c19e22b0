"""Findings of the structure check show the other place involved, and no consequences of a misspelt name."""

from __future__ import annotations

import pytest

from openinfer.dsl import graph
from openinfer.ir.check import structure_findings
from openinfer.plugins.loader import load_environment
from openinfer.validate import signature_findings

NAMES = 'volatile { x: f32; y: f32; W(l): f32 @pattern("W.{l}"); }\n'
CONSUMER = "block other { await x; op relu(x) >> x; yield x; }\n"

NOTES = {
    "assigned twice": ("[assign t: f32]; assign t: f32;", "duplicate-name", "the first `assign` of it"),
    "index of a temporary": (
        "[assign t: f32]; loop l (t in 0..2) { barrier; }",
        "duplicate-name",
        "its `assign` is here",
    ),
    "index of a variable": ("loop l (y in 0..2) { barrier; }", "duplicate-name", "`y` is declared here"),
    "entry of a prefix table": ("transfer x >> W;", "write-readonly", "`W` is declared here"),
    "used while it is out": ("[yield x]; transfer x >> y; await x;", "yield-rules", "`x` is yielded here"),
    "yielded again": ("[yield x]; yield x; await x;", "yield-rules", "`x` is yielded here"),
    "out at the end": ("[yield x]; return;", "yield-rules", "`x` is yielded here"),
}


@pytest.mark.parametrize(("statements", "code", "note"), NOTES.values(), ids=NOTES)
def test_the_other_place_is_shown(statements: str, code: str, note: str) -> None:
    marked = statements.partition("[")[2].partition("]")[0]
    text = NAMES + CONSUMER + "block entry { " + statements.replace("[", "").replace("]", "") + " return; }"
    found = next(each for each in structure_findings(graph(text)) if each.code == code)
    (related,) = found.related
    assert note in related.message
    shown = text[related.span.start : related.span.end]
    assert shown.startswith(marked or related.message.split("`")[1])


def test_a_misspelt_block_does_not_leave_the_right_one_unreachable() -> None:
    text = "block entry { branch helpr; return; } block helper { return; } block lost { return; }"
    (found,) = structure_findings(graph(text))
    assert (found.code, found.hint) == ("unknown-block", "did you mean `helper`?")
    right = text.replace("helpr", "helper")
    assert [each.message for each in structure_findings(graph(right))] == ["no branch leads to block `lost`"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("op add(x) >> y;", "found 1 input, missing: b"),
        ("op add() >> y;", "found 0 inputs, missing: a, b"),
        ("op relu(x, x) >> y;", "takes at most 1 input (x), found 2"),
        ("op add(x, x, x) >> y;", "takes at most 2 inputs (a, b), found 3"),
        ("op relu(x) >> y, x;", "has 1 output (y), found 2"),
    ],
)
def test_numbers_of_inputs_and_outputs_agree_with_their_nouns(statement: str, message: str) -> None:
    built = graph(f"{NAMES}block entry {{ {statement} return; }}")
    (found,) = signature_findings(built, load_environment(autoload=False))
    assert (found.code, message in found.message) == ("arity", True), found.message
