"""How long an executor of 10,000 nodes takes to make. The aim is 2 s of processor time.

Run: python benchmarks/runtime/make_executor.py
"""

from __future__ import annotations

import time

import openinfer as oi
from openinfer.simulate import Simulator

NODES, REPEATS, AIM = 10_000, 3, 2.0
OPERATORS = (
    "op add(y, x) >> y;",
    "op mul(y, x) >> y;",
    "op softmax(y) >> y;",
    "op linear(y, w) >> y;",
    "op gelu(y) >> y;",
)


def main() -> None:
    statements = " ".join(OPERATORS[number % len(OPERATORS)] for number in range(NODES))
    variables = "dynamic { x: f32[1, 4]; } volatile { y: f32[1, 4]; w: f32[4, 4]; }"
    program = oi.graph(f"{variables} block entry {{ {statements} return; }}")
    started = time.thread_time()
    simulator = Simulator(oi.Model.from_arrays({}), program)
    print(f"validated in          {time.thread_time() - started:6.2f} s")
    times: list[float] = []
    for _ in range(REPEATS):
        started = time.thread_time()
        simulator.make_executor()
        times.append(time.thread_time() - started)
    print(f"make_executor, {NODES} nodes {min(times):6.2f} s (aim {AIM})")


if __name__ == "__main__":
    main()
