"""Random graphs of every statement, value and declaration, as strategies of hypothesis."""

from __future__ import annotations

import math
from types import MappingProxyType
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from openinfer.dtypes import BUILTIN, Kind
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
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeListValue,
    DTypeValue,
    ExprListValue,
    ExprValue,
    IntListValue,
    IntValue,
    Number,
    Ref,
    StrValue,
    VarValue,
    number_value,
)
from openinfer.scalars import decode_bits
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


def tuples(items, *, least=0, most=3):
    return st.lists(items, min_size=least, max_size=most).map(tuple)


OPERATIONS = st.sampled_from(["+", "-", "*", "/", "%", "floor", "ceil"])


def sums(leaves):
    return st.recursive(leaves, lambda inner: st.builds(BinOp, OPERATIONS, inner, inner), max_leaves=6)


EXPRESSIONS = sums(st.one_of(st.builds(Const, INTEGERS), st.builds(Name, NAMES)))
BRANCHED = st.builds(BinOp, OPERATIONS, EXPRESSIONS, EXPRESSIONS)
REFS = st.builds(Ref, NAMES, tuples(EXPRESSIONS, most=2))
NUMBERS = st.builds(
    lambda number: Number(value=number_value(number)),
    st.one_of(st.booleans(), SIGNED, st.integers(0, 2**64 - 1), FLOATS),
)
DTYPES = st.sampled_from(BUILTIN)
EXPRESSION_ITEMS = st.one_of(
    EXPRESSIONS.filter(lambda e: not (isinstance(e, Name) and e.name in DTYPE_NAMES)), st.builds(Const, SIGNED)
)

VALUES = st.one_of(
    st.builds(IntValue, SIGNED),
    st.builds(DoubleValue, FLOATS),
    st.builds(BoolValue, st.booleans()),
    st.builds(StrValue, TEXTS),
    st.builds(IntListValue, tuples(SIGNED)),
    st.builds(DoubleListValue, tuples(FLOATS, least=1)),
    st.builds(VarValue, REFS),
    st.builds(DTypeListValue, tuples(DTYPES, least=1, most=2)),
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
    st.builds(CacheAccess, NAMES, st.just(True), tuples(SLOTS)),
)
LISTED = tuples(NAMES, least=1)
DIMS = tuples(EXPRESSIONS)
TARGETS = st.one_of(NAMES, st.sampled_from(["cache.read", "cache.write", "cache.reset"]))

HINTED = st.one_of(
    st.builds(Op, NAMES, tuples(REFS | NUMBERS), LISTED, SETTINGS),
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
    st.builds(Return, tuples(NAMES, most=2)),
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
    unknown = tuples(st.builds(AttrArg, VALUES, st.none() | NAMES), most=2)
    return VarDecl(
        name=name,
        kind=draw(st.sampled_from(MemoryKind)),
        dtype=dtype,
        dims=draw(DIMS),
        init=draw(st.none() | initial_values(dtype)),
        ref=draw(st.none() | TEXTS),
        pattern=draw(st.none() | TEXTS),
        formals=draw(tuples(NAMES)),
        table=draw(st.booleans()),
        auto_dim=draw(tuples(NAMES, most=2)),
        fixed=draw(tuples(st.tuples(NAMES, INTEGERS), most=2)),
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
