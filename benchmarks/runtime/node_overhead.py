"""What a node costs beyond its arithmetic: a loop of tiny additions and the same NumPy calls in a Python loop.

Times are processor time.

Run: python benchmarks/runtime/node_overhead.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Simulator

TURNS = 100_000
REPEATS = 7
TEXT = """
dynamic {{ x: f32[4]; }} volatile {{ y: f32[4]; W(l): f32[4] @pattern("w{{l}}"); }}
block entry {{ loop turns (i in 0..{turns}) {{ op add(y, {operand}) >> y; }} return; }}
"""


def best(run: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.thread_time()
        run()
        times.append(time.thread_time() - start)
    return min(times) / TURNS * 1e6


def plain() -> float:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)

    def loop() -> None:
        for _ in range(TURNS):
            np.add(y, x, out=y)

    return best(loop)


def simulated(operand: str, turns: int = TURNS, *, traced: bool = False) -> float:
    nested = f"loop outer (k in 0..{TURNS // turns}) {{ loop turns" if turns < TURNS else "loop turns"
    text = TEXT.format(turns=turns, operand=operand).replace("loop turns", nested, 1)
    if turns < TURNS:
        text = text.replace(">> y; }", ">> y; } }", 1)
    arrays = {f"w{i}": np.ones(4, np.float32) for i in range(1000)}
    executor = Simulator(
        oi.Model.from_arrays(arrays), graph(text), echo=False, trace=traced, timer=traced
    ).make_executor()
    x = np.ones(4, np.float32)

    def step() -> None:
        executor.clear_trace()
        executor.step(x=x)

    return best(step)


def main() -> None:
    base = plain()
    quiet = simulated("x")
    print(f"np.add in a Python loop      {base:6.3f} us a node")
    print(f"simulated                    {quiet:6.3f} us a node  ratio {quiet / base:.2f} (aim 1.3)")
    table = simulated("W[i]", turns=1000)
    print(f"simulated, operand W[l]      {table:6.3f} us a node  ratio {table / base:.2f} (aim 1.6)")
    traced = simulated("x", traced=True)
    print(f"traced with the timer        {traced:6.3f} us a node  {traced - quiet:+.2f} us (aim +1.0)")


if __name__ == "__main__":
    main()
