"""Softmax, normalised rows and gelu over f32 [1024, 1024], compared with plain NumPy and ONNX Runtime, one thread each.

By hand means: written with care, every array there before the run. Ratios below 1 mean that we are faster; the aim is
1.1 times NumPy. ONNX Runtime is left out where it is not installed.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/ops/normalisation.py
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import openinfer as oi
from openinfer.simulate import Simulator

Array = np.ndarray
Call = Callable[[], object]
SIZE, TURNS, REPEATS, AIM = 1024, 4, 31, 1.1
STATEMENTS = {
    "softmax": "op softmax(x) >> y;",
    "layer_norm": "op layer_norm(x, g, b) >> y;",
    "rms_norm": "op rms_norm(x, g) >> y;",
    "gelu": "op gelu(x) >> y;",
    "gelu tanh": 'op gelu(x, approximate="tanh") >> y;',
}


def arrays() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    shapes = {"x": (SIZE, SIZE), "g": (SIZE,), "b": (SIZE,)}
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def ours(statement: str, given: Mapping[str, Array]) -> tuple[Call, Callable[[], Array]]:
    """Return a step that runs one operator `TURNS` times, so that its own cost does not count, and how to fetch y."""
    row, whole = f"f32[{SIZE}]", f"f32[{SIZE}, {SIZE}]"
    text = f"constant {{ x: {whole}; g: {row}; b: {row}; }} volatile {{ y: {whole}; }}"
    program = oi.graph(f"{text} block entry {{ loop turns (i in 0..{TURNS}) {{ {statement} }} return; }}")
    executor = Simulator(oi.Model.from_arrays(dict(given)), program).make_executor()
    return executor.step, lambda: np.asarray(executor.fetch("y"))


class ByHand:
    """The same in NumPy, with its scratch arrays."""

    def __init__(self, given: Mapping[str, Array]) -> None:
        self.x, self.g, self.b = (given[name] for name in "xgb")
        self.y, self.t, self.u = (np.empty_like(self.x) for _ in range(3))
        self.part = np.empty((SIZE, 1), np.float32)

    def softmax(self) -> None:
        np.max(self.x, axis=-1, keepdims=True, out=self.part)
        np.subtract(self.x, self.part, out=self.y)
        np.exp(self.y, out=self.y)
        np.sum(self.y, axis=-1, keepdims=True, out=self.part)
        np.divide(self.y, self.part, out=self.y)

    def _size_one(self, rows: Array) -> None:
        np.einsum("ij,ij->i", rows, rows, out=self.part[:, 0])
        self.part /= SIZE
        self.part += 1e-5
        np.sqrt(self.part, out=self.part)
        np.divide(rows, self.part, out=self.y)
        np.multiply(self.y, self.g, out=self.y)

    def layer_norm(self) -> None:
        np.mean(self.x, axis=-1, keepdims=True, out=self.part)
        np.subtract(self.x, self.part, out=self.y)
        self._size_one(self.y)
        np.add(self.y, self.b, out=self.y)

    def rms_norm(self) -> None:
        self._size_one(self.x)

    def gelu_tanh(self) -> None:
        x, t = self.x, self.t
        slope = math.sqrt(2 / math.pi)
        np.multiply(x, x, out=t)
        np.multiply(t, np.float32(0.044715 * slope), out=t)
        np.add(t, np.float32(slope), out=t)
        np.multiply(t, x, out=t)
        np.tanh(t, out=t)
        np.add(t, np.float32(1), out=t)
        np.multiply(t, x, out=t)
        np.multiply(t, np.float32(0.5), out=self.y)

    def gelu(self) -> None:
        """With the error function of Abramowitz and Stegun, 7.1.26: NumPy has none. Its error is 1.5e-7."""
        a, t, u = self.y, self.t, self.u
        np.multiply(self.x, np.float32(math.sqrt(0.5)), out=a)
        np.abs(a, out=a)
        np.multiply(a, np.float32(0.3275911), out=t)
        np.add(t, np.float32(1), out=t)
        np.reciprocal(t, out=t)
        np.multiply(t, np.float32(1.061405429), out=u)
        for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            np.add(u, np.float32(factor), out=u)
            np.multiply(u, t, out=u)
        np.multiply(a, a, out=a)
        np.negative(a, out=a)
        np.exp(a, out=a)
        np.multiply(u, a, out=u)
        np.subtract(np.float32(1), u, out=u)
        np.copysign(u, self.x, out=u)
        np.add(u, np.float32(1), out=u)
        np.multiply(u, self.x, out=u)
        np.multiply(u, np.float32(0.5), out=self.y)


def onnx_runtime(name: str, given: Mapping[str, Array]) -> Call | None:
    """Return ONNX Runtime's own operator on one thread, or None where it or its operator is not there."""
    if importlib.util.find_spec("onnxruntime") is None or importlib.util.find_spec("onnx") is None:
        return None
    onnx: Any = importlib.import_module("onnx")
    runtime: Any = importlib.import_module("onnxruntime")
    nodes: dict[str, tuple[str, list[str], dict[str, Any]]] = {
        "softmax": ("Softmax", ["x"], {}),
        "layer_norm": ("LayerNormalization", ["x", "g", "b"], {}),
        "rms_norm": ("RMSNormalization", ["x", "g"], {}),
        "gelu": ("Gelu", ["x"], {}),
        "gelu tanh": ("Gelu", ["x"], {"approximate": "tanh"}),
    }
    op, inputs, attributes = nodes[name]
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    ports = [make.make_tensor_value_info(n, kind, given[n].shape) for n in inputs]
    y = make.make_tensor_value_info("y", kind, [SIZE, SIZE])
    graph = make.make_graph([make.make_node(op, inputs, ["y"], **attributes)], "one", ports, [y])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 23)], ir_version=10)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except runtime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    feed = {n: given[n] for n in inputs}
    return lambda: session.run(None, feed)


def medians(runs: Mapping[str, Call]) -> dict[str, float]:
    """Return median seconds of processor time of a turn, taken alternately and each first as often as the others."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for turn in range(REPEATS):
        order = list(runs)
        for name in (*order[turn % len(order) :], *order[: turn % len(order)]):
            start = time.thread_time()
            runs[name]()
            times[name].append((time.thread_time() - start) / TURNS)
    return {name: float(np.median(each)) for name, each in times.items()}


def repeated(run: Call) -> Call:
    def turns() -> None:
        for _ in range(TURNS):
            run()

    return turns


def main() -> None:
    given = arrays()
    hand = ByHand(given)
    for name, statement in STATEMENTS.items():
        own, fetch = ours(statement, given)
        by_hand = getattr(hand, name.replace(" ", "_"))
        runs: dict[str, Call] = {"ours": own, "NumPy": repeated(by_hand)}
        other = onnx_runtime(name, given)
        if other is not None:
            runs["ONNX Runtime"] = repeated(other)
        found = medians(runs)
        by_hand()
        np.testing.assert_allclose(fetch(), hand.y, rtol=1e-4, atol=1e-5)
        ratios = ", ".join(f"{found['ours'] / found[n]:.2f} x {n}" for n in runs if n != "ours")
        print(f"{name:<12} {found['ours'] * 1e3:7.3f} ms: {ratios} (aim {AIM} x NumPy)")


if __name__ == "__main__":
    main()
