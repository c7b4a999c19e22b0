"""Any JSON is a graph that text can say, or an error with a pointer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import LIMITS, NAMES, graphs

from openinfer.diagnostics import Diagnostic
from openinfer.dsl import graph
from openinfer.errors import SerializationError
from openinfer.ir.graph import Graph
from openinfer.ir.nodes import (
    Loop,
    Node,
    Op,
)
from openinfer.ir.values import (
    Attrs,
    AttrValue,
    DoubleValue,
    DTypeValue,
    FloatValue,
    IntValue,
    Ref,
    UIntValue,
    VarValue,
)
from openinfer.serialize import GraphDeserialize, GraphSerialize

JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


def read_or_findings(document: object) -> Graph | tuple[Diagnostic, ...]:
    try:
        return GraphDeserialize.from_json(document)
    except SerializationError as error:
        return error.diagnostics or pytest.fail(f"no findings in {error!r}")


@pytest.mark.rule("json.form.4")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(graphs(), st.data())
def test_a_document_with_any_part_replaced_is_a_graph_or_an_error_with_a_pointer(built: Graph, data) -> None:
    document = json.loads(GraphSerialize.text(built))
    place, key = document, data.draw(st.sampled_from(sorted(document)))
    while data.draw(st.booleans()) and isinstance(place[key], dict | list) and place[key]:
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
    place[key] = data.draw(JSON_VALUES)
    read = read_or_findings(document)
    if isinstance(read, Graph):
        assert GraphDeserialize.from_json(GraphSerialize.json(read)) == read
    else:
        assert all(finding.path is not None for finding in read)


def as_programs_write(value: AttrValue, name: str | None) -> AttrValue:
    """Return a value as text says it: programs have no widths of numbers, and types by name where no setting asks."""
    match value:
        case UIntValue(number):
            return IntValue(number)
        case FloatValue(number):
            return DoubleValue(number)
        case DTypeValue(dtype) if name not in ("to", "acc"):
            return VarValue(Ref(dtype.name))
        case _:
            return value


def all_as_programs_write(attrs: Attrs) -> Attrs:
    return Attrs({name: as_programs_write(value, name) for name, value in attrs.items()})


def nodes_as_programs_write(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    written: list[Node] = []
    for node in nodes:
        kind = node.kind
        if isinstance(kind, Op):
            kind = replace(kind, settings=all_as_programs_write(kind.settings))
        if isinstance(kind, Loop):
            kind = replace(kind, body=nodes_as_programs_write(kind.body))
        written.append(replace(node, kind=kind, hints=all_as_programs_write(node.hints)))
    return tuple(written)


def graph_as_programs_write(read: Graph) -> Graph:
    variables = {
        name: replace(
            decl,
            attrs=tuple(
                (attribute, tuple(replace(each, value=as_programs_write(each.value, None)) for each in arguments))
                for attribute, arguments in decl.attrs
            ),
        )
        for name, decl in read.vars.items()
    }
    blocks = {
        name: replace(block, nodes=nodes_as_programs_write(block.nodes), hints=all_as_programs_write(block.hints))
        for name, block in read.blocks.items()
    }
    return replace(read, vars=variables, blocks=blocks)


ODD_NAMES = st.sampled_from(
    ["inf", "nan", "true", "false", "nan.x", "x.inf", "a.b", "x[inf]", "x[i,1]", "f32", "", "é"]
)
ODD_ITEMS = st.sampled_from(["f32", "i8", "B", "-1", "2", "inf", "B+1"])
ODD_VALUES = st.one_of(
    *(st.fixed_dictionaries({tag: ODD_NAMES | NAMES}) for tag in ("Var", "Expr", "Str")),
    st.fixed_dictionaries({"ExprList": st.lists(ODD_ITEMS, max_size=3)}),
    st.fixed_dictionaries({"DTypeList": st.lists(st.just("F32"), max_size=1)}),
    st.fixed_dictionaries({"DoubleList": st.lists(st.sampled_from([1, 0.5, "inf", "-inf", "nan"]), max_size=2)}),
    st.fixed_dictionaries({"DType": st.just("I8")}),
    st.fixed_dictionaries({"UInt": st.integers(0, 2**63 - 1)}),
    st.fixed_dictionaries({"Float": st.sampled_from([0.5, "inf", -0.0])}),
)
ODD_MEMBERS = {
    "hints": st.dictionaries(st.sampled_from(["fuse", "to", "nan", "acc", "group"]), ODD_VALUES, max_size=2),
    "scope": st.lists(st.sampled_from(["a", "b", 'c "d"', "\n//"]), max_size=3),
    "attrs": st.dictionaries(NAMES | ODD_NAMES, st.lists(ODD_VALUES, max_size=2), max_size=2),
    "vars": st.lists(NAMES, max_size=1),
    "returns": st.lists(NAMES | ODD_NAMES, max_size=2),
}


def parts(value: object) -> Iterator[tuple[dict[str, object] | list[object], str | int]]:
    """Yield every member of every object and list in a document, by its owner and key."""
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, inner in list(items):
        yield value, key
        yield from parts(inner)


def odd_part(owner: dict[str, object] | list[object], key: str | int) -> st.SearchStrategy[object]:
    """Return what may take the place of a part and still have its form."""
    held = owner[key]
    if key in ODD_MEMBERS and "name" not in (held if isinstance(held, dict) else ()):
        return ODD_MEMBERS[key] if key != "attrs" or "dims" in owner else st.just(held)
    if key == "value":
        return ODD_VALUES
    if isinstance(held, str):
        return ODD_NAMES | NAMES
    return st.just([]) if isinstance(held, list) else st.just(held)


@LIMITS
@given(graphs(), st.data())
def test_a_graph_that_json_may_hold_prints_text_of_the_same_graph(built: Graph, data) -> None:
    document = json.loads(GraphSerialize.text(built))
    for node in [value for owner, key in parts(document) if isinstance(value := owner[key], dict) and "uuid" in value]:
        node.setdefault("hints", {})
        node.setdefault("scope", [])
    places = list(parts(document))
    for number in data.draw(st.lists(st.integers(0, len(places) - 1), max_size=4, unique=True)):
        owner, key = places[number]
        owner[key] = data.draw(odd_part(owner, key))
    read = read_or_findings(document)
    if isinstance(read, Graph):
        assert graph(read.to_dsl()) == graph_as_programs_write(read)


NODES = "/blocks/entry/nodes"
UNSAYABLE: dict[str, tuple[str, object, str]] = {
    "word for a value as an extent": ("/vars/x/dims/0", "inf", "expected identifier or integer, found 'inf'"),
    "word for a value in an extent": ("/vars/x/dims/0", "2*(nan+1)", "expected identifier or integer, found 'nan'"),
    "parentheses": ("/vars/x/dims/0", "(1-" * 65 + "1" + ")" * 65, "nesting too deep"),
    "attribute of the language": ("/vars/x/attrs", {"table": []}, "has a field of its own"),
    "older spelling of one": ("/vars/x/attrs", {"reference": []}, "has a field of its own"),
    "index": (f"{NODES}/0/kind/Op/inputs/0", "W[true]", "expected identifier or integer, found 'true'"),
    "loop bound": (f"{NODES}/1/kind/Loop/end", "inf", "expected identifier or integer, found 'inf'"),
    "mixed list": (
        f"{NODES}/0/kind/Op/attrs/items/0/value",
        {"ExprList": ["f32", "B"]},
        "mixes the element type `f32` with other values",
    ),
    "hints of a barrier": (f"{NODES}/1/kind/Loop/body/0/hints", {"fuse": {"Bool": True}}, "a Barrier has no hints"),
    "value of a hint": (f"{NODES}/0/hints", {"fuse": {"Str": "a"}}, "hint `fuse` takes `true` or `false`"),
    "scopes of a loop": (f"{NODES}/1/kind/Loop/body/0/scope", ["b"], "the scopes begin with those of the loop"),
    "scopes": (f"{NODES}/0/scope", ["a"] * 101, "over 100 loops and scopes"),
    "target": (f"{NODES}/2/kind/Dep/after", "nan", "`nan` is a value of the language"),
    "member of a target": (f"{NODES}/2/kind/Dep/before", "cache.inf", "`inf` is a value of the language"),
    "nothing to yield": (f"{NODES}/3/kind/Yield/vars", [], "expected a list of at least 1, found 0"),
    "output": (f"{NODES}/0/kind/Op/output", "false", "`false` is a value of the language"),
}


@pytest.mark.parametrize(("pointer", "value", "message"), UNSAYABLE.values(), ids=UNSAYABLE)
def test_what_no_program_can_say_is_refused_in_json(pointer: str, value: object, message: str) -> None:
    statements = "op f(x, a=1) >> x; scope a { loop l (i in 0..2) { barrier; } } dep after(f) before(g); yield x;"
    document = json.loads(GraphSerialize.text(graph(f"volatile {{ x: f32[B]; }} block entry {{ {statements} }}")))
    *path, last = [int(each) if each.isdigit() else each for each in pointer.split("/")[1:]]
    owner = document
    for each in path:
        owner = owner[each]
    owner[last] = value
    found = read_or_findings(document)
    assert not isinstance(found, Graph)
    assert [finding.path.startswith(pointer.removesuffix("/scope")) for finding in found] == [True]
    assert message in found[0].message
