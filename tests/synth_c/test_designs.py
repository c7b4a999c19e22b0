"""The language's designs as C: each program over many steps, its state saved and loaded into another instance halfway.

Programs are compiled by GCC and Clang without a warning and with sanitizers, and compared with the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from c_streams import assert_same_in_c
from generated_c import COMPILERS

from openinfer.dsl import graph
from openinfer.model import Model

STEPS = 100
LONG_SUMS = 1e-4
"""Sums of thousands of terms, which the simulator adds in another order."""
SIZES = {"B": 3, "D": 4, "H": 2, "Dh": 2, "L": 3, "C": 2}


@dataclass(frozen=True)
class Design:
    """A program of the designs.

    Attributes:
        data: shapes of tensors in the model, by name.
        limits: how far caches may grow.
        tolerance: another than that of the element type.
        steps: fewer where a cache has a bound of its own.
    """

    text: str
    data: dict[str, tuple[int, ...]] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    steps: int = STEPS
    tolerance: float | None = None


LAYERS = {f"W.{layer}": (4, 4) for layer in range(10)}

DESIGNS = {
    "two operators and an initial value": Design(
        """
        dynamic { x: f32[B]; }
        volatile { a: f32[B]; y: f32[B] @init(5.0); }
        block entry { assign sum: f32[B]; op add(x, a) >> sum; op mul(y, sum) >> y; return; }
        """,
        {"a": (3,)},
    ),
    "a matrix product": Design(
        """
        dynamic { x: f32[B, D]; }
        constant { W: f32[D, D]; }
        volatile { y: f32[B, D]; }
        block entry { op matmul(x, W) >> y; return; }
        """,
        {"W": (4, 4)},
    ),
    "constants under other names": Design(
        """
        dynamic { x: f32[B]; }
        constants { alpha: f32 @ref("a.scale"); bias: f32 @ref("a.shift"); }
        volatile { y: f32[B]; }
        block entry { op mul(x, alpha) >> y; op add(y, bias) >> y; return y; }
        """,
        {"a.scale": (), "a.shift": ()},
    ),
    "forms of relu": Design(
        """
        dynamic { x: f32[B]; }
        volatile { y: f32[B]; z: f32[B]; }
        block entry {
          op relu(x, negative_slope=0.0, clamp_min=0.0, clamp_max=inf) >> y;
          op relu(x, negative_slope=0.01) >> z;
          op add(y, z) >> y;
          op relu(x, negative_slope=0.0, clamp_max=6.0) >> z;
          op add(y, z) >> y;
          op relu(x, negative_slope=0.0, clamp_min=-1e-6) >> z;
          return y, z;
        }
        """
    ),
    "layers by name in a loop": Design(
        """
        dynamic { x: f32[B, D]; }
        volatile { h: f32[B, D]; W(l): f32[D, D] @pattern("W.{l}"); }
        block entry {
          transfer x >> h;
          loop layers (l in 0..L) { op matmul(h, W[l]) >> h; op relu(h) >> h; }
          return h;
        }
        """,
        LAYERS,
    ),
    "weights by layer and head": Design(
        """
        dynamic { x: f32[B, D]; }
        constant { QKV(layer, head): f32[D, 3*D] @pattern("attn.{head}.qkv.{layer}"); }
        volatile { y: f32[B, 3*D]; }
        block entry {
          assign part: f32[B, 3*D];
          loop layers (l in 0..L) {
            loop heads (h in 0..H) { op matmul(x, QKV[l, h]) >> part; op add(y, part) >> y; }
          }
          return y;
        }
        """,
        {f"attn.{head}.qkv.{layer}": (4, 12) for head in range(2) for layer in range(3)},
    ),
    "tables of one and two indices": Design(
        """
        dynamic { x: f32[D]; m: f16[D, H]; }
        volatile { y: f32[D]; z: f16[D, H]; w: f32[D]; }
        persistent {
          n: i32;
          A(i): f32[D] @table;
          B(i, j): f32[D] @table;
          C(i): f16[D, H] @table;
          E(i, j): f16[D, H] @table @fixed(i=24, j=16);
        }
        block entry {
          cache.write x >> A[n];
          cache.write x >> B[n % 3, n];
          cache.write m >> C[n];
          cache.write m >> E[n % 24, n % 16];
          cache.read A[0..n+1] >> all;
          op sum_axis(all, axes=[0]) >> y;
          cache.read B[n % 3] >> rows;
          op sum_axis(rows, axes=[0]) >> w;
          cache.read C[floor(n / 2)] >> z;
          cache.read E[n % 24, 0..16] >> seen;
          op max_axis(seen, axes=[0]) >> most;
          op add(z, most) >> z;
          cache.increment n;
          return y, z, w;
        }
        """,
        limits={"i": STEPS, "j": STEPS},
    ),
    "slices of a table": Design(
        """
        dynamic { x: f32[D]; }
        volatile { a: f32[D]; b: f32[5, D]; c: f32[3, D]; d: f32[D]; }
        persistent { n: i32; A(i): f32[D] @table; }
        block entry {
          cache.write x >> A[n];
          cache.write x >> A[n + 9];
          cache.read A[] >> whole;
          op sum_axis(whole, axes=[0]) >> a;
          cache.read A[0..5] >> b;
          cache.read A[2..5] >> c;
          cache.read A[0..-3] >> most;
          op sum_axis(most, axes=[0]) >> d;
          cache.increment n;
          return a, b, c, d;
        }
        """,
        limits={"i": STEPS + 9},
    ),
    "a matrix that grows, and its parts": Design(
        """
        dynamic { x: f32; }
        volatile { row: f32[H]; column: f32[D]; upper: f32; left: f32; part: f32; total: f32; }
        persistent {
          step: i32;
          A(i, j): f32[D, H] @auto_dim(i, j);
          B(i, j): f32[D, H] @auto_dim(i, j) @fixed(i=128, j=256);
        }
        block entry {
          cache.increment step;
          cache.read A[step, step] >> whole;
          op add(whole, x) >> whole;
          cache.write whole >> A[step, step];
          cache.read A[1, ] >> row;
          cache.read A[, 1] >> column;
          cache.read A[0..D+step, ] >> rows;
          op sum_axis(rows) >> upper;
          cache.read A[, 0..H+step] >> columns;
          op sum_axis(columns) >> left;
          cache.read A[0..D, 0..H+step] >> some;
          op sum_axis(some) >> part;
          cache.read B[step, 2 * step] >> other;
          op add(other, x) >> other;
          cache.write other >> B;
          cache.read B[] >> every;
          op sum_axis(every) >> total;
          return row, column, upper, left, part, total;
        }
        """,
        limits={"A.i": STEPS, "A.j": STEPS},
        tolerance=LONG_SUMS,
    ),
    "a table of matrices that grow": Design(
        """
        dynamic { x: f32; }
        volatile { y: f32; }
        persistent { step: i32; C(l, i, j): f32[D, H] @table @auto_dim(i, j); }
        block entry {
          cache.increment step;
          loop layers (l in 0..4) {
            cache.read C[l, step, step] >> one;
            op add(one, x) >> one;
            cache.write one >> C[l, step, step];
          }
          cache.read C[0..4, step, step] >> four;
          op sum_axis(four) >> y;
          return y;
        }
        """,
        limits={"i": 30, "j": 30},
        steps=30,
        tolerance=LONG_SUMS,
    ),
    "every operation on a cache": Design(
        """
        dynamic { v: f32[H, Dh]; once: bool; }
        volatile { k: f32[H, Dh]; at: i32; size: f32; }
        persistent {
          step: i32 @init(3);
          other: i32;
          K(l, t): f32[H, Dh] @table @init(0.5);
          V(l, t): f32[H, Dh] @table;
        }
        block entry {
          loop layers (l in 0..L) { cache.write v >> K[l, step]; cache.write v >> V[l, step]; }
          cache.read K[1, step] >> k;
          cache.increment step;
          cache.increment 5 other;
          cache.decrement other;
          cache.decrement 2 other;
          cache.reset K[0, step - 2];
          cache.reset K[2];
          branch once clear keep;
          cache.read K[0..L, 0..step] >> all;
          op sum_axis(all) >> size;
          cache.read other >> at;
          return k, at, size;
        }
        block clear { cache.reset V; cache.reset K; cache.reset other; return; }
        block keep { cache.read V[] >> every; op sum_axis(every, axes=[0, 1]) >> total; op add(k, total) >> k; return; }
        """,
        limits={"t": STEPS + 4},
    ),
    "barriers, dependencies, scopes and hints": Design(
        """
        dynamic { x: f32[B, D]; }
        constant { W(l): f32[D, D] @pattern("W.{l}"); }
        volatile { h: f32[B, D]; seen: f32[B, D]; }
        persistent { step: i32; K(l, t): f32[B, D] @table; }
        block entry {
          scope "first layer" with { fuse = false } {
            op matmul(x, W[0]) >> h with { group = "one" };
            dep after(matmul) before(cache.write);
            cache.write h >> K[0, step];
          }
          barrier;
          op relu(h, negative_slope=0.0) >> h with { no_reorder = true };
          cache.read K[0, step] >> seen;
          cache.increment step;
          return h, seen;
        }
        """,
        LAYERS,
        {"t": STEPS},
    ),
    "what the step before left": Design(
        """
        dynamic { h: f32[B, D]; }
        volatile { y: f32[B, D]; }
        persistent { step: i32 @init(1); c(t): f32[B, D] @table; plain: f32[H, H]; }
        block entry {
          cache.write h >> c[step];
          cache.read c[step-1] >> y;
          cache.increment step;
          return y;
        }
        """,
        limits={"t": STEPS + 1},
    ),
    "a decoder of ten layers with caches": Design(
        """
        dynamic { x: f32[B, D]; }
        volatile { z: f32[B, D]; W(l): f32[D, D] pattern("W.{l}"); }
        persistent { step: i32 @init(0); K(l, t): f16[H, Dh] @table; V(l, t): f16[H, Dh] @table; }
        block entry {
          assign h: f32[B, D];
          assign k: f16[H, Dh];
          assign v: f16[H, Dh];
          transfer x >> h;
          loop layers (l in 0..10) {
            cache.read K[l, step] >> k;
            cache.read V[l, step] >> v;
            op attn(h, k, v, W[l]) >> h;
            cache.write k >> K[l, step];
            cache.write v >> V[l, step];
          }
          cache.increment step;
          op add(h, x) >> z;
          return z;
        }
        """,
        LAYERS,
        {"t": STEPS},
    ),
    "branches as calls": Design(
        """
        dynamic { x: f32[B, D]; }
        constant { W(l): f32[D, D] @pattern("W.{l}"); }
        volatile { y: f32[B, D]; }
        persistent { bad_ones: i32; }
        block entry {
          assign h: f32[B, D];
          assign cond: bool[];
          op log(x) >> h;
          op matmul(h, W[0]) >> h;
          op is_finite(h) >> cond;
          branch cond ok bad;
          branch algorithm;
          return y;
        }
        block ok { op relu(h, negative_slope=0.0) >> h; return; }
        block bad { cache.increment bad_ones; op fill_nan_like(h, value=0.0) >> h; return; }
        block algorithm { cache.read bad_ones >> count; op cast(count, to=f32) >> by; op add(h, by) >> y; return; }
        """,
        LAYERS,
    ),
    "consumers of what was yielded": Design(
        """
        dynamic { x: i32[D]; f: f32[B, D]; }
        constant { W(l): f32[D, D] @pattern("W.{l}"); }
        volatile { h: f32[B, D]; low: i32; high: i32; out: i32[D]; }
        persistent { calls: i32; }
        block entry {
          op matmul(f, W[0]) >> h;
          yield x;
          op relu(h, negative_slope=0.0, clamp_max=6.0) >> h;
          await x;
          op add(x, low) >> out;
          return h, low, high, out;
        }
        block consumer_1 { await x; op mul(x, x) >> x; cache.increment calls; yield x; }
        block consumer_2 { await x; op min_axis(x) >> low; yield x; }
        block consumer_3 { await x; op max_axis(x) >> high; yield x; }
        """,
        LAYERS,
    ),
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_is_the_same_program_in_c(name, compiler, tmp_path):
    design = DESIGNS[name]
    generator = np.random.default_rng(3)
    data = {key: generator.uniform(-0.5, 0.9, shape).astype(np.float32) for key, shape in design.data.items()}
    model = Model.from_arrays(data, sizevars=SIZES)

    program, limits = graph(design.text), design.limits
    assert_same_in_c(model, program, compiler, tmp_path, steps=design.steps, limits=limits, tolerance=design.tolerance)
