"""What each statement, declaration and literal of the language becomes in the graph."""

from __future__ import annotations

import math

import pytest

from openinfer.dsl import graph
from openinfer.dtypes import BUILTIN, F32, I16, I32
from openinfer.ir.graph import AttrArg, MemoryKind, VarDecl
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
    NodeKind,
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
    IntListValue,
    IntValue,
    Ref,
    StrValue,
    VarValue,
)
from openinfer.symbolic import BinOp, Const, Name


def kind_of(statement: str) -> NodeKind:
    (node,) = graph(f"block entry {{ {statement} }}").blocks["entry"].nodes
    return node.kind


def declared(text: str, section: str = "volatile") -> VarDecl:
    (decl,) = graph(f"{section} {{ {text} }}").vars.values()
    return decl


STATEMENTS: dict[str, NodeKind] = {
    "assign t: f32;": Assign("t", F32),
    "assign t: f32[];": Assign("t", F32),
    "assign t : f32 [B, 2*(D+1),];": Assign(
        "t", F32, (Name("B"), BinOp("*", Const(2), BinOp("+", Name("D"), Const(1))))
    ),
    "op f() >> z;": Op("f", (), ("z",)),
    "op f(x, W[l+1, 0],) >> y, z;": Op(
        "f", (Ref("x"), Ref("W", (BinOp("+", Name("l"), Const(1)), Const(0)))), ("y", "z")
    ),
    "op op(op, loop=1) >> block;": Op("op", (Ref("op"),), ("block",), Attrs({"loop": IntValue(1)})),
    "transfer x >> y;": Transfer(Ref("x"), "y"),
    "transfer W[0] >> y;": Transfer(Ref("W", (Const(0),)), "y"),
    "cache.read K >> h;": CacheRead(CacheAccess("K"), "h"),
    "cache . read K[] >> h;": CacheRead(CacheAccess("K", bracketed=True), "h"),
    "cache.write W[l] >> K[l, t+1];": CacheWrite(
        Ref("W", (Name("l"),)),
        CacheAccess("K", True, (Single(Name("l")), Single(BinOp("+", Name("t"), Const(1))))),
    ),
    "cache.increment step;": CacheIncrement("step"),
    "cache.increment 5 step;": CacheIncrement("step", Const(5)),
    "cache.decrement 0x10 step;": CacheDecrement("step", Const(16)),
    "cache.increment n step;": CacheIncrement("step", Name("n")),
    "cache.decrement (2*n) step;": CacheDecrement("step", BinOp("*", Const(2), Name("n"))),
    "cache.increment with with;": CacheIncrement("with", Name("with")),
    "cache.reset K[l];": CacheReset(CacheAccess("K", True, (Single(Name("l")),))),
    "branch next;": Branch("next"),
    "branch cond ok bad;": Branch("ok", "cond", "bad"),
    "loop layers (l in 0..2*n) { }": Loop("layers", "l", Const(0), BinOp("*", Const(2), Name("n"))),
    "barrier;": Barrier(),
    "dep after(matmul) before(cache.write);": Dep("matmul", "cache.write"),
    "yield a;": Yield(("a",)),
    "await a, b,;": Await(("a", "b")),
    "return;": Return(),
    "return y, z;": Return(("y", "z")),
}


@pytest.mark.rule(
    "language.branch.1",
    "language.cache.4",
    "language.loop.1",
    "language.operators.1",
    "language.operators.5",
    "language.return.1",
    "language.transfer.1",
)
@pytest.mark.parametrize(("text", "expected"), STATEMENTS.items(), ids=STATEMENTS)
def test_statement(text: str, expected: NodeKind) -> None:
    assert kind_of(text) == expected


FULL = Slice()
ACCESSES = {
    "A[1]": (Single(Const(1)),),
    "A[..]": (FULL,),
    "A[,]": (FULL, FULL),
    "A[i, ]": (Single(Name("i")), FULL),
    "A[, j]": (FULL, Single(Name("j"))),
    "A[0..-3]": (Slice(Const(0), Const(-3)),),
    "A[..-3, 2..]": (Slice(None, Const(-3)), Slice(Const(2), None)),
    "A[0..D+i, 1024-1]": (Slice(Const(0), BinOp("+", Name("D"), Name("i"))), Single(BinOp("-", Const(1024), Const(1)))),
    "A[-1]": (Single(Const(-1)),),
}


@pytest.mark.rule("language.accesses.1", "language.text.9")
@pytest.mark.parametrize(("text", "slots"), ACCESSES.items(), ids=ACCESSES)
def test_cache_access(text: str, slots: tuple[Single | Slice, ...]) -> None:
    assert kind_of(f"cache.read {text} >> x;") == CacheRead(CacheAccess("A", True, slots), "x")


VALUES: dict[str, AttrValue] = {
    "3": IntValue(3),
    "-7": IntValue(-7),
    "+7": IntValue(7),
    "1_000": IntValue(1000),
    "0xFf": IntValue(255),
    "0o17": IntValue(15),
    "0b1_1": IntValue(3),
    "3usize": IntValue(3),
    "-9223372036854775808": IntValue(-(2**63)),
    "0.5": DoubleValue(0.5),
    "5.": DoubleValue(5.0),
    "1e-6": DoubleValue(1e-6),
    "-2.5E+3": DoubleValue(-2500.0),
    "inf": DoubleValue(math.inf),
    "-inf": DoubleValue(-math.inf),
    "nan": DoubleValue(math.nan),
    "true": BoolValue(True),
    '"a\\"b\\x41\\u{1F600}\\n"': StrValue('a"bA😀\n'),
    "[]": IntListValue(()),
    "[0, -1,]": IntListValue((0, -1)),
    "[0.5, 1]": DoubleListValue((0.5, 1.0)),
    "[f32, i16]": DTypeListValue((F32, I16)),
    "alpha": VarValue(Ref("alpha")),
    "i32": VarValue(Ref("i32")),
    "b[l]": VarValue(Ref("b", (Name("l"),))),
    "t+1": ExprValue(BinOp("+", Name("t"), Const(1))),
    "2+3": ExprValue(BinOp("+", Const(2), Const(3))),
    "(3)": IntValue(3),
    "[B, t+1, -1]": ExprListValue((Name("B"), BinOp("+", Name("t"), Const(1)), Const(-1))),
}


@pytest.mark.rule(
    "language.settings.1",
    "language.settings.2",
    "language.settings.3",
    "language.settings.4",
    "language.text.5",
    "language.text.6",
    "language.text.7",
    "language.text.8",
)
@pytest.mark.parametrize(("text", "value"), VALUES.items(), ids=VALUES)
def test_setting_value(text: str, value: AttrValue) -> None:
    assert kind_of(f"op f(x, a={text}) >> z;") == Op("f", (Ref("x"),), ("z",), Attrs({"a": value}))


@pytest.mark.rule("language.settings.3")
@pytest.mark.parametrize("setting", ["to", "acc"])
def test_a_dtype_name_is_a_type_in_the_settings_that_take_types(setting: str) -> None:
    assert kind_of(f"op f(x, {setting}=i32) >> z;") == Op("f", (Ref("x"),), ("z",), Attrs({setting: DTypeValue(I32)}))


@pytest.mark.rule("language.types.1")
@pytest.mark.parametrize("dtype", BUILTIN, ids=str)
def test_every_dtype_is_known_by_all_its_names(dtype) -> None:
    assert {declared(f"x: {name};").dtype for name in (dtype.name, *dtype.aliases)} == {dtype}


INITS = {
    "f32 @init(0.1)": 0.10000000149011612,
    "f16 @init(1.5)": 1.5,
    "f8 @init(1.2)": 1.25,
    "f64 @init(0.1)": 0.1,
    "bf16 @init(-inf)": -math.inf,
    "i1 @init(-1)": -1,
    "u64 @init(18446744073709551615)": 2**64 - 1,
    "bool @init(1)": True,
    "bool @init(false)": False,
    "bitset @init(255)": 255,
    "t2 @init(-1)": -1,
}


@pytest.mark.rule("language.attributes.2", "language.attributes.3")
@pytest.mark.parametrize(("text", "value"), INITS.items(), ids=INITS)
def test_init_is_rounded_to_the_type(text: str, value: float) -> None:
    init = declared(f"x: {text};").init
    assert init == value
    assert type(init) is type(value)


@pytest.mark.rule("language.attributes.1", "language.attributes.10")
def test_all_attributes_of_a_declaration() -> None:
    decl = declared(
        'C(l, i,): f32[D] @custom(a=1, x, "s") @fixed(l=4, i=2) @auto_dim(i) @table @init(1.0);', "persistent"
    )
    assert (decl.formals, decl.table, decl.auto_dim, decl.fixed) == (("l", "i"), True, ("i",), (("l", 4), ("i", 2)))
    assert decl.init == 1.0
    arguments = (AttrArg(IntValue(1), "a"), AttrArg(VarValue(Ref("x"))), AttrArg(StrValue("s")))
    assert decl.attrs == (("custom", arguments),)


@pytest.mark.rule("language.attributes.4")
def test_links_to_the_model() -> None:
    assert declared('w: f32 @ref("a.b-c");').ref == "a.b-c"
    assert declared("w: f32 @ref(other);").ref == "other"
    assert declared('W(l): f32 @pattern("W.{l}");').pattern == "W.{l}"


@pytest.mark.rule("language.program.1", "language.program.2")
def test_sections_repeat_and_constants_is_a_spelling_of_constant() -> None:
    built = graph("constants { a: f32; } block entry { } dynamic { } constant { b: f32; } persistent { c: i8; }")
    assert [(decl.name, decl.kind) for decl in built.vars.values()] == [
        ("a", MemoryKind.CONSTANT),
        ("b", MemoryKind.CONSTANT),
        ("c", MemoryKind.PERSISTENT),
    ]


@pytest.mark.rule("language.text.4")
def test_keywords_are_names_like_any_other() -> None:
    text = "volatile { cache: f32; with: i8; block: f16; f32: f32; } block block with { } { branch with; return with; }"
    built = graph(text)
    assert list(built.vars) == ["cache", "with", "block", "f32"]
    assert [node.kind for node in built.blocks["block"].nodes] == [Branch("with"), Return(("with",))]


@pytest.mark.rule("language.text.2")
def test_comments_nest_and_strings_hide_them() -> None:
    text = '/* a /* b */ c */ volatile { x: f32 @ref("/* no */ // no"); // } \n }'
    assert graph(text).vars["x"].ref == "/* no */ // no"


@pytest.mark.rule("language.hints.1", "language.hints.2", "language.scope.1")
def test_hints_stay_where_they_are_written_and_scopes_hand_theirs_to_what_is_inside() -> None:
    text = """block entry with { no_reorder = true } {
      scope "a" with { fuse = true, group = "g" } {
        op f(x) >> y with { fuse = false };
        scope b { transfer x >> y; barrier; }
        loop l (i in 0..2) with { fast = true } { op g(x) >> y; }
      }
      op h(x) >> y;
    }"""
    block = graph(text).blocks["entry"]
    group = StrValue("g")
    assert block.hints == {"no_reorder": BoolValue(True)}
    found = [(type(node.kind).__name__, node.scope, dict(node.hints)) for node in block.walk()]
    assert found == [
        ("Op", ("a",), {"fuse": BoolValue(False), "group": group}),
        ("Transfer", ("a", "b"), {"fuse": BoolValue(True), "group": group}),
        ("Barrier", ("a", "b"), {}),
        ("Loop", ("a",), {"fuse": BoolValue(True), "group": group, "fast": BoolValue(True)}),
        ("Op", ("a",), {}),
        ("Op", (), {}),
    ]
