"""Canonical text of graphs and the one-line descriptions of nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openinfer.dsl import graph
from openinfer.ir.nodes import CacheRead, Op
from openinfer.ir.text import access_text, node_desc, ref_text

WRITTEN = """
block helper { branch entry_2; return; }
persistent { K(l,t):f16[H,Dh]@fixed(l=3)@table; A(i):f32[D]@auto_dim(i); step:i32@init(0); }
constants { gamma : f64 [ ] @ref(g) @layout("nchw",k=[1,2]); big: u64 @init(0xFFFF_FFFF_FFFF_FFFF); }
block entry with { fast=true } {
  assign t:f32[B,(3*(D))+1]; // a comment
  op f( x , W[ l+1,0 ],axis=-1,eps=1e-6,s=[B,t+1,-1],a=-inf,n="\\"\\u{7}",acc=[f32] ) >> x,y with{fuse=false,};
  scope attention with { group = "a" } { op g(x) >> x; loop l (i in (0)..2*(n+1)) { scope "in ner" { barrier; } } }
  cache.read K[ 0..-3 , ] >> x; cache.read A[..] >> x; cache.write x >> K[l,t]; cache.increment 1 step;
  cache.decrement 2 step;
  branch c entry_2 helper; yield x,y; await x; dep after(f) before(cache . write); return x,y;
}
block entry_2 { }
volatile { W(l,h):f32@pattern("W.{l}.{h}"); y:f32; flag: bool @init(1); }
dynamic { x:f32[B] @init(0.1); }
"""

CANONICAL = """\
dynamic {
  x: f32[B] @init(0.1);
}

volatile {
  W(l, h): f32 @pattern("W.{l}.{h}");
  y: f32;
  flag: bool @init(true);
}

constant {
  gamma: f64 @ref("g") @layout("nchw", k=[1, 2]);
  big: u64 @init(18446744073709551615);
}

persistent {
  K(l, t): f16[H, Dh] @table @fixed(l=3);
  A(i): f32[D] @auto_dim(i);
  step: i32 @init(0);
}

block entry with { fast = true } {
  assign t: f32[B, 3*D+1];
  op f(x, W[l+1,0], axis=-1, eps=1e-06, s=[B, t+1, -1], a=-inf, n="\\"\\u{7}", acc=[f32]) >> x, y with { fuse = false };
  scope "attention" {
    op g(x) >> x with { group = "a" };
    loop l (i in 0..2*(n+1)) with { group = "a" } {
      scope "in ner" {
        barrier;
      }
    }
  }
  cache.read K[0..-3,] >> x;
  cache.read A[..] >> x;
  cache.write x >> K[l,t];
  cache.increment step;
  cache.decrement 2 step;
  branch c entry_2 helper;
  yield x, y;
  await x;
  dep after(f) before(cache.write);
  return x, y;
}

block helper {
  branch entry_2;
  return;
}

block entry_2 {
}
"""


@pytest.mark.rule("language.canonical.1")
def test_canonical_text() -> None:
    assert graph(WRITTEN).to_dsl() == CANONICAL


@pytest.mark.rule("language.canonical.2")
def test_canonical_text_is_a_fixed_point() -> None:
    assert graph(CANONICAL).to_dsl() == CANONICAL
    assert graph(CANONICAL) == graph(WRITTEN)
    assert str(graph(CANONICAL)) == CANONICAL


def test_a_scope_is_distinguished_from_its_neighbours() -> None:
    text = 'scope "a" { scope "b" { barrier; } scope "c" { barrier; } } scope "c" { barrier; } barrier;'
    nodes = graph(f"block entry {{ {text} }}").blocks["entry"].nodes
    assert [node.scope for node in nodes] == [("a", "b"), ("a", "c"), ("c",), ()]
    assert graph(graph(f"block entry {{ {text} }}").to_dsl()).blocks["entry"].nodes == nodes


DESCRIPTIONS = {
    "assign t0: f32[B];": "assign t0",
    "op add(x, y, axis=1) >> z;": "op add(x,y) >> z",
    "op topk(W[l, 0]) >> v, i;": "op topk(W[l,0]) >> v, i",
    "transfer a >> b;": "transfer a >> b",
    "cache.read A[0] >> o;": "cache.read A[0] >> o",
    "cache.read A[1, 2..3] >> o;": "cache.read A[1,2..3] >> o",
    "cache.read A[, 3] >> o;": "cache.read A[,3] >> o",
    "cache.read K[] >> o;": "cache.read K[] >> o",
    "cache.write x >> A[0];": "cache.write x >> A[0]",
    "cache.increment s;": "cache.increment s",
    "cache.increment 5 s;": "cache.increment 5 s",
    "cache.decrement 2 s;": "cache.decrement 2 s",
    "cache.reset K[l];": "cache.reset K[l]",
    "branch t;": "branch t",
    "branch c a b;": "branch c a b",
    "loop n (i in 0..D) { }": "loop n (i in 0..D)",
    "barrier;": "barrier",
    "dep after(a) before(b);": "dep after(a) before(b)",
    "yield a, b;": "yield a, b",
    "await a, b;": "await a, b",
    "return;": "return",
    "return h;": "return h",
}


@pytest.mark.rule("runtime.traces.5")
@pytest.mark.parametrize(("statement", "description"), DESCRIPTIONS.items(), ids=DESCRIPTIONS)
def test_node_description(statement: str, description: str) -> None:
    (node,) = graph(f"block entry {{ {statement} }}").blocks["entry"].nodes
    assert node_desc(node) == description


@pytest.mark.rule("runtime.traces.4")
def test_references_and_accesses_have_a_compact_form() -> None:
    nodes = graph("block entry { op f(QKV[l, h+1]) >> x; cache.read K[ .. , 1 .. , t ] >> x; }").blocks["entry"].nodes
    op, read = (node.kind for node in nodes)
    assert isinstance(op, Op)
    assert isinstance(read, CacheRead)
    assert ref_text(op.inputs[0]) == "QKV[l,h+1]"
    assert access_text(read.src) == "K[,1..,t]"


@pytest.mark.rule("language.canonical.3")
def test_only_what_a_graph_means_counts_for_equality() -> None:
    built = graph(CANONICAL)
    reordered = replace(built, vars=dict(reversed(built.vars.items())), blocks=dict(reversed(built.blocks.items())))
    assert reordered == built
    assert graph("// moved\n\n" + CANONICAL.replace("  op f", "\n  op f")) == built
    assert graph(CANONICAL.replace("axis=-1, eps=1e-06", "eps=1e-06, axis=-1")) == built
    assert graph(CANONICAL.replace("axis=-1", "axis=1")) != built
    assert graph(CANONICAL.replace('scope "attention"', 'scope "other"')) != built
    assert graph(CANONICAL.replace("return x, y", "return y, x")) != built
