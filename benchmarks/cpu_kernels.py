"""Time of the device cpu against the same arithmetic in plain NumPy (and PyTorch where it can be imported).

Ratios are taken within one run; below 1 the device is faster. Set ``OPENBLAS_NUM_THREADS=1`` for steady figures.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import openinfer as oi
from openinfer.simulate import Executor, Simulator

REPEATS = 7


def best(call: Callable[[], object], seconds: float = 0.05) -> float:
    """Return the least time of a call, in seconds."""
    call()
    start = time.perf_counter()
    call()
    count = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def executor(text: str, arrays: dict[str, np.ndarray]) -> Executor:
    return Simulator(oi.Model.from_arrays(arrays), oi.graph(text)).make_executor()


def declared(arrays: dict[str, np.ndarray]) -> str:
    return "".join(f"{name}: f32[{', '.join(map(str, a.shape))}]; " for name, a in arrays.items())


def operator_time(statement: str, arrays: dict[str, np.ndarray], out: tuple[int, ...], turns: int) -> float:
    """Return the time of one operator, run ``turns`` times in a loop so that the step's own cost does not count."""
    shape = ", ".join(map(str, out))
    ex = executor(
        f"volatile {{ {declared(arrays)} y: f32[{shape}]; }}"
        f" block entry {{ loop turns (i in 0..{turns}) {{ {statement} }} return; }}",
        arrays,
    )
    return best(ex.step) / turns


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def numpy_conv2d(x: np.ndarray, w: np.ndarray, y: np.ndarray, padding: int) -> Callable[[], object]:
    """Return a convolution written with NumPy's sliding windows and einsum's matrix product."""
    kh, kw = w.shape[2:]
    flat = w.reshape(w.shape[0], -1)

    def run() -> None:
        padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        seen = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), axis=(2, 3))
        columns = seen.transpose(0, 1, 4, 5, 2, 3).reshape(x.shape[0], flat.shape[1], -1)
        np.matmul(flat, columns, out=y.reshape(y.shape[0], y.shape[1], -1))

    return run


def torch_conv2d(x: np.ndarray, w: np.ndarray, padding: int) -> Callable[[], object] | None:
    if importlib.util.find_spec("torch") is None:
        return None
    torch: Any = importlib.import_module("torch")
    left, right = torch.from_numpy(x), torch.from_numpy(w)
    return lambda: torch.nn.functional.conv2d(left, right, padding=padding)


def told(name: str, own: float, other: float, against: str = "NumPy") -> None:
    print(f"{name:<34} {own * 1e6:>10.1f} us   {own / other:>6.2f} x {against}")


def matmuls() -> None:
    for size in (64, 256, 1024):
        a, b = floats(size, size), floats(size, size)
        y = np.empty((size, size), np.float32)
        own = operator_time("op matmul(a, b) >> y;", {"a": a, "b": b}, (size, size), 10)
        told(f"matmul {size}x{size}", own, best(lambda a=a, b=b, y=y: np.matmul(a, b, out=y)))


def convolutions() -> None:
    for channels, side, kernel in ((24, 8, 3), (32, 56, 3), (64, 28, 1), (3, 224, 7)):
        x, w = floats(1, channels, side, side), floats(32, channels, kernel, kernel)
        y = np.empty((1, 32, side, side), np.float32)
        padding = kernel // 2
        own = operator_time(f"op conv2d(x, w, padding={padding}) >> y;", {"x": x, "w": w}, y.shape, 5)
        name = f"conv2d {channels}->32 {side}x{side} k{kernel}"
        told(name, own, best(numpy_conv2d(x, w, y, padding)))
        other = torch_conv2d(x, w, padding)
        if other is not None:
            told(name, own, best(other), "PyTorch")


def elementwise() -> None:
    for count in (100, 100_000):
        x = floats(count)
        y = np.empty_like(x)
        own = operator_time("op relu(x) >> y;", {"x": x}, x.shape, 100)
        told(f"relu {count}", own, best(lambda x=x, y=y: np.maximum(x, 0, out=y)), "np.maximum")
        own = operator_time("op add(x, x) >> y;", {"x": x}, x.shape, 100)
        told(f"add {count}", own, best(lambda x=x, y=y: np.add(x, x, out=y)))


def overhead() -> None:
    """Print what a node costs beside its kernel: tiny adds in a loop, plain, from a prefix table, and observed."""
    turns = 100_000
    a, b = np.zeros(4, np.float32), np.ones(4, np.float32)
    table = {f"w{n}": b for n in range(100)}

    def plain() -> None:
        add = np.add
        for _ in range(turns):
            add(a, b, out=a)

    base = best(plain, 0.0) / turns
    fixed = executor(
        f"volatile {{ a: f32[4]; b: f32[4]; }}"
        f" block entry {{ loop l (i in 0..{turns}) {{ op add(a, b) >> a; }} return; }}",
        {"b": b},
    )
    late = executor(
        'volatile { a: f32[4]; W(i): f32[4] @pattern("w{i}"); } block entry {'
        f" loop o (j in 0..{turns // 100}) {{ loop l (i in 0..100) {{ op add(a, W[i]) >> a; }} }} return; }}",
        table,
    )
    print(f"np.add in a Python loop            {base * 1e6:>10.3f} us")
    told("a node, tiny add", best(fixed.step, 0.0) / turns, base, "np.add in a loop")
    told("a node, operand W[i]", best(late.step, 0.0) / turns, base, "np.add in a loop")
    observed = best(lambda: [None for _ in fixed.iterate()], 0.0) / turns
    print(f"a node seen through iterate()      {observed * 1e6:>10.3f} us")
    empty = executor("block entry { return; }", {})
    print(f"a step of an empty program         {best(empty.step) * 1e6:>10.3f} us")


if __name__ == "__main__":
    overhead()
    elementwise()
    matmuls()
    convolutions()
