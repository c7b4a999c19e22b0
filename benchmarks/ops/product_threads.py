"""Matrix products on device cpu with one thread and with as many as there are processors, and NumPy with as many.

Ours are cut into pieces by their shapes, and give the same bytes for any number of threads; NumPy's library cuts them
by its number of threads. Times are those of the clock, so that nothing else should run on the machine.

Run: python benchmarks/ops/product_threads.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

SHAPES = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (64, 768, 3072), (512, 4096, 4096), (1, 768, 50257))
REPEATS = 15


def median(call: Callable[[], object]) -> float:
    """Return how long a call takes, in milliseconds."""
    call()
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def measure() -> None:
    """Print a line for each shape: ours and NumPy's time, and what our result is."""
    import hashlib

    import numpy as np

    import openinfer as oi
    from openinfer.simulate import Simulator

    for m, k, n in SHAPES:
        rng = np.random.default_rng(1)
        given = {"a": rng.random((m, k), np.float32), "b": rng.random((k, n), np.float32)}
        program = oi.graph(f"""
            constant {{ a: f32[{m}, {k}]; b: f32[{k}, {n}]; }} volatile {{ y: f32[{m}, {n}]; }}
            block entry {{ op matmul(a, b) >> y; return; }}
        """)
        executor = Simulator(oi.Model.from_arrays(given), program).make_executor()
        out = np.empty((m, n), np.float32)
        ours, bare = median(executor.step), median(partial(np.matmul, given["a"], given["b"], out=out))
        print(ours, bare, hashlib.sha256(np.asarray(executor.fetch("y")).tobytes()).hexdigest())


def measured(threads: int) -> list[list[str]]:
    """Return the lines that a process with a number of threads prints, as words."""
    done = subprocess.run(
        [sys.executable, __file__, "measure"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": str(threads)},
    )
    return [line.split() for line in done.stdout.splitlines()]


def main() -> None:
    processors = os.cpu_count() or 1
    for shape, one, many in zip(SHAPES, measured(1), measured(processors), strict=True):
        title = " x ".join(map(str, shape))
        alone, shared, library = float(one[0]), float(many[0]), float(many[1])
        same = "the same bytes" if one[2] == many[2] else "OTHER BYTES"
        print(
            f"{title:20} one thread {alone:8.2f} ms, {processors} threads {shared:8.2f} ms ({alone / shared:.2f} times"
            f" as fast), NumPy {library:8.2f} ms, ratio {shared / library:.2f}, {same}"
        )


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["measure"] else main()
