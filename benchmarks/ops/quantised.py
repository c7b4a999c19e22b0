"""Products with quantised weights compared with the f32 product of the same shape, one thread.

A row of 4096 by a 4096x4096 matrix, as in the generation of text: what counts is how fast the weights are read.
Transposed weights are those of `trans_w`: a row of them for each column, as most files of language models have them.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/ops/quantised.py
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import numpy as np

from openinfer.dtypes import F32, dtype_named
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import HandWritten, kernel_table, select
from openinfer_backend_cpu.backend import CpuBackend
from openinfer_synth_c.device import CDevice

SIZE, GROUP, REPEATS = 4096, 128, 21
AIMS: Mapping[str, float] = {"cpu i4": 2.6, "c i4": 0.6}
DEVICES: Mapping[str, Callable[[], CpuBackend | CDevice]] = {"cpu": CpuBackend, "c": CDevice}


def bound(
    device: str, dtype: str, x: np.ndarray, rng: np.random.Generator, *, transposed: bool = False
) -> Callable[[], object]:
    """Return a call of the kernel as a device binds it, without the insertion of its inputs."""
    kinds = [
        TensorType(F32, x.shape),
        TensorType(dtype_named(dtype), (SIZE, SIZE)),
        TensorType(F32, (SIZE, SIZE // GROUP) if transposed else (SIZE // GROUP, SIZE)),
    ]
    environment, backend = Environment.default(), DEVICES[device]()
    call = call_of(environment.op("qmatmul"), kinds, {"group_size": GROUP, "trans_w": transposed})
    found = select(environment, kernel_table(environment, environment.devices[device]), call)
    if not isinstance(found, HandWritten):
        raise TypeError(f"expected a kernel, found {found}")
    codes = rng.integers(0, 256, kinds[1].nbytes, dtype=np.uint8)
    if dtype == "t2":  # without the code that no ternary has
        codes &= ~(((codes >> 1) & ~codes & np.uint8(0x55)) << np.uint8(1))
    weights = codes if kinds[1].dtype.is_packed else codes.view(np.int8).reshape(SIZE, SIZE)
    scales = rng.random(kinds[2].shape, dtype=np.float32)
    buffers = [backend.upload(kind, array) for kind, array in zip(kinds, (x, weights, scales), strict=True)]
    run = backend.bind_kernel(found.kernel, call, buffers, [backend.allocate(call.outputs[0])])
    run()  # what is compiled is compiled now
    return run


def medians(runs: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return median milliseconds of this thread alone, taken in turns so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            times[name].append((time.thread_time() - start) * 1e3)
    return {name: float(np.median(each)) for name, each in times.items()}


def main() -> None:
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        raise SystemExit("set OPENBLAS_NUM_THREADS=1: the ratios are for one thread")
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((SIZE, SIZE), dtype=np.float32)
    for rows in (1, 64):
        x = rng.standard_normal((rows, SIZE), dtype=np.float32)
        out = np.empty((rows, SIZE), np.float32)
        runs: dict[str, Callable[[], object]] = {"f32": lambda x=x, out=out: np.matmul(x, dense, out=out)}
        runs |= {f"cpu {dtype}": bound("cpu", dtype, x, rng) for dtype in ("i8", "i4", "u4", "i2", "t2", "t1")}
        runs |= {f"c {dtype}": bound("c", dtype, x, rng) for dtype in ("i8", "i4", "t1") if rows == 1}
        runs |= {
            f"{device} i4 transposed": bound(device, "i4", x, rng, transposed=True) for device in DEVICES if rows == 1
        }
        found = medians(runs, REPEATS if rows == 1 else REPEATS // 3)
        for name, took in found.items():
            aim = f" (aim {AIMS[name]})" if rows == 1 and name in AIMS else ""
            print(
                f"[{rows}, {SIZE}] by {name:13} [{SIZE}, {SIZE}]  {took:7.2f} ms  ratio {took / found['f32']:.2f}{aim}"
            )


if __name__ == "__main__":
    main()
