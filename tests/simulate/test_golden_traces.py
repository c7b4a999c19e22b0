"""Traces of whole programs as JSON, compared with files that a person has read.

``OPENINFER_UPDATE_GOLDEN=1`` rewrites the files. Identifiers of nodes are their order of first appearance.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.serialize import trace_to_json
from openinfer.simulate import Simulator

GOLDEN = Path(__file__).parents[1] / "golden_traces"

PROGRAMS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "branching": (
        """
        dynamic { x: f32[2]; c: bool; } volatile { y: f32[2]; } persistent { n: i32; }
        block entry { op relu(x, alpha=0.5) >> y; branch c good bad; branch ending; return y; }
        block good { cache.increment n; return; }
        block bad { loop l (i in 0..3) { cache.decrement 2 n; branch leave; } }
        block leave { return; }
        block ending { barrier; dep after(relu) before(branch); return; }
        """,
        [{"x": [1, -1], "c": True}, {"x": [1, -1], "c": False}],
    ),
    "tables": (
        """
        dynamic { x: f32[2]; step: i64; }
        volatile { y: f32[2]; all: f32[1, 2]; W(l, h): f32[2] @pattern("w.{l}.{h}"); A: f32[1, 1]; }
        persistent { K(l, t): f32[2] @table @fixed(l=2); M(r, c): f32[1, 1] @auto_dim(r, c); }
        block entry {
          loop layers (l in 0..2) {
            loop heads (h in l..2) { op add(x, W[l, h]) >> y; }
            transfer W[0, l] >> y;
            cache.write y >> K[l, step];
            cache.read K[l, 0..step+1] >> all;
          }
          cache.read M[step, 1] >> A; cache.reset K[1]; cache.reset M; return;
        }
        """,
        [{"x": [1, 2], "step": 0}, {"x": [3, 4], "step": 1}],
    ),
    "consumers": (
        """
        dynamic { x: f32[2]; } volatile { h: f32[2]; a: f32[2]; b: f32[2]; c: f32[2]; }
        block entry { transfer x >> h; yield h; op add(x, x) >> c; await h; op add(a, b) >> c; return c; }
        block right { await h; op mul(h, h) >> b; branch inner; yield h; }
        block left { await h; op neg(h) >> a; yield h; }
        block inner { barrier; return; }
        """,
        [{"x": [1, 2]}],
    ),
}


def normalised(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    numbers: dict[str, str] = {}
    for event in events:
        event["node_uuid"] = numbers.setdefault(event["node_uuid"], f"node {len(numbers)}")
    return events


@pytest.mark.rule("runtime.consumers.12", "runtime.traces.3", "runtime.traces.4", "runtime.traces.6")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_trace_is_as_recorded(name: str) -> None:
    text, steps = PROGRAMS[name]
    weights = {f"w.{i}.{j}": np.array([i, j], np.float32) for i in range(2) for j in range(2)}
    ex = Simulator(oi.Model.from_arrays(weights), graph(text), trace=True, echo=False).make_executor()
    for inputs in steps:
        ex.step(**inputs)
    found = normalised(trace_to_json(ex.trace()))
    path = GOLDEN / f"{name}.json"
    if os.environ.get("OPENINFER_UPDATE_GOLDEN") == "1":
        lines = ",\n".join(json.dumps(event) for event in found)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))


def test_every_recorded_trace_has_its_program() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(PROGRAMS)
