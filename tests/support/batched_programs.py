"""Programs that tests of batches run over many inputs."""

from __future__ import annotations

import numpy as np

import openinfer as oi

PROGRAM = """
dynamic { x: f32[B]; s: f32 @init(2.0); }
volatile { a: f32[B]; y: f32[B]; total: f32[B]; }
persistent { n: i32; sum: f32[B]; }
block entry {
  cache.increment n;
  op add(x, a) >> y;
  op mul(y, s) >> y;
  cache.read sum >> total;
  op add(total, x) >> total;
  cache.write total >> sum;
  return y, n, total;
}
"""
A = np.array([1, 10], np.float32)
MODEL = oi.Model.from_arrays({"a": A}, sizevars={"B": 2})
GRAPH = oi.graph(PROGRAM)
INPUTS = [np.array([i, -i], np.float32) for i in range(7)]

ENDLESS = """
dynamic { x: f64; turns: i64; }
volatile { y: f64; }
block entry {
  loop long (i in 0..turns) { op add(y, x) >> y; }
  return y;
}
"""
