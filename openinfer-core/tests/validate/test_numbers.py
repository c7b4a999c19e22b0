"""Numbers in place of inputs: their types follow from the other inputs, or the program is refused."""

from __future__ import annotations

import pytest

from openinfer.diagnostics import Diagnostic, Severity
from openinfer.dsl import graph
from openinfer.dsl.builder import GraphBuilder
from openinfer.errors import ValidationError
from openinfer.ir.graph import Graph
from openinfer.ir.resolved import ResolvedGraph, Storage
from openinfer.model import Model
from openinfer.validate import resolve

DECLARED = (
    "dynamic { x: f32[4]; h: f16[4]; k: i32[4]; n: u8; m: bool[4]; w: f32[4, 4]; q: i8[4, 4]; z: u64[4]; }\n"
    "constant { one: f32 @init(1.0); }\n"
)
MODEL = Model.from_arrays({})

TYPES = {
    "second input": ("op mul(x, 0.5) >> t;", ["f32"]),
    "first input": ("op sub(1.0, h) >> t;", ["f16"]),
    "comparison": ("op le(n, 8) >> t;", ["u8"]),
    "input next to a mask": ("op where(m, x, -inf) >> t;", ["f32"]),
    "mask": ("op where(true, x, x) >> t;", ["bool"]),
    "several": ("op fma(x, 2.0, 1.0) >> t;", ["f32", "f32"]),
    "by name": ("op fma(x, 2.0, c=1.5) >> t;", ["f32", "f32"]),
    "truth value": ("op eq(m, false) >> t;", ["bool"]),
    "number of a truth value": ("op eq(m, 1) >> t;", ["bool"]),
    "greatest": ("op min(z, 18446744073709551615) >> t;", ["u64"]),
    "index of integers": ("op gather(k, 0) >> t;", ["i32"]),
    "temporary": ("op cast(x, to=f64) >> d; op add(d, 1e300) >> t;", ["f64"]),
    "temporary of a later block": ("branch b; op add(later, 1.0) >> t;", ["f16"]),
    "loop index": ("loop l (i in 0..2) { op mul(i, 3) >> t; }", ["i64"]),
    "declared output": ("op add(x, 1.0) >> x;", ["f32"]),
}

WRONG = {
    "out of range": ("op add(n, «300») >> t;", "add(n: u8[], 300): 300 does not fit u8 (0..255)"),
    "negative": ("op add(n, «-1») >> t;", "-1 does not fit u8"),
    "float of integers": ("op add(k, «0.5») >> t;", "i32 takes an integer, found 0.5"),
    "integer of floats": ("op mul(x, «2») >> t;", "f32 takes a float, found the integer 2: write 2.0"),
    "overflow": ("op mul(h, «1e6») >> t;", "1000000.0 overflows f16: write inf"),
    "truth value of integers": ("op add(k, «true») >> t;", "i32 takes an integer, found true"),
    "only input": ("op exp(«0.5») >> t;", "exp(0.5): no other input says which type `0.5` has"),
    "by name": ("op fma(x, x, c=«1») >> t;", "f32 takes a float, found the integer 1"),
    "type of its own": ("op gather(x, «0») >> t;", "input `indices` has a type of its own: `0` could be"),
    "several types": ("op layer_norm(x, h, bias=«0.0») >> t;", "several types: `0.0` could be f16 or f32"),
    "no variable but the mask": ("op where(m, «1.0», 0.0) >> t;", "no other input says which type `1.0` has"),
}


def resolved(built: Graph) -> ResolvedGraph:
    return resolve(built, MODEL)


def errors(text: str) -> list[Diagnostic]:
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), MODEL)
    findings = [found for found in caught.value.diagnostics if isinstance(found, Diagnostic)]
    return [found for found in findings if found.severity is Severity.ERROR]


@pytest.mark.rule("language.operators.3", "language.operators.7")
@pytest.mark.parametrize(("statements", "dtypes"), TYPES.values(), ids=TYPES)
def test_a_number_has_the_type_of_the_other_inputs(statements: str, dtypes: list[str]) -> None:
    text = f"{DECLARED}block entry {{ {statements} return; }}\nblock b {{ op cast(x, to=f16) >> later; return; }}"
    constants = [v for v in resolved(graph(text)).variables.values() if "@" in v.name]
    assert [(v.type.dtype.name, v.type.shape, v.storage) for v in constants] == [
        (dtype, (), Storage.CONSTANT) for dtype in dtypes
    ]


@pytest.mark.rule("language.operators.7")
@pytest.mark.parametrize(("statements", "message"), WRONG.values(), ids=WRONG)
def test_a_number_that_has_no_type_or_does_not_fit_is_reported_where_it_stands(statements: str, message: str) -> None:
    text = f"{DECLARED}block entry {{ {statements} return; }}"
    place = text.index("«")
    found, *_ = errors(text.replace("«", "").replace("»", ""))
    assert (found.code, message in found.message) == ("number-type", True), found
    assert found.span is not None
    assert found.span.start == place


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("op add(1, 2.0) >> t;", "declare it: `NAME: i32 @init(1);` under `constant`, and write NAME here"),
        ("op where(m, 0.5, 1.0) >> t;", "declare it: `NAME: f32 @init(0.5);` under `constant`, and write NAME here"),
        ("op add(true, 2.0) >> t;", "declare it: `NAME: bool @init(true);` under `constant`, and write NAME here"),
    ],
)
def test_numbers_without_a_type_are_one_mistake(statement: str, hint: str) -> None:
    (error,) = errors(f"{DECLARED}block entry {{ {statement} return; }}")
    assert (error.code, error.hint) == ("number-type", hint)


def test_a_message_about_a_number_shows_no_declaration_of_it() -> None:
    (error,) = errors(f"{DECLARED}block entry {{ op matmul(w, 2.0) >> t; return; }}")
    assert error.message.startswith("matmul(w: f32[4,4], 2.0: f32[])")
    assert [note.message for note in error.related] == ["`w` is declared here"]


def test_a_number_next_to_a_mistake_is_no_second_one() -> None:
    text = f"{DECLARED}block entry {{ op add(nowhere, 1) >> t; op add(t, 1) >> u; op mul(one, t) >> v; return; }}"
    assert [found.code for found in errors(text)] == ["unknown-variable"]


def test_a_resolved_program_shows_and_resolves_its_numbers_as_written() -> None:
    built = graph(f"{DECLARED}block entry {{ op fma(x, 2.0, c=1.5) >> t; op mul(t, 0.5) >> u; return u; }}")
    shown = resolved(built).graph
    assert shown.to_dsl() == built.to_dsl()
    assert shown.to_json() == built.to_json()
    assert resolve(shown, MODEL).variables == resolve(built, MODEL).variables


def test_a_program_without_numbers_stays_the_same_object() -> None:
    built = graph(f"{DECLARED}block entry {{ op fma(x, one, c=one) >> t; op relu(t, alpha=0.5) >> u; return u; }}")
    assert resolved(built).graph is built


def test_the_builder_takes_numbers() -> None:
    builder = GraphBuilder()
    x = builder.dynamic("x", "f32", [4])
    with builder.block("entry"):
        builder.op("where", True, x, -0.5, outputs="t")
        builder.op("add", x, float("inf"), outputs="y")
        builder.op("add", 2**64 - 1, 3, outputs="z")
        builder.return_("t", "y", "z")
    text = "dynamic { x: f32[4]; } block entry { op where(true, x, -0.5) >> t; op add(x, inf) >> y;"
    assert builder.build() == graph(f"{text} op add(18446744073709551615, 3) >> z; return t, y, z; }}")
