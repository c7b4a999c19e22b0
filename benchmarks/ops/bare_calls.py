"""Operators on device cpu compared with the bare NumPy call that does the same, one thread each.

Elementwise operators over 16 M elements of f32 (aim: at most 1.05 times NumPy with ``out=``), and matrix products of
512 and above (aim: 1.03 times `numpy.matmul`). Both sides write an array that exists before the run; ours runs each
operator several times in a step, so that the rest of the step (giving ``y`` its initial value) hardly counts.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/ops/bare_calls.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import openinfer as oi
from openinfer.simulate import Simulator

Array = np.ndarray
Call = Callable[[], object]
ELEMENTS = 1 << 24
ELEMENTWISE_AIM, PRODUCT_AIM = 1.05, 1.03
REPEATS = 9
TURNS, PRODUCT_TURNS = 64, 4
"""How often a step runs an operator: 64 MB of initial values take two thirds of the time of one ``neg``."""
ELEMENTWISE = {
    "add": np.add,
    "mul": np.multiply,
    "neg": np.negative,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "tanh": np.tanh,
}
SIZES = (512, 1024, 2048)


def drawn(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def step(statement: str, given: dict[str, Array], shape: tuple[int, ...], turns: int) -> Call:
    """Return a step that runs one operator ``turns`` times."""
    constants = " ".join(f"{name}: f32[{', '.join(map(str, a.shape))}];" for name, a in given.items())
    result = f"volatile {{ y: f32[{', '.join(map(str, shape))}]; }}"
    body = f"loop turns (i in 0..{turns}) {{ {statement} }} return;"
    program = oi.graph(f"constant {{ {constants} }} {result} block entry {{ {body} }}")
    return Simulator(oi.Model.from_arrays(given), program).make_executor().step


def repeated(bare: Call, turns: int) -> None:
    for _ in range(turns):
        bare()


def compared(title: str, ours: Call, bare: Call, turns: int, aim: float) -> None:
    """Print the median times of one operator, of this thread, both sides run in turns."""
    sides = (ours, partial(repeated, bare, turns))
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * REPEATS):
        start = time.thread_time()
        sides[number % 2]()
        times[number % 2].append(time.thread_time() - start)
    mine, theirs = (statistics.median(each[1:]) / turns * 1e3 for each in times)
    print(f"{title:22} {mine:8.2f} ms, NumPy {theirs:8.2f} ms, ratio {mine / theirs:.2f} (aim {aim})")


def main() -> None:
    given = {"a": drawn(ELEMENTS, seed=1), "b": drawn(ELEMENTS, seed=2)}
    y = np.empty(ELEMENTS, np.float32)
    for name, function in ELEMENTWISE.items():
        names = ["a", "b"][: function.nin]
        ours = step(f"op {name}({', '.join(names)}) >> y;", given, (ELEMENTS,), TURNS)
        bare = partial(function, *(given[n] for n in names), out=y)
        compared(f"{name}, 16 M elements", ours, bare, TURNS, ELEMENTWISE_AIM)
    for size in SIZES:
        square = {"a": drawn(size, size, seed=1), "b": drawn(size, size, seed=2)}
        out = np.empty((size, size), np.float32)
        ours = step("op matmul(a, b) >> y;", square, (size, size), PRODUCT_TURNS)
        bare = partial(np.matmul, square["a"], square["b"], out=out)
        compared(f"matmul {size} x {size}", ours, bare, PRODUCT_TURNS, PRODUCT_AIM)


if __name__ == "__main__":
    main()
