"""Whole programs from text to graph."""

from __future__ import annotations

import subprocess
import sys

import pytest

from openinfer.dsl import graph, load_graph
from openinfer.dtypes import F32
from openinfer.errors import DslSyntaxError
from openinfer.ir.graph import MemoryKind, VarDecl
from openinfer.ir.nodes import Assign, Loop, Op, Return
from openinfer.ir.values import Attrs, IntValue, Ref
from openinfer.symbolic import Const, Name

PROGRAM = """\
dynamic { x: f32[B]; }
volatile { a: f32[B]; y: f32[B] @init(5.0); }
block entry {
  assign t0: f32[B];
  op add(x, a) >> t0;
  loop layers (l in 0..3) {
    op mul(y, t0, axis=-1) >> y;
  }
  return;
}
"""


def test_declarations_keep_kind_type_and_attributes() -> None:
    built = graph(PROGRAM)
    expected = VarDecl(name="y", kind=MemoryKind.VOLATILE, dtype=F32, dims=(Name("B"),), init=5.0)
    assert built.vars["y"] == expected
    assert list(built.vars) == ["x", "a", "y"]


def test_statements_become_nodes_in_written_order() -> None:
    nodes = graph(PROGRAM).blocks["entry"].nodes
    loop = nodes[2].kind
    assert nodes[0].kind == Assign("t0", F32, (Name("B"),))
    assert nodes[1].kind == Op("add", (Ref("x"), Ref("a")), ("t0",))
    assert isinstance(loop, Loop)
    assert (loop.name, loop.index, loop.start, loop.end) == ("layers", "l", Const(0), Const(3))
    assert loop.body[0].kind == Op("mul", (Ref("y"), Ref("t0")), ("y",), Attrs({"axis": IntValue(-1)}))
    assert nodes[3].kind == Return()


@pytest.mark.rule("json.graphs.4")
def test_a_loop_is_numbered_after_its_body() -> None:
    text = """block entry {
      op a() >> x;
      loop outer (i in 0..2) { loop inner (j in 0..2) { op b() >> x; } barrier; }
      return;
    }"""
    built = graph(text)
    assert [node.index for node in built.blocks["entry"].walk()] == [0, 4, 2, 1, 3, 5]
    assert built.next_index == 6


@pytest.mark.rule("json.graphs.4")
def test_the_same_text_gives_the_same_ids_and_other_text_others() -> None:
    first, again, other = graph(PROGRAM), graph(PROGRAM), graph(PROGRAM.replace("op add", "op sub"))
    ids = [[node.uuid for _, node in built.nodes()] for built in (first, again, other)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0])
    assert ids[0][1] != ids[2][1]
    assert ids[0][1].version == 5


def test_spans_name_line_and_column_of_each_statement() -> None:
    built = graph(PROGRAM, name="p.oi")
    spans = [node.span for node in built.blocks["entry"].nodes]
    assert [str(span) for span in spans] == ["p.oi:4:3", "p.oi:5:3", "p.oi:6:3", "p.oi:9:3"]
    assert str(built.vars["y"].span) == "p.oi:2:23"
    assert spans[1] is not None
    assert PROGRAM[spans[1].start : spans[1].end] == "op add(x, a) >> t0"


@pytest.mark.rule("language.text.1")
def test_files_are_utf8_with_an_optional_byte_order_mark_and_any_line_ends(tmp_path) -> None:
    file = tmp_path / "model.oi"
    file.write_bytes("\ufeff".encode() + PROGRAM.replace("\n", "\r\n").encode())
    assert load_graph(file) == graph(PROGRAM)


@pytest.mark.rule("language.text.1")
def test_a_file_that_is_not_utf8_is_refused(tmp_path) -> None:
    file = tmp_path / "model.oi"
    file.write_bytes(b"block entry { \xff }")
    with pytest.raises(DslSyntaxError, match="not UTF-8"):
        load_graph(file)


def test_opening_the_front_end_imports_no_parser_and_no_array_library() -> None:
    modules = "openinfer.dsl, openinfer.ir.check, openinfer.ir.text, openinfer.serialize, openinfer.arch"
    heavy = "{'parsimonious', 'marshmallow', 'numpy', 'ml_dtypes', 'jinja2', 'vulkan'}"
    code = f"import sys, {modules}; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


DECODER = """
dynamic { x: f32[B, D]; }
volatile { z : f32 [B, D]; W(l): f32[D, D] @pattern("W.{l}"); }
constants { scale: f32 @ref("attention.scale"); }
persistent {
  step: i32 @init(0);
  K(l, t): f16[H, Dh] @table;
  window(i, j): f32[D, H] @auto_dim(i, j) @fixed(i=1024, j=256);
  heads(l, i, j): f32[D, H] @table @auto_dim(i, j);
}
block entry {
  assign h: f32[B, D];
  assign k: f16[H, Dh];
  assign finite: bool[];
  transfer x >> h;
  loop layers (l in 0..10) {
    cache.read  K[l, step] >> k;
    scope "attention" with { placement = "gpu" } { op attn(h, k, W[l]) >> h with { fuse = true, group = "a" }; }
    cache.write k >> K[l, step];
  }
  cache.read window[0..D+step, ] >> z;
  cache.read window[, 0..H] >> z;
  cache.read heads[0..4, step, step] >> z;
  cache.read K[0, 0..-3] >> z;
  dep after(layers) before(cache.increment);
  barrier;
  cache.increment step; cache.decrement 2 step; cache.reset K[0];
  op is_finite(h) >> finite;
  branch finite ok bad;
  yield h;
  op relu(x, negative_slope=0.0, clamp_min=-1e-6, clamp_max=inf) >> z;
  await h;
  return h;
}
block ok { op relu(h, negative_slope=0.0) >> h; return; }
block bad { op fill(h, value=0.0) >> h; return; }
block writer { await h; op add(h, h) >> h; yield h; }
block reader { await h; yield h; }
"""


def test_a_program_with_every_construct_has_no_findings() -> None:
    built = graph(DECODER, check=True, strict=True)
    assert len({type(node.kind) for _, node in built.nodes()}) == 15
    assert graph(built.to_dsl(), check=True, strict=True) == built
