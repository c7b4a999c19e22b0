"""Weights are touched when something uses them: of a model of 4 GiB, the tensor that a program reads is in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from openinfer.testing.waiting import limit_s
from openinfer_oinf import OinfWriter

ROWS, COLUMNS, LAYERS = 4096, 8192, 32
GIB = 1 << 30
STEP = """
import sys
from pathlib import Path
import numpy as np, resource
import openinfer as oi
from openinfer.simulate import Simulator

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

def run(path, access):
    model = oi.ModelLoader.open(path)
    text = '''dynamic { x: f32[1, 4096]; }
        constant { W(l): f32[4096, 8192] @pattern("W.{l}"); V(l): f32[8] @pattern("V.{l}"); }
        volatile { y: f32[1, 8192]; z: f32[8]; } block entry { ACCESS return; }'''
    executor = Simulator(model, oi.graph(text.replace("ACCESS", access))).make_executor()
    x = np.ones((1, 4096), np.float32)
    for _ in range(2):
        executor.step(x=x)
    return executor

small = run(sys.argv[1], "op add(V[3], V[3]) >> z;")
before = resident()
found = run(sys.argv[1], "op matmul(x, W[3]) >> y;" if sys.argv[2] == "large" else "op add(V[2], V[2]) >> z;")
print(resident() - before)
"""


def sparse_model(path: Path) -> None:
    """Write a container whose payloads are a hole of the file."""
    with OinfWriter(path) as writer:
        for layer in range(LAYERS):
            writer.declare(f"W.{layer}", "f32", (ROWS, COLUMNS))
            writer.declare(f"V.{layer}", "f32", (8,))
        plan = writer.plan()
        writer.discard()
    with path.open("wb") as file:
        file.write(plan.index)
        file.truncate(plan.file_size)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to tell resident memory")
@pytest.mark.parametrize(("used", "most"), [("small", 16 << 20), ("large", (ROWS * COLUMNS * 4) + (16 << 20))])
def test_one_tensor_of_a_model_of_4_gib(tmp_path: Path, used: str, most: int) -> None:
    path = tmp_path / "large.oinf"
    sparse_model(path)
    assert path.stat().st_size >= 4 * GIB
    command = [sys.executable, "-c", STEP, str(path), used]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s(60))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < most
