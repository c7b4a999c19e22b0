"""Findings against a model point at the part at fault (between « and ») and tell where every size comes from."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.diagnostics import Diagnostic
from openinfer.dsl import graph
from openinfer.errors import ValidationError
from openinfer.ir.nodes import Node
from openinfer.ir.text import node_desc
from openinfer.model import Model
from openinfer.validate import resolve

DECLARED = """\
dynamic { x: f32[D]; k: i32[D]; n: f32; }
volatile { y: f32[D]; z: f32[2]; W(l): f32[D] @pattern("W.{l}"); }
constant { c: f32[D] @init(1.0); }
persistent { p: f32[D]; K(t): f32[D] @table; s: f32[2]; }
"""
MODEL = Model.from_arrays({"W.0": np.zeros(4, np.float32), "W.1": np.zeros(7, np.float32)}, sizevars={"D": 4})

STATEMENTS = {
    "operator": ("unknown-op", "op «relo»(x) >> y;"),
    "missing input": ("arity", "op «add»(x) >> y;"),
    "inputs too many": ("arity", "op relu(x, «x, x») >> y;"),
    "outputs too many": ("arity", "op relu(x) >> y, «z»;"),
    "input twice": ("arity", "op relu(x, «x»=x) >> y;"),
    "name of a setting": ("unknown-setting", "op relu(x, «slop»=1.0) >> y;"),
    "two spellings": ("duplicate-setting", "op relu(x, alpha=1.0, «negative_slope»=1.0) >> y;"),
    "missing setting": ("missing-setting", "op «cast»(x) >> y;"),
    "value of a setting": ("setting-type", "op softmax(x, axis=«true») >> y;"),
    "name in a value": ("unknown-variable", "op relu(x, alpha=«nowhere») >> y;"),
    "axis out of range": ("shape-mismatch", "op softmax(x, axis=«9») >> y;"),
    "axes out of range": ("shape-mismatch", "op sum_axis(x, axes=«[0, 5]») >> n;"),
    "dims of a permutation": ("shape-mismatch", "op transpose(x, dims=«[3]») >> y;"),
    "name in a list": ("unknown-variable", "op sum_axis(x, axes=[0, «q»]) >> n;"),
    "conflict of settings": ("setting-type", "op split(x, parts=2, sizes=«[2, 2]») >> y, z;"),
    "input of a wrong type": ("dtype-unsupported", "op add(x, «k») >> y;"),
    "shapes of inputs": ("shape-mismatch", "op matmul(«x, z») >> y;"),
    "shape of an output": ("shape-mismatch", "op relu(x) >> «z»;"),
    "type of an output": ("output-dtype", "op cast(x, to=i32) >> «y»;"),
    "constant output": ("write-constant", "op relu(x) >> «c»;"),
    "persistent output": ("persistent-direct", "op relu(x) >> «p»;"),
    "persistent input": ("persistent-direct", "op add(x, «p») >> y;"),
    "own input": ("inplace-denied", "op sum_axis(x, axes=[0]) >> «x»;"),
    "entry of the wrong shape": ("model-mismatch", "op add(x, «W[1]») >> y;"),
    "entry that is missing": ("unbound", "op add(«W[2]», x) >> y;"),
    "name in an index": ("unknown-variable", "op relu(W[«q»]) >> y;"),
    "transfer": ("shape-mismatch", "transfer x >> «z»;"),
    "transfer of a persistent": ("persistent-direct", "transfer «p» >> y;"),
    "transfer to a constant": ("write-constant", "transfer x >> «c»;"),
    "cache.read": ("shape-mismatch", "cache.read K[0] >> «z»;"),
    "index of cache.read": ("unknown-variable", "cache.read K[«q»] >> y;"),
    "cache.write": ("shape-mismatch", "cache.write «z» >> K[0];"),
    "index of cache.write": ("bound-not-scalar", "cache.write y >> K[«x»];"),
    "cache.increment": ("dtype-unsupported", "cache.increment «s»;"),
    "start of a loop": ("bound-not-scalar", "loop l (i in «n»..3) { }"),
    "end of a loop": ("unknown-variable", "loop l (i in 0..«q»+1) { }"),
    "start of a loop past 64 bits": ("integer-range", "loop l (i in «0-2*9223372036854775807»..3) { }"),
    "end of a loop past 64 bits": ("integer-range", "loop l (i in 0..«9223372036854775807+1») { }"),
    "index past 64 bits": ("integer-range", "cache.write y >> «K[D*9223372036854775807]»;"),
    "index of cache.reset past 64 bits": ("integer-range", "cache.reset «K[2*9223372036854775807]»;"),
    "setting past 64 bits": ("integer-range", "op reshape(x, shape=«[2*9223372036854775807, 1]») >> y;"),
    "condition": ("cond-not-scalar", "branch «x» b b;"),
    "extent of a temporary": ("unknown-sizevar", "assign t: f32[2, «Q»];"),
    "on lines of their own": (
        "unknown-setting",
        "op relu(\n    x,  // the slope is below: slop\n    «slop»=1.0\n  ) >> y;",
    ),
}


def program(statement: str) -> str:
    return f"{DECLARED}block entry {{\n  {statement}\n  return;\n}}\nblock b {{ return; }}\n"


@pytest.mark.rule("runtime.checks.7")
@pytest.mark.parametrize(("code", "statement"), STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_is_marked_at_the_part_at_fault(code: str, statement: str) -> None:
    marked = program(statement)
    start, end = marked.index("«"), marked.index("»") - 1
    with pytest.raises(ValidationError) as caught:
        resolve(graph(marked.replace("«", "").replace("»", "")), MODEL)
    (finding,) = (each for each in caught.value.diagnostics if each.severity.value == "error")
    assert (finding.code, finding.span.start, finding.span.end) == (code, start, end)
    before = marked[:start]
    assert (finding.span.line, finding.span.column) == (before.count("\n") + 1, start - before.rfind("\n"))


DECLARATIONS = {
    "extent": ("bad-dim", "dynamic { x: f32[D, «D-8»]; }"),
    "name in an extent": ("unknown-sizevar", "dynamic { x: f32[D, «Q»]; }"),
    "target of ref without an initial value": ("unbound", "constant { w: f32[D] «@ref(nowhere)»; }"),
    "target of ref": ("unbound", "constant { w: f32[D] «@ref(nowhere)» @init(0.0); }"),
}


@pytest.mark.rule("runtime.checks.6")
@pytest.mark.parametrize(("code", "marked"), DECLARATIONS.values(), ids=DECLARATIONS)
def test_a_declaration_is_marked_at_the_part_at_fault(code: str, marked: str) -> None:
    with pytest.raises(ValidationError) as caught:
        resolve(graph(marked.replace("«", "").replace("»", "") + "\nblock entry { return; }"), MODEL)
    (finding,) = caught.value.diagnostics
    place = (marked.index("«"), marked.index("»") - 1)
    assert (finding.code, finding.span.start, finding.span.end) == (code, *place)


def test_equality_of_graphs_does_not_depend_on_places() -> None:
    text = program("op add(x, y, a=1) >> y with { fuse = true };")
    spaced = text.replace("op add(x, y, a=1)", "op  add ( x ,\n  y ,a = 1 )").replace("x: f32[D];", "x : f32 [ D ] ;")
    assert graph(text) == graph(spaced)
    assert graph(text).blocks["entry"].nodes[0].places != graph(spaced).blocks["entry"].nodes[0].places


def related(text: str, model: Model = MODEL, **options: object) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), model, **options)
    return [each.message for each in caught.value.diagnostics[0].related]


def test_the_error_about_a_prefix_entry_names_the_sizes_of_both_sides() -> None:
    assert related(program("op add(x, W[1]) >> y;")) == ["`W` is f32[D]: D = 4 from the model, 7 from `W[1]`"]


def test_the_error_about_a_model_tensor_names_the_sizes_of_both_sides() -> None:
    text = "volatile { w: f32[D, H] @ref(enc); }\nblock entry { return; }"
    model = Model.from_arrays({"enc": np.zeros((4, 3), np.float32)}, sizevars={"D": 4, "H": 2})
    sizes = "D = 4 from the model, H = 2 from the model, 3 from the model's `enc`"
    assert related(text, model) == [f"`w` is f32[D, H]: {sizes}"]


def test_the_error_about_metadata_names_the_sizes_of_both_sides() -> None:
    model = Model.from_arrays(metadata={"m": [1.0, 2.0]}, sizevars={"D": 4})
    text = "constant { m: f32[D]; }\nblock entry { return; }"
    assert related(text, model) == ["`m` is f32[D]: D = 4 from the model, 2 from the model's metadata `m`"]


@pytest.mark.parametrize("statement", ["transfer x >> z;", "cache.read K[0] >> z;", "cache.write x >> s;"])
def test_errors_about_copies_name_the_sizes_of_both_sides(statement: str) -> None:
    notes = related(program(statement), sizes={"D": 5})
    assert any("D = 5 from the caller" in note for note in notes)
    assert len(notes) == 2


BAD_EXTENTS = {"D-8": "D = 4 from the model", "D-2*H": "D = 4 from the model, H = 3 from the caller"}


@pytest.mark.parametrize(("dim", "reported"), BAD_EXTENTS.items())
def test_the_error_about_a_bad_extent_names_its_sizes(dim: str, reported: str) -> None:
    text = f"dynamic {{ x: f32[{dim}]; }}\nblock entry {{ return; }}"
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), Model.from_arrays({}, sizevars={"D": 4, "H": 1}), sizes={"H": 3})
    assert caught.value.diagnostics[0].message.endswith(f"it must not be negative; {reported}")


def test_another_name_of_a_setting_is_explained() -> None:
    with pytest.raises(ValidationError) as caught:
        resolve(graph(program('op relu(x, negative_slope="a") >> y;')), MODEL)
    found = caught.value.diagnostics[0]
    assert isinstance(found, Diagnostic)
    assert found.span is not None
    assert found.span.source.text[found.span.start : found.span.end] == '"a"'
    assert found.hint == "`negative_slope` is the setting `alpha`"
    with pytest.raises(ValidationError, match="`negative_slope` takes"):
        resolve(graph(program("op relu(x, negative_slope=[1, 2]) >> y;")), MODEL)


def test_words_of_a_message_that_are_names_of_settings_stay() -> None:
    text = "dynamic { x: f32[1, 1, 8]; y: f32[1, 1, 8]; }\n"
    text += "block entry { op max_pool1d(x, kernel=1, pads=1) >> y; return; }"
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), MODEL)
    found = caught.value.diagnostics[0]
    assert isinstance(found, Diagnostic)
    assert "a window reads nothing but padding: padding must be less than the window" in found.message
    assert found.hint == "`pads` is the setting `padding`"


@pytest.mark.parametrize(("written", "hint"), [("f33", "did you mean `f32`"), ("float32", "did you mean `f32`?")])
def test_a_misspelt_dtype_is_recognised(written: str, hint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        resolve(graph(program(f"op cast(x, to={written}) >> y;")), MODEL)
    assert hint in (caught.value.diagnostics[0].hint or "")


def test_a_long_statement_is_described_once_for_all_of_its_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []

    def counted(node: Node) -> str:
        described.append(node_desc(node))
        return described[-1]

    monkeypatch.setattr("openinfer.ir.findings.node_desc", counted)
    settings = ", ".join(f"s{number}=1" for number in range(50))
    with pytest.raises(ValidationError) as caught:
        resolve(graph(program(f"op relu(x, {settings}) >> y;")), MODEL)
    assert [each.code for each in caught.value.diagnostics].count("unknown-setting") == 50
    assert described == ["op relu(x) >> y"]
