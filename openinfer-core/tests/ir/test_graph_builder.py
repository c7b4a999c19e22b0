"""Graphs made by calls are those that text gives, with the same findings, placed at the lines of the calls."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.dtypes import BY_NAME
from openinfer.errors import GraphError, ValidationError
from openinfer.ir.values import Ref
from openinfer.symbolic import Name

TEXT = """\
dynamic {
  x: f32[B] @init(0.0);
  ready: bool;
}
volatile {
  y: f32[B] @init(5.0) @ref("model.y");
  z: f32[B];
}
constant {
  W(l): f32[B, 3*D] @pattern("W.{l}") @layout("nchw", tile=[4, 4]);
}
persistent {
  step: i32;
  K(l, t): f16[H] @table @fixed(l=3);
  C(l, i, j): f32[D, H] @table @auto_dim(i, j);
}
block entry with { group = "all" } {
  assign t0: f32[B, 4];
  loop layers (l in 0..n+1) with { fuse = true } {
    op matmul(x, W[l], eps=1e-6, shape=[1, t+1], acc=[i16, i32], to=i32, k=y, nan=nan) >> t0, y with { fast = true };
    scope "attention" {
      transfer W[l+1] >> z;
      cache.read K[l,0..step] >> z with { placement = "cpu" };
    }
  }
  cache.write z >> K[0,step];
  cache.increment step;
  cache.decrement 2 step;
  cache.reset C[0];
  barrier;
  dep after(matmul) before(cache.write);
  yield x;
  await x;
  branch other;
  branch ready other last;
  return y, z;
}
block other {
  return;
}
block last {
  return;
}
"""


def built() -> oi.Graph:
    b = oi.GraphBuilder()
    x = b.dynamic("x", "f32", ["B"], init=0.0)
    ready = b.dynamic("ready", "bool")
    y = b.volatile("y", BY_NAME["f32"], ["B"], init=5.0, ref="model.y")
    z = b.volatile("z", "f32", ["B"])
    tile: dict[str, object] = {"tile": [4, 4]}
    b.constant("W", "f32", ["B", "3 * D"], formals=["l"], pattern="W.{l}", attrs={"layout": tile})
    step = b.persistent("step", "i32")
    b.persistent("K", "f16", ["H"], formals=["l", "t"], table=True, fixed={"l": 3})
    b.persistent("C", "f32", ["D", "H"], formals=["l", "i", "j"], table=True, auto_dim=["i", "j"])
    with b.block("entry", hints={"group": "all"}):
        t0 = b.assign("t0", "f32", ["B", 4])
        with b.loop("layers", "l", 0, "n+1", hints={"fuse": True}):
            i16, i32 = BY_NAME["i16"], BY_NAME["i32"]
            settings = {"eps": 1e-6, "shape": [1, b.expr("t+1")], "acc": [i16, i32], "to": i32, "k": y, "nan": np.nan}
            b.op("matmul", x, "W[l]", outputs=[t0, y], settings=settings, hints={"fast": True})
            with b.scope("attention"):
                b.transfer("W[l+1]", z)
                b.cache_read("K[l, 0..step]", z, hints={"placement": "cpu"})
        b.cache_write(z, "K[0, step]")
        b.cache_increment(step)
        b.cache_decrement("step", 2)
        b.cache_reset("C[0]")
        b.barrier()
        b.dep(after="matmul", before="cache.write")
        b.yield_(x)
        b.await_("x")
        b.branch("other")
        b.branch_if(ready, "other", "last")
        b.return_(y, "z")
    with b.block("other"):
        b.return_()
    with b.block("last"):
        b.return_()
    return b.build()


@pytest.mark.rule("language.canonical.4")
def test_every_construct_is_that_of_text() -> None:
    text = TEXT.replace('@layout("nchw", tile=[4, 4])', "@layout(tile=[4, 4])")
    assert built() == oi.graph(text)
    assert built().to_dsl() == oi.graph(text).to_dsl()


def test_the_same_calls_give_the_same_json() -> None:
    text = TEXT.replace('@layout("nchw", tile=[4, 4])', "@layout(tile=[4, 4])")
    assert built().to_json() == built().to_json() == oi.graph(text).to_json()


def test_arguments_of_unknown_attributes_may_be_unnamed() -> None:
    b = oi.GraphBuilder()
    b.volatile("x", "f32", attrs={"layout": ["nchw", Ref("tile")]})
    assert 'x: f32 @layout("nchw", tile);' in b.build().to_dsl()


def test_numbers_of_numpy_are_numbers() -> None:
    b = oi.GraphBuilder()
    b.volatile("x", "f32", [np.int64(4)], init=np.float32(0.5))
    assert "x: f32[4] @init(0.5);" in b.build().to_dsl()


@pytest.mark.rule("language.canonical.4")
def test_findings_are_those_of_text_at_the_lines_of_the_calls() -> None:
    b = oi.GraphBuilder()
    b.dynamic("x", "float32", ["B"])
    b.volatile("y", "f32", init=5)
    b.volatile("y", "f32")
    with b.block("entry"):
        b.op("f", "x", outputs="y", settings={"a": [True]}, hints={"fuse": 3})
    with pytest.raises(GraphError) as caught:
        b.build()
    found = caught.value.diagnostics
    codes = ["unknown-dtype", "init-mismatch", "duplicate-name", "bad-hint", "bad-list"]
    assert sorted(finding.code for finding in found) == sorted(codes)
    lines = [finding.span.source.text.splitlines()[finding.span.line - 1].strip() for finding in found]
    assert lines[0] == 'b.dynamic("x", "float32", ["B"])'
    assert all(finding.span.source.name == __file__ for finding in found)


def test_the_structure_is_checked_too() -> None:
    b = oi.GraphBuilder()
    with b.block("entry"):
        b.op("add", "x", "y", outputs=b.volatile("z", "f32"))
        b.return_()
    with pytest.raises(ValidationError) as caught:
        b.build(check=True)
    assert [finding.code for finding in caught.value.diagnostics] == ["unknown-variable", "unknown-variable"]
    assert {finding.span.line for finding in caught.value.diagnostics} == {caught.value.diagnostics[0].span.line}


def test_warnings_are_errors_in_strict_mode() -> None:
    b = oi.GraphBuilder()
    b.volatile("x", "f32", attrs={"layout": ["nchw"]})
    assert [warning.code for warning in b.build().warnings] == ["unknown-attr"]
    with pytest.raises(GraphError, match="unknown attribute"):
        b.build(strict=True)


REFUSED = {
    "name": (lambda b: b.dynamic("1x", "f32"), "expected a name (letters, digits and _), found '1x'"),
    "literal word": (lambda b: b.dynamic("nan", "f32"), "expected a name"),
    "dims as one text": (lambda b: b.dynamic("x", "f32", "BD"), "expected a list of dimensions"),
    "dimension": (lambda b: b.dynamic("x", "f32", ["3*"]), "expected an integer expression, found '3*'"),
    "negative dimension": (lambda b: b.dynamic("x", "f32", [-1]), "expected an integer from 0"),
    "reference": (lambda b: b.transfer("W[", "x"), "expected a variable such as"),
    "more than a reference": (lambda b: b.transfer("x; barrier", "x"), "expected a variable such as"),
    "access": (lambda b: b.cache_read("K[-n]", "x"), "expected an access such as"),
    "indexed output": (lambda b: b.transfer("x", Ref("W", (b.expr("1"),))), "found an entry of the table `W`"),
    "empty yield": (lambda b: b.yield_(), "yield takes at least one variable"),
    "amount": (lambda b: b.cache_increment("n", -1), "expected an integer from 0"),
    "kind of value": (lambda b: b.op("f", outputs="y", settings={"a": object()}), "found object"),
    "large integer": (lambda b: b.op("f", outputs="y", settings={"a": 2**63}), "does not fit 64 bits"),
    "text as init": (lambda b: b.dynamic("x", "f32", init="a"), "init is a number or truth value"),
    "name of a reference": (lambda b: b.transfer(Ref("1x"), "x"), "expected a name"),
    "name in an index": (lambda b: b.transfer(Ref("W", (Name("a b"),)), "x"), "expected an integer expression"),
    "name of a value": (lambda b: b.op("f", outputs="y", settings={"a": Ref("a b")}), "expected a name"),
    "name in an expression": (lambda b: b.op("f", outputs="y", settings={"a": [Name("a b")]}), "found 'a b'"),
    "half of a pair in a setting": (lambda b: b.op("f", outputs="y", settings={"a": "q\ud800"}), "surrogate pair"),
    "half of a pair in a list": (lambda b: b.op("f", outputs="y", settings={"a": ["\ud800"]}), "surrogate pair"),
    "half of a pair in a hint": (lambda b: b.transfer("x", "y", hints={"group": "\udfff"}), "surrogate pair"),
    "half of a pair in ref": (lambda b: b.volatile("x", "f32", ref="\ud800"), "ref is not Unicode text"),
    "half of a pair in pattern": (lambda b: b.volatile("x", "f32", pattern="\ud800"), "pattern is not Unicode text"),
    "half of a pair in attrs": (lambda b: b.volatile("x", "f32", attrs={"l": ["\ud800"]}), "surrogate pair"),
    "half of a pair in a scope": (lambda b: b.scope("\ud800").__enter__(), "the name of a scope is not Unicode text"),
    "number as ref": (lambda b: b.volatile("x", "f32", ref=3), "ref is a string, found 3"),
    "target of dep": (lambda b: b.dep(after="a b", before="c"), "expected a name"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_text_could_not_say_is_refused_at_once(call, message: str) -> None:
    b = oi.GraphBuilder()
    with b.block("entry"), pytest.raises(GraphError) as caught:
        call(b)
    assert message in str(caught.value)


def test_an_access_may_be_a_reference() -> None:
    b = oi.GraphBuilder()
    with b.block("entry"):
        b.cache_read(Ref("K", (b.expr("l"), b.expr("t+1"))), "x")
        b.cache_read("K[l, t+1]", "x")
    first, second = b.build().blocks["entry"].nodes
    assert first == second


def test_statements_are_inside_of_blocks() -> None:
    with pytest.raises(GraphError, match="statements are added inside a block"):
        oi.GraphBuilder().barrier()


def test_blocks_do_not_nest_and_are_closed_before_the_graph_is_built() -> None:
    b = oi.GraphBuilder()
    with b.block("entry"):
        with pytest.raises(GraphError, match="do not nest"), b.block("inner"):
            pass
        with pytest.raises(GraphError, match="leave its `with` first"):
            b.build()


def test_a_block_that_fails_adds_nothing() -> None:
    b = oi.GraphBuilder()
    with pytest.raises(ZeroDivisionError), b.block("entry"):
        raise ZeroDivisionError
    assert b.build().blocks == {}
