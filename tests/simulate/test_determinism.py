"""What runs twice gives the same twice (``specification: runtime.determinism``)."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.ir.nodes import Loop
from openinfer.simulate import Simulator

WORK = """
import hashlib, json
import numpy as np
import openinfer as oi
from openinfer.dsl import graph
from openinfer.serialize import GraphDeserialize, GraphSerialize, trace_to_json
from openinfer.simulate import Simulator

rng = np.random.default_rng(3)
model = oi.Model.from_arrays({"w": rng.normal(size=(301, 257)).astype(np.float32)})
program = graph('''
dynamic { x: f32[129, 301]; q: i32[129, 301]; r: i32[301, 257]; }
volatile { w: f32[301, 257]; y: i32[129, 257]; p: f32[129, 301]; s: f32[301]; c: f32; n: f32[129, 301];
  h: f32[129, 301]; float_product: f32[129, 257]; }
persistent { K(i): f32[129, 301] @table; count: i32; }
block entry {
  op matmul(q, r) >> y; op softmax(x, axis=1) >> p; op sum_axis(p, axes=[0]) >> s; op mean_axis(x, axes=[0, 1]) >> c;
  op l2_norm(x, axis=1) >> n; op matmul(x, w) >> float_product;
  yield h; loop l (i in 0..3) { cache.write x >> K[i]; } await h; branch last; return y, p, s, c, n, h;
}
block b { await h; op add(h, x) >> h; yield h; }
block a { await h; cache.increment count; yield h; }
block last { return; }
''')
inputs = {"x": rng.normal(size=(129, 301)).astype(np.float32),
          "q": rng.integers(-99, 99, (129, 301), np.int32), "r": rng.integers(-99, 99, (301, 257), np.int32)}
exact = inputs["x"].astype(np.float64) @ model.load_tensor("w").astype(np.float64)
copy = GraphDeserialize.from_json(GraphSerialize.json(program))
for each in (program, copy):
    ex = Simulator(model, each, trace=True, echo=False).make_executor()
    ex.step(**inputs)
    for name, value in ex.outputs().items():
        print(name, hashlib.sha256(np.asarray(value).tobytes()).hexdigest())
    np.testing.assert_allclose(ex.fetch("float_product"), exact, rtol=1e-4, atol=1e-4)
    print(json.dumps(trace_to_json(ex.trace())))
wrong = graph('''
dynamic { x: f32[Q]; z: f32[2]; } volatile { y: f32[3]; } persistent { p: f32; }
block z { op nope(z) >> y; return; } block entry { op add(z, z) >> y; op add(p, z) >> q; branch z; branch a; return; }
block a { op relu(z, beta=1.0, gamma=2.0) >> y; return; }
''')
for each in (wrong, GraphDeserialize.from_json(GraphSerialize.json(wrong))):
    try:
        Simulator(model, each)
    except oi.ValidationError as error:
        print([(d.code, d.message, d.hint) for d in error.diagnostics])
"""


def reported(seed: str, threads: str) -> str:
    """Return what the work prints in a process with a seed of hashes and a number of threads."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **limits, "PYTHONHASHSEED": seed},
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


@pytest.mark.rule("runtime.determinism.1", "runtime.determinism.2")
def test_values_events_and_errors_depend_on_no_seed_and_no_number_of_threads() -> None:
    """Products of floats, by a library that cannot always be limited to one thread, have a test of their own."""
    alone = reported("0", "1")
    assert alone.count("OpExecute") == 14
    assert alone.count("unknown-op") == 2
    assert reported("1", "2") == alone


@pytest.mark.rule("runtime.determinism.4")
@pytest.mark.parametrize("attempt", range(3))
def test_memory_that_nobody_wrote_is_zero(attempt: int) -> None:
    """Whatever earlier programs left in memory that was freed."""
    junk = [np.full(4096, float(attempt + 7), np.float32) for _ in range(64)]
    del junk
    program = graph("""
        volatile { v: f32[4096]; rows: f32[2, 4096]; } persistent { p: f32[4096]; K(i): f32[4096] @table;
          A(m): f32[1] @auto_dim(m); }
        block entry { assign t: f32[4096]; cache.read K[5] >> v; cache.read K[0..2] >> rows; op add(v, t) >> v;
          return v; }
    """)
    ex = Simulator(oi.Model.from_arrays({}), program).make_executor()
    running = ex.iterate()
    next(running)
    assert not ex.fetch("t").any()
    list(running)
    for name in ("v", "rows", "p", "K", "A"):
        assert not np.asarray(ex.fetch(name)).any()


@pytest.mark.rule("runtime.determinism.5")
def test_nodes_run_in_the_order_written_and_none_is_skipped() -> None:
    """Statements whose results nobody uses run too."""
    program = graph("""
        volatile { a: f32; b: f32; } block entry {
          op add(a, a) >> b; op add(a, a) >> b; op exp(a) >> b; transfer a >> b; transfer b >> b;
          assign t: f32; loop l (i in 0..2) { op sin(a) >> t; barrier; } dep after(sin) before(return); return; }
    """)
    nodes = []
    for node in program.blocks["entry"].nodes:
        nodes.append(node.index)
        if isinstance(node.kind, Loop):
            nodes += [each.index for each in node.kind.body] * 2
    stepped, iterated = (
        Simulator(oi.Model.from_arrays({}), program, trace=True, echo=False).make_executor() for _ in range(2)
    )
    stepped.step()
    assert [event.node_index for event in stepped.trace()] == nodes
    assert [run.event.node_index for run in iterated.iterate()] == nodes
