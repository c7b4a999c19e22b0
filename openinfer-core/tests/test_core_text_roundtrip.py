"""Properties over generated graphs: printing and parsing, and writing and reading JSON, lose nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openinfer.diagnostics import Diagnostic
from openinfer.dsl import graph
from openinfer.dsl.formatting import formatted
from openinfer.dtypes import BUILTIN, Kind
from openinfer.errors import DslSyntaxError, GraphError, SerializationError
from openinfer.ir.graph import AttrArg, Block, Graph, MemoryKind, VarDecl
from openinfer.ir.nodes import (
    Assign,
    Await,
    Barrier,
    Branch,
    CacheAccess,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Dep,
    Loop,
    Node,
    Op,
    Return,
    Single,
    Slice,
    Transfer,
    Yield,
)
from openinfer.ir.values import (
    Attrs,
    AttrValue,
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeListValue,
    DTypeValue,
    ExprListValue,
    ExprValue,
    FloatValue,
    IntListValue,
    IntValue,
    Ref,
    StrValue,
    UIntValue,
    VarValue,
)
from openinfer.scalars import decode_bits
from openinfer.serialize import GraphDeserialize, GraphSerialize
from openinfer.symbolic import BinOp, Const, Name

LIMITS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

DTYPE_NAMES = {name for dtype in BUILTIN for name in (dtype.name, *dtype.aliases)}
KEYWORDS = (
    *("block", "assign", "op", "transfer", "cache", "read", "write", "increment", "decrement", "reset", "branch"),
    *("loop", "in", "barrier", "dep", "after", "before", "yield", "await", "return", "scope", "with"),
    *("dynamic", "volatile", "constant", "constants", "persistent", "inputs", "outputs", "state", "graph", "model"),
    *("init", "ref", "reference", "pattern", "table", "auto_dim", "fixed", "effect", "buffer", "entry"),
)
NAMES = st.sampled_from(
    ["x", "y", "W", "i1", "f32x", "_", "a__b", "Entry", "step", "infinity", "nan_", "floor", "ceil", *KEYWORDS]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGERS = st.one_of(st.integers(0, 20), st.integers(0, 2**63 - 1))
SIGNED = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats()


OPERATIONS = st.sampled_from(["+", "-", "*", "/", "%", "floor", "ceil"])


def sums(leaves):
    return st.recursive(leaves, lambda inner: st.builds(BinOp, OPERATIONS, inner, inner), max_leaves=6)


EXPRESSIONS = sums(st.one_of(st.builds(Const, INTEGERS), st.builds(Name, NAMES)))
BRANCHED = st.builds(BinOp, OPERATIONS, EXPRESSIONS, EXPRESSIONS)
REFS = st.builds(Ref, NAMES, st.lists(EXPRESSIONS, max_size=2).map(tuple))
DTYPES = st.sampled_from(BUILTIN)
EXPRESSION_ITEMS = st.one_of(
    EXPRESSIONS.filter(lambda e: not (isinstance(e, Name) and e.name in DTYPE_NAMES)), st.builds(Const, SIGNED)
)

VALUES = st.one_of(
    st.builds(IntValue, SIGNED),
    st.builds(DoubleValue, FLOATS),
    st.builds(BoolValue, st.booleans()),
    st.builds(StrValue, TEXTS),
    st.builds(IntListValue, st.lists(SIGNED, max_size=3).map(tuple)),
    st.builds(DoubleListValue, st.lists(FLOATS, min_size=1, max_size=3).map(tuple)),
    st.builds(VarValue, REFS),
    st.builds(DTypeListValue, st.lists(DTYPES, min_size=1, max_size=2).map(tuple)),
    st.builds(ExprValue, BRANCHED),
    st.builds(
        ExprListValue,
        st.lists(EXPRESSION_ITEMS, min_size=1, max_size=3)
        .filter(lambda items: not all(isinstance(item, Const) for item in items))
        .map(tuple),
    ),
)
SETTINGS = st.builds(
    lambda plain, to: Attrs({**plain, **({"to": DTypeValue(to)} if to is not None else {})}),
    st.dictionaries(st.sampled_from(["axis", "alpha", "op", "loop"]), VALUES, max_size=3),
    st.none() | DTYPES,
)
HINTS = st.fixed_dictionaries(
    {},
    optional={
        "fuse": st.builds(BoolValue, st.booleans()),
        "group": st.builds(StrValue, TEXTS),
        "placement": st.builds(StrValue, TEXTS),
    },
).map(Attrs)
SLOTS = st.one_of(
    st.builds(Single, EXPRESSIONS),
    st.builds(Slice, st.none() | EXPRESSIONS, st.none() | EXPRESSIONS | st.integers(-9, -1).map(Const)),
)
ACCESSES = st.one_of(
    st.builds(CacheAccess, NAMES),
    st.builds(CacheAccess, NAMES, st.just(True), st.lists(SLOTS, max_size=3).map(tuple)),
)
LISTED = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
DIMS = st.lists(EXPRESSIONS, max_size=3).map(tuple)
TARGETS = st.one_of(NAMES, st.sampled_from(["cache.read", "cache.write", "cache.reset"]))

HINTED = st.one_of(
    st.builds(Op, NAMES, st.lists(REFS, max_size=3).map(tuple), LISTED, SETTINGS),
    st.builds(Transfer, REFS, NAMES),
    st.builds(CacheRead, ACCESSES, NAMES),
    st.builds(CacheWrite, REFS, ACCESSES),
    st.builds(CacheIncrement, NAMES, EXPRESSIONS),
    st.builds(CacheDecrement, NAMES, EXPRESSIONS),
    st.builds(CacheReset, ACCESSES),
)
UNHINTED = st.one_of(
    st.builds(Assign, NAMES, DTYPES, DIMS),
    st.builds(Branch, NAMES),
    st.builds(Branch, NAMES, NAMES, NAMES),
    st.builds(Barrier),
    st.builds(Dep, TARGETS, TARGETS),
    st.builds(Yield, LISTED),
    st.builds(Await, LISTED),
    st.builds(Return, st.lists(NAMES, max_size=2).map(tuple)),
)


@st.composite
def bodies(draw, counter: list[int], outer: tuple[str, ...], depth: int) -> tuple[Node, ...]:
    """Draw a statement list; scopes of nodes extend the scope of the loop around them."""
    nodes: list[Node] = []
    for _ in range(draw(st.integers(0, 4))):
        scope = (*outer, *draw(st.lists(TEXTS, max_size=2)))
        choice = draw(st.sampled_from(["hinted", "plain", "loop"] if depth < 3 else ["hinted", "plain"]))
        hints = draw(HINTS) if choice != "plain" else Attrs()
        if choice == "loop":
            body = draw(bodies(counter, scope, depth + 1))
            kind = Loop(draw(NAMES), draw(NAMES), draw(EXPRESSIONS), draw(EXPRESSIONS), body)
        else:
            kind = draw(HINTED if choice == "hinted" else UNHINTED)
        index = counter[0]
        counter[0] += 1
        nodes.append(Node(index=index, uuid=UUID(int=index), kind=kind, hints=hints, scope=scope))
    return tuple(nodes)


@st.composite
def initial_values(draw, dtype):
    if dtype.is_float:
        bits = draw(st.integers(0, 2**dtype.bits - 1))
        value = decode_bits(dtype, bits)
        return math.nan if math.isnan(value) else value
    if dtype.kind is Kind.BOOL:
        return draw(st.booleans())
    return draw(st.sampled_from([-1, 1]) if dtype.name == "t1" else st.integers(dtype.minimum, dtype.maximum))


@st.composite
def declarations(draw, name: str) -> VarDecl:
    dtype = draw(DTYPES)
    unknown = st.lists(st.builds(AttrArg, VALUES, st.none() | NAMES), max_size=2).map(tuple)
    return VarDecl(
        name=name,
        kind=draw(st.sampled_from(MemoryKind)),
        dtype=dtype,
        dims=draw(DIMS),
        init=draw(st.none() | initial_values(dtype)),
        ref=draw(st.none() | TEXTS),
        pattern=draw(st.none() | TEXTS),
        formals=draw(st.lists(NAMES, max_size=3).map(tuple)),
        table=draw(st.booleans()),
        auto_dim=draw(st.lists(NAMES, max_size=2).map(tuple)),
        fixed=draw(st.lists(st.tuples(NAMES, INTEGERS), max_size=2).map(tuple)),
        attrs=tuple(draw(st.dictionaries(st.sampled_from(["layout", "quant"]), unknown, max_size=2)).items()),
    )


@st.composite
def graphs(draw) -> Graph:
    counter = [0]
    names = draw(st.lists(NAMES, unique=True, max_size=3))
    blocks = draw(st.lists(st.sampled_from(["entry", "ok", "bad"]), unique=True, max_size=3))
    return Graph(
        vars=MappingProxyType({name: draw(declarations(name)) for name in names}),
        blocks=MappingProxyType({name: Block(name, draw(bodies(counter, (), 0)), draw(HINTS)) for name in blocks}),
        next_index=counter[0],
    )


@LIMITS
@given(graphs())
def test_printed_text_parses_to_an_equal_graph(built: Graph) -> None:
    text = built.to_dsl()
    again = graph(text)
    assert again == built
    assert again.to_dsl() == text


@LIMITS
@given(graphs())
def test_json_reads_back_as_an_equal_graph_with_the_same_numbers_and_ids(built: Graph) -> None:
    text = GraphSerialize.text(built)
    again = GraphDeserialize.from_json(text)
    assert again == built
    assert again.warnings == ()
    assert again.next_index == built.next_index
    assert {(node.index, node.uuid) for _, node in again.nodes()} == {
        (node.index, node.uuid) for _, node in built.nodes()
    }
    assert GraphSerialize.text(again) == text
    assert GraphDeserialize.from_json(json.loads(text)) == built


@LIMITS
@given(graphs())
def test_text_json_and_text_again_agree(built: Graph) -> None:
    read = graph(built.to_dsl())
    again = GraphDeserialize.from_json(GraphSerialize.json(read))
    assert sorted(again.to_dsl().splitlines()) == sorted(built.to_dsl().splitlines())
    assert graph(again.to_dsl()) == built


PIECES = st.sampled_from(
    [
        *(
            "block entry { ",
            "}",
            "{",
            ";",
            "op f(x) >> y",
            "loop l (i in 0..3) {",
            "x: f32[B]",
            "volatile {",
            "@init(",
            "1.0",
        ),
        *(
            ")",
            "(",
            "[",
            "]",
            "..",
            ">>",
            "with { ",
            "fuse = true",
            '"',
            '"a"',
            "//",
            "/*",
            "*/",
            "\n",
            "cache.read K[",
            "-",
        ),
        *(
            "@",
            "assign t",
            ":",
            ",",
            "0x",
            "9" * 30,
            "\\",
            "é",
            "#",
            "scope s {",
            "branch a b",
            "+",
            "*",
            "1e",
            "return",
            " ",
        ),
    ]
)


def findings_of(text: str) -> tuple[Diagnostic, ...]:
    try:
        graph(text)
    except (DslSyntaxError, GraphError) as error:
        return error.diagnostics or pytest.fail(f"no findings in {error!r}")
    return ()


@settings(max_examples=300, deadline=5000)
@given(st.one_of(st.lists(PIECES, max_size=25).map("".join), st.text(max_size=40)))
def test_any_text_is_a_program_or_an_error_with_a_place(text: str) -> None:
    assert all(0 <= finding.span.start <= finding.span.end <= len(text) for finding in findings_of(text))


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
    """Return a value as text says it: programs tell no widths of numbers, and types by name where no setting asks."""
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
    """Return what may stand in the place of a part and still have its form."""
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


@LIMITS
@given(graphs())
def test_layout_leaves_canonical_text_as_it_is(built: Graph) -> None:
    assert formatted(built.to_dsl()) == built.to_dsl()


@LIMITS
@given(graphs(), st.randoms(use_true_random=False))
def test_layout_does_not_depend_on_white_space(built: Graph, random: Random) -> None:
    canonical = built.to_dsl()
    crowded = re.sub(
        r'("(?:[^"\\\n]|\\[^\n])*")|([;{}(),\[\]=:@]) ?|\n *',
        lambda found: found[1] or f"{found[2] or ''}{random.choice(['', ' ', chr(10), '  '])}",
        canonical,
    )
    laid_out = formatted(crowded)
    assert graph(laid_out) == built
    assert formatted(laid_out) == laid_out
