"""Graph JSON: the documents that are written, what is read, and what is refused with a JSON pointer."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest

from openinfer.dsl import graph
from openinfer.errors import SerializationError
from openinfer.ir.graph import Graph
from openinfer.ir.nodes import Barrier, Return
from openinfer.ir.values import BoolValue, DoubleValue, FloatValue, IntValue, UIntValue
from openinfer.serialize import GraphDeserialize, GraphSerialize


def statement(text: str) -> Any:
    """Return the JSON of the kind of a statement."""
    return GraphSerialize.json(graph(f"block entry {{ {text} }}"))["blocks"]["entry"]["nodes"][0]["kind"]


def declaration(text: str, section: str = "volatile") -> dict[str, Any]:
    return GraphSerialize.json(graph(f"{section} {{ {text} }}"))["vars"]["x"]


KINDS = {
    "assign x: f32[B, 3*D];": {"Assign": {"name": "x", "dtype": "F32", "dims": ["B", "3*D"]}},
    "op add(x, W[l, 0]) >> y;": {"Op": {"op": "add", "attrs": {"items": []}, "inputs": ["x", "W[l,0]"], "output": "y"}},
    "op where(m, -0.5, inf, 8, true, 18446744073709551615) >> y;": {
        "Op": {
            "op": "where",
            "attrs": {"items": []},
            "inputs": ["m", {"Double": -0.5}, {"Double": "inf"}, {"Int": 8}, {"Bool": True}, {"UInt": 2**64 - 1}],
            "output": "y",
        }
    },
    "op topk(x, k=2) >> v, i;": {
        "Op": {
            "op": "topk",
            "attrs": {"items": [{"name": "k", "value": {"Int": 2}}]},
            "inputs": ["x"],
            "output": "v",
            "outputs": ["v", "i"],
        }
    },
    "branch next;": {"Branch": {"cond": None, "then_block": "next", "else_block": None}},
    "branch c a b;": {"Branch": {"cond": "c", "then_block": "a", "else_block": "b"}},
    "barrier;": "Barrier",
    "return;": "Return",
    "dep after(f) before(cache.write);": {"Dep": {"after": "f", "before": "cache.write"}},
    "cache.read K >> h;": {"CacheRead": {"src": {"base": "K", "bracketed": False, "indices": []}, "dst": "h"}},
    "cache.write h >> K[l, 0];": {
        "CacheWrite": {
            "src": "h",
            "dst": {
                "base": "K",
                "bracketed": True,
                "indices": [{"Single": {"Ident": "l"}}, {"Single": {"Lit": 0}}],
            },
        }
    },
    "cache.increment step;": {"CacheIncrement": {"target": "step", "amount": 1}},
    "cache.decrement 2 step;": {"CacheDecrement": {"target": "step", "amount": 2}},
    "cache.reset K[];": {"CacheReset": {"target": {"base": "K", "bracketed": True, "indices": []}}},
    "transfer x >> y;": {"Transfer": {"src": "x", "dst": "y"}},
    "yield a, b;": {"Yield": {"vars": ["a", "b"]}},
    "await a;": {"Await": {"vars": ["a"]}},
    "loop n (i in 0..2*D) { }": {"Loop": {"name": "n", "index": "i", "start": "0", "end": "2*D", "body": []}},
}


@pytest.mark.rule("json.graphs.3")
@pytest.mark.parametrize(("text", "expected"), KINDS.items(), ids=KINDS)
def test_node_kind(text: str, expected: Any) -> None:
    assert statement(text) == expected


SLOTS = {
    "3": {"Single": {"Lit": 3}},
    "l": {"Single": {"Ident": "l"}},
    "0..-3": {"Slice": {"start": {"Lit": 0}, "end": {"Lit": -3}}},
    "..": {"Slice": {"start": None, "end": None}},
    "0..D+i": {"Slice": {"start": {"Lit": 0}, "end": {"Expr": "D+i"}}},
    "1024-1": {"Single": {"Expr": "1024-1"}},
}


@pytest.mark.rule("json.graphs.3")
@pytest.mark.parametrize(("text", "expected"), SLOTS.items(), ids=SLOTS)
def test_cache_index(text: str, expected: Any) -> None:
    assert statement(f"cache.read K[{text}] >> h;")["CacheRead"]["src"]["indices"] == [expected]


SETTINGS = {
    "3": {"Int": 3},
    "0.5": {"Double": 0.5},
    "inf": {"Double": "inf"},
    "-inf": {"Double": "-inf"},
    "nan": {"Double": "nan"},
    "true": {"Bool": True},
    '"s"': {"Str": "s"},
    "[0, -1]": {"IntList": [0, -1]},
    "[0.5, inf]": {"DoubleList": [0.5, "inf"]},
    "alpha": {"Var": "alpha"},
    "b[l]": {"Var": "b[l]"},
    "[i16, i32]": {"DTypeList": ["I16", "I32"]},
    "t + 1": {"Expr": "t+1"},
    "[B, t+1, 4]": {"ExprList": ["B", "t+1", "4"]},
}


@pytest.mark.parametrize(("text", "expected"), SETTINGS.items(), ids=SETTINGS)
def test_setting(text: str, expected: Any) -> None:
    written = statement(f"op f(x, a={text}) >> y;")["Op"]["attrs"]["items"]
    assert written == [{"name": "a", "value": expected}]


def test_a_dtype_setting() -> None:
    written = statement("op cast(x, to=f16) >> y;")["Op"]["attrs"]["items"]
    assert written == [{"name": "to", "value": {"DType": "F16"}}]


INITS = {
    "f32 @init(0.1)": {"F32": 0.10000000149011612},
    "f64 @init(-inf)": {"F64": "-inf"},
    "f16 @init(1.5)": {"F16": {"bits": 15872}},
    "bf16 @init(1.5)": {"BF16": {"bits": 16320}},
    "f8 @init(1.5)": {"F8": {"bits": 62}},
    "i4 @init(-3)": {"I4": {"bits": 13}},
    "t2 @init(-1)": {"T2": {"bits": 3}},
    "t1 @init(-1)": {"T1": {"bits": 0}},
    "t1 @init(1)": {"T1": {"bits": 1}},
    "i1 @init(-1)": {"I1": {"bits": 1}},
    "bitset @init(7)": {"Bitset": {"bits": 7}},
    "i64 @init(-5)": {"I64": -5},
    "u64 @init(18446744073709551615)": {"U64": 2**64 - 1},
    "bool @init(1)": {"Bool": True},
}


@pytest.mark.rule("json.graphs.6")
@pytest.mark.parametrize(("text", "expected"), INITS.items(), ids=INITS)
def test_init(text: str, expected: Any) -> None:
    written = declaration(f"x: {text};")
    assert written["init"] == expected
    assert GraphDeserialize.from_json({"vars": {"x": written}, "blocks": {}, "next_index": 0}).vars["x"].init == (
        graph(f"volatile {{ x: {text}; }}").vars["x"].init
    )


@pytest.mark.rule("json.graphs.2")
def test_declaration_writes_every_field() -> None:
    assert declaration("x: f32[4, D];") == {
        "name": "x",
        "kind": "Volatile",
        "dtype": "F32",
        "dims": ["4", "D"],
        "init": None,
        "ref_name": None,
        "pattern": None,
        "table_indices": [],
        "table": False,
        "auto_dim": [],
        "fixed": [],
    }


def test_declaration_of_a_cache_and_unknown_attributes() -> None:
    written = declaration("x(i, j): f16[D] @fixed(i=4, j=2) @auto_dim(j) @table @layout(nchw, k=[1]);", "persistent")
    assert written["kind"] == "Persistent"
    assert (written["table_indices"], written["table"], written["auto_dim"]) == (["i", "j"], True, ["j"])
    assert written["fixed"] == [["i", 4], ["j", 2]]
    assert written["attrs"] == {"layout": [{"Var": "nchw"}, ["k", {"IntList": [1]}]]}


def test_side_fields_of_nodes_and_blocks() -> None:
    built = graph(
        'block entry with { fast = true } { scope "a" { barrier; } op f(x) >> y with { fuse = false }; return y; }'
    )
    block = GraphSerialize.json(built)["blocks"]["entry"]
    assert block["hints"] == {"fast": {"Bool": True}}
    assert block["nodes"][0]["scope"] == ["a"]
    assert block["nodes"][1]["hints"] == {"fuse": {"Bool": False}}
    assert block["nodes"][2] == {"index": 2, "uuid": block["nodes"][2]["uuid"], "kind": "Return", "returns": ["y"]}


VERSION_1 = [
    "assign y: f32; op f(x, a=1, b=[1]) >> y with { fuse = true };",
    "assign y: f32; cache.read K[0..-3] >> y;",
    "return y;",
    'scope "s" { barrier; }',
]
VERSION_2 = [
    "op f(x, a=t+1) >> y;",
    "op f(x, a=[0.5]) >> y;",
    "op f(x, a=[B, 1]) >> y;",
    "op f(x, acc=[f32]) >> y;",
    "op f(x, a=inf) >> y;",
    "op f(x) >> y, z;",
    "cache.read K[t+1] >> y;",
]
VERSION_3 = [
    "op f(x) >> t;",
    "transfer x >> t;",
    "cache.read K >> t;",
    "loop l (i in 0..n/2) { }",
    "op f(W[l%2]) >> t;",
    "assign t: f32[ceil(H/2)];",
]


@pytest.mark.rule("json.versions.1")
@pytest.mark.parametrize("text", VERSION_1)
def test_a_graph_that_older_readers_understand_has_no_version(text: str) -> None:
    assert "schema_version" not in GraphSerialize.json(graph(f"block entry {{ {text} }}"))


@pytest.mark.rule("json.versions.1")
@pytest.mark.parametrize("text", VERSION_2)
def test_a_graph_that_older_readers_would_misread_has_version_2(text: str) -> None:
    declared = "volatile { y: f32; z: f32; }"
    assert GraphSerialize.json(graph(f"{declared} block entry {{ {text} }}"))["schema_version"] == 2


@pytest.mark.rule("json.versions.1")
@pytest.mark.parametrize("text", VERSION_3)
def test_a_graph_that_readers_of_version_2_would_misread_has_version_3(text: str) -> None:
    assert GraphSerialize.json(graph(f"block entry {{ {text} }}"))["schema_version"] == 3


def test_a_number_is_read_as_a_program_writes_it() -> None:
    document = base("op f(1, 2, 3) >> x;")
    document["blocks"]["entry"]["nodes"][0]["kind"]["Op"]["inputs"] = [{"UInt": 1}, {"Double": 2}, {"Double": "nan"}]
    assert GraphDeserialize.from_json(document) == graph(
        "volatile { x: f32[B] @init(1.0); } block entry { op f(1, 2.0, nan) >> x; }"
    )


EXAMPLE = """{
  "blocks": {"entry": {"name": "entry", "nodes": [
    {"index": 0, "uuid": "{3B0E2F8E6D0F5F579C5A0A6B6F6F0D11}", "kind": {"CacheRead": {"dst": "h",
      "src": {"base": "K", "bracketed": true,
      "indices": [{"Single": {"Ident": "l"}}, {"Slice": {"end": null}}]}}}},
    {"index": 1, "uuid": "0c9d9a52-3f0f-5f0e-8a0c-8d1f4f1f7a22", "kind": {"Return": null}}]}},
  "next_index": 2,
  "vars": {"h": {"dims": ["4", "D"], "dtype": "F32", "kind": "Volatile", "name": "h"}}
}"""


@pytest.mark.rule("json.graphs.2")
def test_a_document_of_an_older_writer_is_read_with_defaults() -> None:
    read = GraphDeserialize.from_json(EXAMPLE)
    assert read == graph("volatile { h: f32[4, D]; } block entry { cache.read K[l, ] >> h; return; }")
    assert str(read.blocks["entry"].nodes[0].uuid) == "3b0e2f8e-6d0f-5f57-9c5a-0a6b6f6f0d11"


@pytest.mark.rule("json.form.6")
def test_documents_are_read_from_objects_text_and_files(tmp_path) -> None:
    file = tmp_path / "g.json"
    file.write_text(EXAMPLE, encoding="utf-8-sig")
    read = GraphDeserialize.from_json(file)
    assert read == GraphDeserialize.from_json(EXAMPLE) == Graph.from_json(json.loads(EXAMPLE))
    assert Graph.from_json(read.to_json()) == read


def test_values_that_only_the_api_makes_are_read() -> None:
    document = base("op f(x, a=1, b=2, c=3, d=4) >> x;")
    items = document["blocks"]["entry"]["nodes"][0]["kind"]["Op"]["attrs"]["items"]
    values = [{"UInt": 2**64 - 1}, {"Float": 0.5}, {"Double": 2}, {"Expr": "7"}]
    for item, value in zip(items, values, strict=True):
        item["value"] = value
    settings = GraphDeserialize.from_json(document).blocks["entry"].nodes[0].kind.settings
    assert list(settings.values()) == [UIntValue(2**64 - 1), FloatValue(0.5), DoubleValue(2.0), IntValue(7)]


def base(
    statements: str = "op f(x) >> x; cache.read K[0] >> x; loop l (i in 0..2) { barrier; } return;",
) -> dict[str, Any]:
    return GraphSerialize.json(graph(f"volatile {{ x: f32[B] @init(1.0); }} block entry {{ {statements} }}"))


NODES = "/blocks/entry/nodes"
BROKEN: dict[str, tuple[str, Any, str]] = {
    "version of the future": ("/schema_version", 5, "has version 5, this reader knows versions up to 4"),
    "version zero": ("/schema_version", 0, "expected a positive integer"),
    "version as text": ("/schema_version", "1", "expected a positive integer"),
    "variables as a list": ("/vars", [], "expected an object, found a list"),
    "next_index as a float": ("/next_index", 4.0, "expected an integer, found 4.0"),
    "next_index as a truth value": ("/next_index", True, "expected an integer, found true"),
    "next_index as text": ("/next_index", "4", "expected an integer, found '4'"),
    "declaration as a list": ("/vars/x", [], "expected an object"),
    "other name than key": ("/vars/x/name", "y", "the key is 'x', the name 'y'"),
    "name of a literal": ("/vars/x/name", "true", "expected a name"),
    "lower-case dtype": ("/vars/x/dtype", "f32", "one of F8, BF16"),
    "kind": ("/vars/x/kind", "volatile", "one of Dynamic, Volatile, Constant, Persistent"),
    "extent as a number": ("/vars/x/dims/0", 4, "expected the text of an integer expression, found 4"),
    "extent that does not parse": ("/vars/x/dims/0", "3*", "no integer expression"),
    "negative extent": ("/vars/x/dims/0", "-1", "no integer expression"),
    "endless extent": ("/vars/x/dims/0", "9" * 30, "does not fit 64 bits"),
    "deep extent": ("/vars/x/dims/0", "(" * 5000 + "1" + ")" * 5000, "nesting too deep"),
    "long extent": ("/vars/x/dims/0", "1+" * 5000 + "1", "expression too long"),
    "init of another type": ("/vars/x/init", {"F64": 1.0}, "tagged 'F64', the variable is F32"),
    "init without a tag": ("/vars/x/init", 1.0, "expected an element"),
    "init with two tags": ("/vars/x/init", {"F32": 1.0, "F64": 1.0}, "found 2 keys"),
    "init out of range": ("/vars/x/init/F32", 1e300, "overflows f32"),
    "init lost": ("/vars/x/init/F32", None, "its writer lost an infinity"),
    "table as a number": ("/vars/x/table", 1, "expected true or false, found 1"),
    "list that is null": ("/vars/x/auto_dim", None, "must not be null"),
    "bound that is negative": ("/vars/x/fixed", [["i", -1]], "out of range"),
    "bound without a number": ("/vars/x/fixed", [["i"]], "expected a pair"),
    "nodes as an object": (f"{NODES}", {}, "expected a list of nodes"),
    "input as a bare number": (f"{NODES}/0/kind/Op/inputs/0", 0.5, "expected a variable such as"),
    "input of another kind": (f"{NODES}/0/kind/Op/inputs/0", {"Str": "x"}, "one of Int, UInt, Double, Bool"),
    "input without a value": (f"{NODES}/0/kind/Op/inputs/0", {"Int": 0.5}, "expected an integer"),
    "unknown kind": (f"{NODES}/0/kind", {"Ops": {}}, "one of Assign, Op,"),
    "unknown unit kind": (f"{NODES}/3/kind", "Retrun", "did you mean `Return`?"),
    "kind with fields as a string": (f"{NODES}/0/kind", "Op", "one of Barrier, Return"),
    "kind with two keys": (f"{NODES}/0/kind", {"Barrier": None, "Return": None}, "found 2 keys"),
    "kind as a number": (f"{NODES}/0/kind", 7, "expected a kind of node"),
    "unit kind with fields": (f"{NODES}/3/kind", {"Return": {}}, "has no fields"),
    "bad uuid": (f"{NODES}/0/uuid", "xyz", "expected a UUID"),
    "negative number": (f"{NODES}/0/index", -1, "out of range"),
    "attrs of a very old writer": (f"{NODES}/0/kind/Op/attrs", "None", "expected an object"),
    "value without a tag": (
        f"{NODES}/0/kind/Op/attrs/items",
        [{"name": "a", "value": 3}],
        "expected a value as an object",
    ),
    "unknown value": (f"{NODES}/0/kind/Op/attrs/items", [{"name": "a", "value": {"Integer": 3}}], "one of Int, UInt"),
    "reference that does not parse": (f"{NODES}/0/kind/Op/inputs/0", "x[", "expected a variable such as"),
    "indexed output": (f"{NODES}/0/kind/Op/output", "W[0]", "expected a name"),
    "outputs that disagree": (f"{NODES}/0/kind/Op/outputs", ["y", "z"], "does not start with 'x'"),
    "half a condition": (f"{NODES}/3/kind", {"Branch": {"cond": "c", "then_block": "a"}}, "come together"),
    "indices without brackets": (f"{NODES}/1/kind/CacheRead/src/bracketed", False, "although there are indices"),
    "unknown slot": (f"{NODES}/1/kind/CacheRead/src/indices/0", {"Range": 1}, "one of Single, Slice"),
    "unknown index": (f"{NODES}/1/kind/CacheRead/src/indices/0", {"Single": {"Name": "i"}}, "one of Lit, Ident, Expr"),
    "loop bound": (f"{NODES}/2/kind/Loop/end", "..", "no integer expression"),
    "node in a loop": (f"{NODES}/2/kind/Loop/body/0/kind", "Barier", "did you mean `Barrier`?"),
    "results of something else": (f"{NODES}/0/returns", ["x"], "only a Return has results"),
    "half a surrogate pair": (f"{NODES}/0/scope", ["\ud800"], "surrogate"),
}


def replaced(document: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    *path, last = [int(part) if part.isdigit() else part for part in pointer.split("/")[1:]]
    place: Any = changed
    for part in path:
        place = place[part]
    place[last] = value
    return changed


@pytest.mark.rule("json.form.2", "json.form.3", "json.form.4", "runtime.errors.3")
@pytest.mark.parametrize(("pointer", "value", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_part_is_refused_where_it_is(pointer: str, value: Any, message: str) -> None:
    with pytest.raises(SerializationError) as caught:
        GraphDeserialize.from_json(replaced(base(), pointer, value))
    found = [d for d in caught.value.diagnostics if d.path.startswith(pointer) or pointer.startswith(d.path)]
    assert any(message in finding.message for finding in found), caught.value.diagnostics


@pytest.mark.parametrize(
    "pointer",
    ["/vars", "/blocks", "/next_index", "/vars/x/name", "/vars/x/dims", f"{NODES}/0/uuid", f"{NODES}/0/kind/Op/output"],
)
def test_a_missing_part_is_named(pointer: str) -> None:
    document = replaced(base(), pointer, None)
    *path, last = [int(part) if part.isdigit() else part for part in pointer.split("/")[1:]]
    place: Any = document
    for part in path:
        place = place[part]
    del place[last]
    with pytest.raises(SerializationError) as caught:
        GraphDeserialize.from_json(document)
    found = [(d.code, d.message, d.path) for d in caught.value.diagnostics]
    assert found == [("missing-field", f"`{last}` is missing", pointer)]


@pytest.mark.rule("json.graphs.5", "runtime.checks.5")
def test_numbers_and_ids_are_unique_and_below_next_index() -> None:
    document = base()
    nodes = document["blocks"]["entry"]["nodes"]
    nodes[1]["index"], nodes[1]["uuid"], document["next_index"] = 0, nodes[0]["uuid"], 4
    with pytest.raises(SerializationError) as caught:
        GraphDeserialize.from_json(document)
    assert [(d.code, d.path) for d in caught.value.diagnostics] == [
        ("node-index", f"{NODES}/1/index"),
        ("duplicate-uuid", f"{NODES}/1/uuid"),
        ("node-index", f"{NODES}/3/index"),
    ]


def test_a_setting_given_twice_is_refused() -> None:
    document = base("op f(x, a=1, b=2) >> x;")
    document["blocks"]["entry"]["nodes"][0]["kind"]["Op"]["attrs"]["items"][1]["name"] = "a"
    with pytest.raises(SerializationError, match="given twice"):
        GraphDeserialize.from_json(document)


@pytest.mark.rule("json.form.4")
def test_findings_are_collected_and_errors_have_one_line() -> None:
    document = replaced(replaced(base(), "/vars/x/dtype", "F33"), f"{NODES}/0/uuid", 1)
    with pytest.raises(SerializationError) as caught:
        GraphDeserialize.from_json(document)
    assert [d.path for d in caught.value.diagnostics] == ["/vars/x/dtype", f"{NODES}/0/uuid"]
    assert "\n" not in str(caught.value)


@pytest.mark.rule("json.form.5")
def test_unknown_fields_are_warnings_and_errors_in_strict_mode() -> None:
    document = replaced(replaced(base(), "/vars/x/layout", 1), f"{NODES}/0/kind/Op/cost", 2)
    document["comment"] = "…"
    read = GraphDeserialize.from_json(document)
    places = ["/comment", "/vars/x/layout", f"{NODES}/0/kind/Op/cost"]
    assert read == GraphDeserialize.from_json(base())
    assert [(w.code, w.path) for w in read.warnings] == [("unknown-field", place) for place in places]
    with pytest.raises(SerializationError) as caught:
        GraphDeserialize.from_json(document, strict=True)
    assert [d.path for d in caught.value.diagnostics] == places


@pytest.mark.rule("json.graphs.9", "language.phases.7")
def test_what_only_a_later_phase_can_find_is_accepted() -> None:
    document = base("op no_such_operator(nobody, W[1, 2, 3]) >> nothing; branch nowhere; return;")
    assert "no_such_operator" in GraphDeserialize.from_json(document).to_dsl()


def test_a_number_too_large_for_a_double_is_refused() -> None:
    text = json.dumps(base("op f(x, a=0.5) >> x;")).replace("0.5", "1e999")
    with pytest.raises(SerializationError, match="does not fit f64"):
        GraphDeserialize.from_json(text)


def nested(depth: int) -> dict[str, Any]:
    node: dict[str, Any] = {"index": 0, "uuid": f"{0:032x}", "kind": "Barrier"}
    for number in range(1, depth + 1):
        loop = {"name": "l", "index": f"i{number}", "start": "0", "end": "2", "body": [node]}
        node = {"index": number, "uuid": f"{number:032x}", "kind": {"Loop": loop}}
    return {"vars": {}, "blocks": {"entry": {"name": "entry", "nodes": [node]}}, "next_index": depth + 1}


def test_supported_nesting_of_loops_goes_through_text_and_json() -> None:
    read = GraphDeserialize.from_json(nested(100))
    assert GraphDeserialize.from_json(GraphSerialize.text(read)) == read
    assert graph(read.to_dsl()) == read


@pytest.mark.parametrize("depth", [101, 5000])
def test_deeper_nesting_of_loops_is_an_error_and_no_crash(depth: int) -> None:
    with pytest.raises(SerializationError, match="nesting too deep"):
        GraphDeserialize.from_json(nested(depth))


@pytest.mark.rule("json.form.1", "json.graphs.1")
def test_written_text_is_sorted_and_standard() -> None:
    text = GraphSerialize.text(graph("volatile { x: f32 @init(inf); } block entry { barrier; return; }"))
    assert list(json.loads(text)) == ["blocks", "next_index", "schema_version", "vars"]
    assert json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n" == text


@pytest.mark.rule("json.graphs.7")
def test_non_finite_numbers_come_back() -> None:
    built = graph("volatile { x: f32 @init(nan); } block entry { op f(x, a=nan, b=[inf, -inf]) >> x; return; }")
    again = GraphDeserialize.from_json(GraphSerialize.text(built))
    assert again == built
    assert math.isnan(again.vars["x"].init)


@pytest.mark.rule("json.form.3")
def test_unit_kinds_and_hints_are_read() -> None:
    document = base("barrier; return x;")
    document["blocks"]["entry"]["hints"] = {"fast": {"Bool": True}}
    block = GraphDeserialize.from_json(document).blocks["entry"]
    assert [node.kind for node in block.nodes] == [Barrier(), Return(("x",))]
    assert block.hints == {"fast": BoolValue(True)}


STORED = Path(__file__).parents[1] / "data"


@pytest.mark.rule("json.versions.2")
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_stored_files_of_every_version_load(version: int) -> None:
    text = (STORED / f"graph_version_{version}.json").read_text(encoding="utf-8")
    program = (STORED / f"graph_version_{version}.oi").read_text(encoding="utf-8")
    assert json.loads(text).get("schema_version", 1) == version
    assert GraphDeserialize.from_json(text) == graph(program)
    assert GraphSerialize.text(graph(program)) == text
