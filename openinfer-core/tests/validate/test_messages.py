"""What findings against a model say: which types were found, what to do, and where sizes come from."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.diagnostics import Diagnostic, render
from openinfer.dsl import graph
from openinfer.errors import ValidationError
from openinfer.model import Model
from openinfer.plugins.environment import Environment
from openinfer.validate import resolve, signature_findings

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


@pytest.mark.rule("language.transfer.1")
@pytest.mark.parametrize(("statement", "message", "hint"), CONVERSIONS.values(), ids=CONVERSIONS)
def test_a_copy_to_another_dtype_names_both_and_the_conversion(statement: str, message: str, hint: str) -> None:
    found = finding(HALF, statement)
    assert (found.code, found.message) == ("output-dtype", message)
    assert hint in (found.hint or "")
    assert {each.message for each in found.related} == {
        f"`{name}` is declared here" for name in message.split("`")[1::2]
    }


def test_the_error_about_a_copy_to_another_shape_names_where_sizes_come_from() -> None:
    found = finding("volatile { x: f32[B]; y: f32[D]; }", "transfer x >> y;")
    assert found.code == "shape-mismatch"
    assert [each.message for each in found.related] == [
        "`x` is f32[B]: B = 4 from the model",
        "`y` is f32[D]: D = 6 from the model",
    ]


@pytest.mark.rule("language.settings.5")
def test_a_persistent_scalar_is_not_a_value_of_a_setting() -> None:
    declarations = "volatile { x: f32[D]; } persistent { top: f32; }"
    found = finding(declarations, "op relu(x, clamp_max=top) >> x;")
    assert (found.code, found.hint) == ("persistent-direct", None)


def test_a_variable_among_extents_is_reported_to_be_one() -> None:
    found = finding("dynamic { n: i64; } volatile { x: f32[n]; }")
    assert found.code == "unknown-sizevar"
    assert (found.hint or "").startswith("`n` is a variable")
    found = finding("", "assign n: i64; assign x: f32[n + 1];")
    assert found.code == "unknown-sizevar"
    assert (found.hint or "").startswith("`n` is a variable")


def test_a_size_that_cannot_be_overridden_is_reported_with_those_that_can() -> None:
    with pytest.raises(ValidationError) as caught:
        resolve(graph("block entry { return; }"), MODEL, sizes={"Q": 2})
    (found,) = caught.value.diagnostics
    assert isinstance(found, Diagnostic)
    assert (found.code, found.hint) == ("unknown-sizevar", "its size variables are B, D")


def test_sizes_are_reported_where_shapes_differ_and_not_where_only_dtypes_do() -> None:
    assert finding("volatile { a: f16[B, D]; }").related == ()
    (note,) = finding("volatile { a: f32[B, B]; }").related
    assert note.message == "`a` is f32[B, B]: B = 4 from the model, 6 from the model's `a`"


def test_a_note_about_the_same_place_shows_the_source_once() -> None:
    text = render(finding("volatile { a: f32[B, B]; }"))
    assert text.count("volatile { a: f32[B, B]; }") == 1
    assert "note: `a` is f32[B, B]" in text


@pytest.mark.parametrize("bound", ["n", "N+n"])
def test_the_error_about_a_bound_that_is_not_an_integer_scalar_names_its_type(bound: str) -> None:
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
def test_a_warning_about_a_consumer_that_never_starts_names_what_entry_never_yields(awaited: str, why: str) -> None:
    program = (
        "dynamic { x: f32; y: f32; } block entry { return; }\n"
        f"block other {{ await {awaited}; op relu(x) >> y; yield {awaited}; }}"
    )
    (found,) = resolve(graph(program), MODEL).warnings
    assert found.code == "dead-consumer"
    assert found.message == f"consumer `other` never starts: {why}"


OPERANDS = "volatile { x: f32[B]; n: i32[D]; y: f32[B]; } persistent { P: f32[B]; }"
RULES = {
    "unknown setting": ("op relu(x, alpa=1) >> y;", "relu(x: f32[4]) has no setting `alpa`; it has"),
    "setting missing": ("op fill(x) >> y;", "fill(x: f32[4]) needs the setting `value` (scalar)"),
    "setting given twice": (
        "op clamp(x, min=0, clamp_min=0) >> y;",
        "clamp(x: f32[4]): `min` and `clamp_min` are both given",
    ),
    "kind of a setting": ('op cast(x, to="f32") >> y;', "cast(x: f32[4]): setting `to` takes dtype, found a string"),
    "choice of a setting": ('op round(x, mode="near") >> y;', "round(x: f32[4]): setting `mode` is one of half_away"),
    "value of a setting": ("op fill(n, value=0.5) >> n;", "fill(n: i32[6]): setting 'value' is 0.5; for i32 it takes"),
    "range of a setting": ("op sum_axis(x, axes=[7]) >> y;", "sum_axis(x: f32[4]): axis 7 is out of range for rank 1"),
    "name in a setting": ("op relu(x, alpha=zz) >> y;", "relu(x: f32[4]): setting `alpha`: unknown variable `zz`"),
    "inputs missing": ("op add(x) >> y;", "add(x: f32[4]) takes a, b; found 1 input, missing: b"),
    "inputs too many": ("op relu(x, n) >> y;", "relu(x: f32[4], n: i32[6]) takes at most 1 input (x), found 2"),
    "input by name": (
        'op linear(x, w=n, bias="b") >> y;',
        "linear(x: f32[4], n: i32[6]): input `bias` takes a variable or a number",
    ),
    "outputs too many": ("op relu(x) >> y, n;", "relu(x: f32[4]) has 1 output (y), found 2"),
    "dtype": ("op exp(n) >> n;", "exp(n: i32[6]) takes no i32[6] as x"),
    "dtypes": ("op add(x, n) >> y;", "add(x: f32[4], n: i32[6]): inputs of add have one dtype"),
    "in place": ("op sum_axis(x) >> x;", "sum_axis(x: f32[4]) cannot write to its own input `x`"),
    "output dtype": ("op sign(x) >> y;", "sign(x: f32[4]) yields i8, `y` is declared f32[4]"),
}


@pytest.mark.parametrize(("statement", "message"), RULES.values(), ids=RULES)
def test_a_broken_rule_names_the_operator_and_its_inputs_with_their_types(statement: str, message: str) -> None:
    assert finding(OPERANDS, statement).message.startswith(message)


def test_without_a_model_types_are_reported_as_far_as_they_are_known() -> None:
    program = graph("volatile { x: f32[B, 2*D]; } block entry { op relu(x, alpa=1) >> x; op fill(zz) >> x; return; }")

    found = signature_findings(program, Environment.default())

    assert [each.message.partition(")")[0] for each in found] == ["relu(x: f32[B, 2*D]", "fill(zz"]


FACTORS = "dynamic { x: f32[B, D]; s: f32[D, B]; w: f32[7, D]; v: f32[D, 7]; } volatile { y: f32[B, 7]; }"
SWAPS = {
    "weights as other frameworks have them": ("op linear(x, w) >> y;", "`trans_w=true` takes w as [N, K]"),
    "swapped weights that are plain": ("op linear(x, v, trans_w=true) >> y;", "without `trans_w` it takes w as [K, N]"),
    "right factor": ("op matmul(x, w) >> y;", "`trans_b=true` takes b as [..., N, K]"),
    "left factor": ("op matmul(s, s, trans_b=true, trans_a=true) >> y;", "without `trans_b` it takes b as [..., K, N]"),
    "left factor alone": ("op matmul(x, y) >> y;", "`trans_a=true` takes a as [..., K, M]"),
    "no layout fits": ("op matmul(s, w) >> y;", None),
}


@pytest.mark.parametrize(("statement", "hint"), SWAPS.values(), ids=SWAPS)
def test_matrices_that_fit_when_swapped_name_the_setting(statement: str, hint: str | None) -> None:
    found = finding(FACTORS, statement)
    assert (found.code, "have no product" in found.message) == ("shape-mismatch", True)
    assert found.hint == hint


@pytest.mark.parametrize(
    ("declared", "hint"),
    [
        ("a: f32[D, B]", "the dims are the other way round: write `a: f32[B, D]`"),
        ("a: f32[D, 2*2]", "the dims are the other way round: write `a: f32[2*2, D]`"),
        ("a: f32[D, D]", None),
        ("a: f64[B, D]", None),
        ("a: f32[24]", None),
    ],
)
def test_dims_of_a_tensor_in_the_other_order_are_pointed_out(declared: str, hint: str | None) -> None:
    found = finding(f"constant {{ {declared}; }}")
    assert (found.code, found.hint) == ("model-mismatch", hint)


def test_a_constant_without_a_tensor_is_shown_ref_and_the_tensors_that_there_are() -> None:
    shapes = {"norm": (6,), "fc1.weight": (4, 6), **{f"b{n}": (1,) for n in range(20)}}
    model = Model.from_arrays({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    with pytest.raises(ValidationError) as caught:
        resolve(graph("constant { hidden_1: f32[4, 6]; } block entry { return; }"), model)
    (found,) = caught.value.diagnostics
    assert isinstance(found, Diagnostic)
    assert found.hint is not None
    # The tensor of the declared type comes first.
    assert found.hint.startswith('name its tensor, such as @ref("fc1.weight"), or write @init(...); ')
    assert "are `fc1.weight`, `norm`, `b0`, " in found.hint
    assert found.hint.endswith(" and 10 more")
