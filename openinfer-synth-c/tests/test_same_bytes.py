"""Equal programs and models give equal bytes: in every process, and on every interpreter that CI runs.

The digests are properties of the JUnit report, which the report of all environments compares.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi

CONVOLUTIONS = """
dynamic { image: f32[1, 2, 6, 6]; go: bool; }
volatile {
  w(l): f32[2, 2, 3, 3] @pattern("w.{l}");
  head: f32[72, 3];
  logits: f32[1, 3]; odds: f32[1, 3]; best: i64[1];
}
block entry {
  assign flat: f32[1, 72];
  loop layers (l in 0..2) { op conv2d(image, w[l], padding=1) >> image; op relu(image) >> image; }
  op reshape(image, shape=[1, -1]) >> flat;
  branch go classify refuse;
  return logits, odds, best;
}
block classify {
  op matmul(flat, head) >> logits;
  op softmax(logits) >> odds;
  op argmax_axis(logits, axis=1) >> best;
}
block refuse { op fill(best, value=-1) >> best; }
"""

# All but the last product is known when the plan is made.
CONSTANTS = """
dynamic { x: f32[2, 3]; }
volatile { head: f32[72, 3]; y: f32[2, 3]; }
block entry {
  op softmax(head) >> odds;
  op gelu(odds) >> bent;
  op sum_axis(bent, axes=[0]) >> total;
  op rsqrt(total) >> scale;
  op mul(x, scale) >> y;
  return y;
}
"""

CACHES = """
dynamic { x: f32[T, 8]; mask: bool[8]; }
volatile { y: f32[T, 8]; again: bool; }
persistent {
  n: i32; seen: bool;
  k(t): f32[8] @table @fixed(t=64);
  v(t): f32[8] @table @fixed(t=64);
  h(t): i8[4] @table;
}
block entry {
  cache.write x >> k[n..n + T];
  cache.read k[0..n + T] >> keys;
  op cast(keys, to=i8) >> small;
  op narrow(small, axis=1, start=0, length=4) >> narrow_;
  cache.write narrow_ >> h[0..n + T];
  op matmul(x, keys, trans_b=true) >> scores;
  op softmax(scores, axis=1) >> odds;
  op matmul(odds, keys) >> mixed;
  cache.write mixed >> v[n..n + T];
  op where(mask, mixed, x) >> y;
  cache.read seen >> again;
  op any_axis(mask, axes=[0]) >> some;
  cache.write some >> seen;
  cache.increment T n;
  return y, again;
}
"""

BOARD = {
    "version": 2,
    "device": {"type": "cpu", "api": "c"},
    "target": {"lanes": 8, "registers": 16, "fma": True, "dialect": "vector"},
    "memories": [
        {"name": "near", "bytes": 2560, "kind": "tcm"},
        {"name": "far", "bytes": 16384, "kind": "sram"},
    ],
}
LIMITS = {"T": 8, "h.t": 64}


def model():
    generator = np.random.default_rng(1)
    shapes = {"w.0": (2, 2, 3, 3), "w.1": (2, 2, 3, 3), "head": (72, 3)}
    return oi.Model.from_arrays(
        {name: generator.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}, sizevars={"T": 4}
    )


@cache
def digests():
    """Return the SHA-256 of all files of some bundles by their names."""
    made = {
        "convolutions": (oi.Synthesizer("c"), CONVOLUTIONS),
        "convolutions x86-64-v4": (oi.Synthesizer(arch="x86-64-v4"), CONVOLUTIONS),
        "constants": (oi.Synthesizer("c"), CONSTANTS),
        "caches": (oi.Synthesizer(arch=BOARD, limits=LIMITS), CACHES),
    }
    found = {}
    for name, (synthesizer, text) in made.items():
        files = synthesizer.synthesize(model(), text).bundle.files
        data = b"".join(b"%s %d\n%s" % (file.encode(), len(data), data) for file, data in files.items())
        found[name] = hashlib.sha256(data).hexdigest()
    return found


@pytest.mark.rule("api.bundles.1", "json.devices.4")
def test_bundles_are_those_of_other_interpreters(record_testsuite_property):
    """The first test of the file, which environments that run a sample run too: `.ci/report.py` compares them."""
    found = digests()

    assert len(set(found.values())) == len(found)
    for name, digest in found.items():
        record_testsuite_property(f"same in every environment: bundle of {name}", digest)


@pytest.mark.rule("api.bundles.1")
def test_bundles_depend_on_no_seed_of_hashes():
    program = "import json, runpy, sys; print(json.dumps(runpy.run_path(sys.argv[1])['digests']()))"
    command = [sys.executable, "-B", "-c", program, str(Path(__file__).resolve())]
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}

    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert json.loads(printed) == digests()
