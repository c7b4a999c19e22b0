"""Convolutions on the device cpu compared with ONNX Runtime, one thread each; ratios above 1 are slower than it.

Printed too: the time of the matrix product alone that a convolution comes down to, by NumPy's library, the least that
can be had with it.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/ops/convolution.py (packages onnx and onnxruntime)
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Simulator

ROUNDS = 40
SIDE, CHANNELS = 56, 64
CASES = {
    "conv2d 3x3, 64 to 64 channels, 56x56": (1, 2.2),
    "depthwise 3x3, 64 channels, 56x56": (CHANNELS, 4.5),
}


def ours(x: np.ndarray, w: np.ndarray, groups: int) -> Callable[[], object]:
    declared = f"constant {{ x: f32{list(x.shape)}; w: f32{list(w.shape)}; }} volatile {{ y: f32{list(x.shape)}; }}"
    text = f"{declared} block entry {{ op conv2d(x, w, padding=1, groups={groups}) >> y; return; }}"
    return Simulator(oi.Model.from_arrays({"x": x, "w": w}), graph(text)).make_executor().step


def theirs(x: np.ndarray, w: np.ndarray, groups: int) -> Callable[[], object]:
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], group=groups)
    info = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, x.shape) for n in "xy"]
    weights = [onnx.numpy_helper.from_array(w, "w")]
    made = onnx.helper.make_graph([node], "conv", info[:1], info[1:], weights)
    model = onnx.helper.make_model(made, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 20)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def product_alone(w: np.ndarray, groups: int) -> Callable[[], object]:
    """Return the product of weights and taps that are gathered already."""
    rng = np.random.default_rng(1)
    weights = w.reshape(groups, w.shape[0] // groups, -1)
    taps = rng.standard_normal((groups, weights.shape[2], SIDE * SIDE), dtype=np.float32)
    out = np.empty((groups, weights.shape[1], SIDE * SIDE), np.float32)
    return lambda: np.matmul(weights, taps, out=out)


def interleaved(calls: list[Callable[[], object]]) -> list[float]:
    """Return the median time of each call in milliseconds, of this thread alone; rounds of all calls alternate."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(ROUNDS + 3):
        for call, own in zip(calls, times, strict=True):
            start = time.thread_time()
            call()
            if turn >= 3:
                own.append((time.thread_time() - start) * 1e3)
    return [statistics.median(own) for own in times]


def main() -> None:
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        raise SystemExit("set OPENBLAS_NUM_THREADS=1: the ratios are for one thread")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, CHANNELS, SIDE, SIDE)).astype(np.float32)
    for title, (groups, aim) in CASES.items():
        w = rng.standard_normal((CHANNELS, CHANNELS // groups, 3, 3)).astype(np.float32)
        cpu, runtime, alone = interleaved([ours(x, w, groups), theirs(x, w, groups), product_alone(w, groups)])
        print(
            f"{title:37} cpu {cpu:6.3f} ms, onnxruntime {runtime:6.3f} ms, ratio {cpu / runtime:.2f} (aim {aim}),",
            end="",
        )
        print(f" product alone {alone:6.3f} ms, ratio {alone / runtime:.2f}")


if __name__ == "__main__":
    main()
