"""What a step costs on device vulkan in addition to its kernels: submissions, time of the host's thread, wall clock.

    python benchmarks/gpu/steps.py
    python benchmarks/gpu/steps.py --against ../other-checkout

A decoder with caches in tables, one token a step, and 200 dependent tiny operators. Every round takes each side in
turn, so that all meet the same machine; times are the least of the rounds, ratios are of those.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import openinfer as oi

ROUNDS, STEPS = 9, 20
PACKAGES = ("oinf", "core", "backend-cpu", "backend-vulkan", "synth-c")
LAYERS, WIDTH, HEADS, ROOM = 4, 64, 4, 1 << 14

DECODER = f"""
dynamic {{ x: f32[1, {WIDTH}]; }}
constant {{
  WQ(l): f32[{WIDTH}, {WIDTH}] @pattern("query.{{l}}");
  WK(l): f32[{WIDTH}, {WIDTH}] @pattern("key.{{l}}");
  WV(l): f32[{WIDTH}, {WIDTH}] @pattern("value.{{l}}");
}}
volatile {{ z: f32[1, {WIDTH}]; }}
persistent {{
  step: i32 @init(0);
  K(l, t): f16[{HEADS}, {WIDTH // HEADS}] @table @fixed(l={LAYERS}, t={ROOM});
  V(l, t): f16[{HEADS}, {WIDTH // HEADS}] @table @fixed(l={LAYERS}, t={ROOM});
}}
block entry {{
  assign h: f32[1, {WIDTH}]; assign row: f32[1, {WIDTH}];
  assign token: f32[{HEADS}, {WIDTH // HEADS}]; assign half: f16[{HEADS}, {WIDTH // HEADS}];
  assign keys: f16[1, {HEADS}, {WIDTH // HEADS}]; assign values: f16[1, {HEADS}, {WIDTH // HEADS}];
  transfer x >> h;
  loop layers (l in 0..{LAYERS}) {{
    op matmul(h, WK[l]) >> row; op reshape(row) >> token; op cast(token, to=f16) >> half;
    cache.write half >> K[l, step];
    op matmul(h, WV[l]) >> row; op reshape(row) >> token; op cast(token, to=f16) >> half;
    cache.write half >> V[l, step];
    cache.read K[l, 0..step+1] >> keys; cache.read V[l, 0..step+1] >> values;
    op attn(h, keys, values, WQ[l]) >> h;
  }}
  cache.increment step;
  transfer h >> z;
  return z;
}}
"""
TINY = " ".join(["op add(y, x) >> y; op mul(y, x) >> y;"] * 100)
TINY = f"dynamic {{ x: f32[64]; }} volatile {{ y: f32[64]; }} block entry {{ {TINY} return y; }}"


def steps_of(name: str, device: str) -> Callable[[], object]:
    """Return a step of a case, with its input and the fetch of its result."""
    rng = np.random.default_rng(0)
    if name == "decoder":
        shape = (WIDTH, WIDTH)
        model = {f"{w}.{n}": rng.random(shape, np.float32) for w in ("query", "key", "value") for n in range(LAYERS)}
        text, x, result = DECODER, rng.random((1, WIDTH), np.float32), "z"
    else:
        model, text, x, result = {}, TINY, rng.random(64, np.float32), "y"
    executor = oi.Simulator(oi.Model.from_arrays(model), oi.graph(text), device=device).make_executor()

    def step() -> None:
        executor.step(x=x)
        executor.fetch(result)

    return step


def rounds_of(name: str, device: str) -> Callable[[], dict[str, float]]:
    """Return a function that measures a round: seconds and submissions of a step."""
    count = 0
    if device.startswith("vulkan"):
        from openinfer_backend_vulkan.api.fences import Fence

        submit = Fence.submit

        def counted(fence: Fence, commands: object) -> None:
            nonlocal count
            count += 1
            submit(fence, commands)

        Fence.submit = counted
    step = steps_of(name, device)
    for _ in range(5):
        step()

    def once() -> dict[str, float]:
        before, wall, thread = count, time.perf_counter(), time.thread_time()
        for _ in range(STEPS):
            step()
        wall, thread = time.perf_counter() - wall, time.thread_time() - thread
        return {"wall": wall / STEPS, "thread": thread / STEPS, "submissions": (count - before) / STEPS}

    return once


def serve(name: str, device: str) -> None:
    """Answer each line with a round."""
    once = rounds_of(name, device)
    for _ in sys.stdin:
        print(json.dumps(once()), flush=True)


def ask(name: str, device: str, checkout: Path) -> Callable[[], dict[str, float]]:
    """Return a function that measures a round in another process, on the packages of a checkout."""
    folders = os.pathsep.join(str(checkout.resolve() / f"openinfer-{each}" / "src") for each in PACKAGES)
    command = [sys.executable, __file__, "--serve", name, "--device", device]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folders, os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def once() -> dict[str, float]:
        if process.stdin is None or process.stdout is None:
            raise OSError("the other process has no pipes")
        process.stdin.write("\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--against", type=Path, help="another checkout to take turns with")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.device)
        return
    here = Path(__file__).parents[2]
    sides = {"this": here, "cpu": here} | ({"other": given.against} if given.against else {})
    for name in ("decoder", "200 tiny operators"):
        rounds = {side: ask(name, "cpu" if side == "cpu" else given.device, path) for side, path in sides.items()}
        taken = {side: [once()] for side, once in rounds.items()}
        for _ in range(given.rounds - 1):
            for side, once in rounds.items():
                taken[side].append(once())
        for side, found in taken.items():
            least = {what: min(each[what] for each in found) for what in ("wall", "thread", "submissions")}
            line = f"wall {least['wall'] * 1e6:9.0f} us   host thread {least['thread'] * 1e6:9.0f} us"
            print(f"{name:20} {side:6} {line}   submissions {least['submissions']:5.1f}")


if __name__ == "__main__":
    main()
