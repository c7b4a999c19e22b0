"""Elementwise operators on bf16, f16 and f8, in elements a second, compared with ml_dtypes, one thread.

Run: python benchmarks/ops/low_floats.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import DType, dtype_named
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, scalar_expression
from openinfer.plugins.environment import Environment
from openinfer_backend_cpu.backend import CpuBackend

COUNT, REPEATS = 1 << 22, 15
AIMS: Mapping[str, float] = {"bf16": 400e6, "f8": 500e6}
BY_HAND: Mapping[str, Callable[..., object]] = {"neg": np.negative, "add": np.add, "mul": np.multiply, "exp": np.exp}


def values(dtype: DType, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(COUNT, dtype=np.float32).astype(storage_dtype(dtype))


def bound(op: str, dtype: DType, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    """Return a call of an operator as the device cpu binds it."""
    schema, backend = Environment.default().op(op), CpuBackend()
    call = call_of(schema, [TensorType(dtype, (COUNT,))] * len(arrays), {})
    buffers = [backend.upload(TensorType(dtype, (COUNT,)), array) for array in arrays]
    return backend.bind_expression(scalar_expression(schema, call), buffers, backend.allocate(call.outputs[0]))


def by_hand(op: str, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    out = np.empty_like(arrays[0])
    return lambda: BY_HAND[op](*arrays, out=out)


def medians(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return median seconds of this thread alone, taken in turns so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            times[name].append(time.thread_time() - start)
    return {name: float(np.median(each)) for name, each in times.items()}


def main() -> None:
    for name in ("bf16", "f16", "f8"):
        dtype = dtype_named(name)
        for op, count in (("neg", 1), ("exp", 1), ("gelu", 1), ("add", 2), ("mul", 2), ("max", 2)):
            arrays = [values(dtype, seed) for seed in range(count)]
            runs = {"ours": bound(op, dtype, arrays)}
            if op in BY_HAND:
                runs["by hand"] = by_hand(op, arrays)
            found = medians(runs)
            rate = COUNT / found["ours"]
            ratio = f", ratio to ml_dtypes or NumPy {found['ours'] / found['by hand']:.2f}" if op in BY_HAND else ""
            aim = f" (aim {AIMS[name] / 1e6:.0f})" if name in AIMS else ""
            print(f"{name:4} {op:4} {rate / 1e6:7.0f} M elements/s{aim}{ratio}")


if __name__ == "__main__":
    main()
