"""A chain of three elementwise operators over 16 M f32 elements on device c: one pass over memory, or three.

Fused, every element is read once and written once. Unfused in place, each operator reads and writes the result; with a
buffer for each value, each operator writes memory that nothing else uses. The aims: fused, 1.3 and 1.8 times as fast.

Run: python benchmarks/ops/fused_chain.py
"""

from __future__ import annotations

import statistics
import time

import numpy as np

import openinfer as oi
from openinfer.simulate import Executor, Simulator

COUNT, REPEATS = 1 << 24, 15

DECLARED = (
    f"volatile {{ x: f32[{COUNT}]; one: f32[1]; half: f32[1]; t: f32[{COUNT}]; u: f32[{COUNT}]; y: f32[{COUNT}]; }}"
)

PROGRAMS = {
    "fused": "op relu(x) >> t; op add(t, one) >> u; op mul(u, half) >> y; return y;",
    "unfused in place": (
        "op relu(x) >> y with { fuse = false }; op add(y, one) >> y with { fuse = false };"
        " op mul(y, half) >> y with { fuse = false }; return y;"
    ),
    "a buffer for each value": "op relu(x) >> t; op add(t, one) >> u; op mul(u, half) >> y; return t, u, y;",
}

AIMS = {"unfused in place": 1.3, "a buffer for each value": 1.8}


def executor(statements: str, x: np.ndarray) -> Executor:
    arrays = {"x": x, "one": np.ones(1, np.float32), "half": np.full(1, 0.5, np.float32)}
    program = oi.graph(f"{DECLARED} block entry {{ {statements} }}")
    return Simulator(oi.Model.from_arrays(arrays), program, device="c").make_executor()


def main() -> None:
    x = np.random.default_rng(0).standard_normal(COUNT, dtype=np.float32)
    expected = (np.maximum(x, 0) + np.float32(1)) * np.float32(0.5)
    executors = {name: executor(statements, x) for name, statements in PROGRAMS.items()}
    for each in executors.values():
        each.step()
        np.testing.assert_array_equal(each.outputs()["y"], expected)
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(REPEATS):
        for name, each in executors.items():
            start = time.perf_counter()
            each.step()
            times[name].append(time.perf_counter() - start)
    fused = statistics.median(times["fused"])
    for name, found in times.items():
        middle = statistics.median(found)
        aim = f" (aim {AIMS[name]})" if name in AIMS else ""
        print(f"{name:24} {middle * 1e3:7.2f} ms  {middle / fused:5.2f}{aim}")


if __name__ == "__main__":
    main()
