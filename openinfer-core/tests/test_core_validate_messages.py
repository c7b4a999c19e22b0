"""What findings against a model say: which types were found, what to do, and where sizes come from."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.diagnostics import Diagnostic, render
from openinfer.dsl import graph
from openinfer.errors import ValidationError
from openinfer.model import Model
from openinfer.validate import resolve

MODEL = Model.from_arrays({"a": np.zeros((4, 6), np.float32)}, sizevars={"B": 4, "D": 6})


def finding(declarations: str, statements: str = "") -> Diagnostic:
    """Return the only finding about a program."""
    try:
        warnings = resolve(graph(f"{declarations}\nblock entry {{ {statements} return; }}"), MODEL).warnings
    except ValidationError as error:
        (found,) = error.diagnostics
    else:
        (found,) = warnings
    assert isinstance(found, Diagnostic)
    return found


HALF = "volatile { x: f32[D]; h: f16[D]; } persistent { P: f32[D]; }"
CONVERSIONS = {
    "transfer": ("transfer x >> h;", "`x` is f32[6], `h` is f16[6]", "op cast(x, to=f16) >> h;"),
    "cache.read": ("cache.read P >> h;", "`P` is f32[6], `h` is f16[6]", "a variable of f32"),
    "cache.write": ("cache.write h >> P;", "`h` is f16[6], `P` is f32[6]", "a variable of f32"),
}


@pytest.mark.parametrize(("statement", "message", "hint"), CONVERSIONS.values(), ids=CONVERSIONS)
def test_a_copy_to_another_dtype_names_both_and_the_conversion(statement: str, message: str, hint: str) -> None:
    found = finding(HALF, statement)
    assert (found.code, found.message) == ("output-dtype", message)
    assert hint in (found.hint or "")
    assert {each.message for each in found.related} == {
        f"`{name}` is declared here" for name in message.split("`")[1::2]
    }


def test_a_copy_to_another_shape_tells_where_sizes_come_from() -> None:
    found = finding("volatile { x: f32[B]; y: f32[D]; }", "transfer x >> y;")
    assert found.code == "shape-mismatch"
    assert [each.message for each in found.related] == [
        "`x` is f32[B]: B = 4 from the model",
        "`y` is f32[D]: D = 6 from the model",
    ]


def test_a_persistent_scalar_is_no_value_of_a_setting() -> None:
    declarations = "volatile { x: f32[D]; } persistent { top: f32; }"
    found = finding(declarations, "op relu(x, clamp_max=top) >> x;")
    assert (found.code, found.hint) == ("persistent-direct", None)


def test_a_variable_among_extents_is_told_to_be_one() -> None:
    found = finding("dynamic { n: i64; } volatile { x: f32[n]; }")
    assert found.code == "unknown-sizevar"
    assert (found.hint or "").startswith("`n` is a variable")


def test_sizes_are_told_where_shapes_differ_and_not_where_only_dtypes_do() -> None:
    assert finding("volatile { a: f16[B, D]; }").related == ()
    (note,) = finding("volatile { a: f32[B, B]; }").related
    assert note.message == "`a` is f32[B, B]: B = 4 from the model, 6 from the model's `a`"


def test_a_note_about_the_same_place_shows_the_source_once() -> None:
    text = render(finding("volatile { a: f32[B, B]; }"))
    assert text.count("volatile { a: f32[B, B]; }") == 1
    assert "note: `a` is f32[B, B]" in text


@pytest.mark.parametrize("bound", ["n", "N+n"])
def test_a_bound_that_is_no_integer_scalar_tells_what_it_is(bound: str) -> None:
    declarations = "volatile { n: f32; x: f32[D]; } constant { N: i64 @init(2); }"
    found = finding(declarations, f"loop l (i in 0..{bound}) {{ op relu(x) >> x; }}")
    assert found.code == "bound-not-scalar"
    assert found.message.endswith("`n` is f32[], expected an integer scalar")
    assert found.span is not None
    assert found.span.source.text[found.span.start : found.span.end] == "n"


@pytest.mark.parametrize(
    ("awaited", "why"),
    [("x", "entry never yields `x`"), ("x, y", "entry never has `x`, `y` out together")],
)
def test_a_consumer_that_never_starts_tells_what_entry_never_yields(awaited: str, why: str) -> None:
    program = (
        "volatile { x: f32; y: f32; } block entry { return; }\n"
        f"block other {{ await {awaited}; op relu(x) >> y; yield {awaited}; }}"
    )
    (found,) = resolve(graph(program), MODEL).warnings
    assert found.code == "dead-consumer"
    assert found.message == f"consumer `other` never starts: {why}"
