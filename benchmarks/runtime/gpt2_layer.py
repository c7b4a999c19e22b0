"""Decoder layers of GPT-2's small size in a step, compared with plain NumPy and ONNX Runtime: one thread, f32, batch 1.

Width 768, 12 heads, the last of 256 tokens, the cache longer with each: layer_norm, queries with keys, values, writes
to the cache, attention over it, projection, residual, layer_norm, the feed-forward part with gelu, residual. By hand
means: written with care, every array there before the run, caches with room for all tokens. ONNX Runtime gets keys and
values of 256 tokens and writes no cache; it is left out where it is not installed.

The aims are for a layer of the twelve that the model has. A step of a single one also bears the whole cost of a step.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/runtime/gpt2_layer.py
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

import openinfer as oi
from openinfer.simulate import Simulator

Array = np.ndarray
WIDTH, HEADS, TOKENS, EPS = 768, 12, 256, 1e-5
DEPTH, INNER = WIDTH // HEADS, 4 * WIDTH
TURNS = 5
REPEATS = {12: 15, 1: 61}
"""How often a model of some layers is measured."""
AIMS = {"NumPy": 1.1, "ONNX Runtime": 1.25}
SHAPES = {
    "g1": (WIDTH,),
    "b1": (WIDTH,),
    "w_qkv": (WIDTH, 3 * WIDTH),
    "b_qkv": (3 * WIDTH,),
    "w_out": (WIDTH, WIDTH),
    "b_out": (WIDTH,),
    "g2": (WIDTH,),
    "b2": (WIDTH,),
    "w_up": (WIDTH, INNER),
    "b_up": (INNER,),
    "w_down": (INNER, WIDTH),
    "b_down": (WIDTH,),
}
ROW, TOKEN = f"f32[1, {WIDTH}]", f"f32[{HEADS}, {DEPTH}]"
WEIGHTS = " ".join(
    f'{name}(l): f32[{", ".join(map(str, shape))}] @pattern("{name}.{{l}}");' for name, shape in SHAPES.items()
)
PROGRAM = f"""
dynamic {{ x: {ROW}; at: i64; }}
constant {{ {WEIGHTS} }}
volatile {{
  h: {ROW}; qkv: f32[1, {3 * WIDTH}]; q: {ROW}; k: {ROW}; v: {ROW}; a: {ROW}; up: f32[1, {INNER}]; y: {ROW};
  k_heads: {TOKEN}; v_heads: {TOKEN}; keys: f32[1, {HEADS}, {DEPTH}]; values: f32[1, {HEADS}, {DEPTH}];
}}
persistent {{
  K(l, i): {TOKEN} @table @fixed(l=LAYERS, i={TOKENS});
  V(l, i): {TOKEN} @table @fixed(l=LAYERS, i={TOKENS});
}}
block entry {{
  transfer x >> y;
  loop layers (l in 0..LAYERS) {{
    op layer_norm(y, g1[l], b1[l], eps={EPS}) >> h;
    op linear(h, w_qkv[l], b_qkv[l]) >> qkv;
    op split(qkv, axis=1, sizes=[{WIDTH}, {WIDTH}, {WIDTH}]) >> q, k, v;
    op reshape(k, shape=[{HEADS}, {DEPTH}]) >> k_heads;
    op reshape(v, shape=[{HEADS}, {DEPTH}]) >> v_heads;
    cache.write k_heads >> K[l, at];
    cache.write v_heads >> V[l, at];
    cache.read K[l, 0..at+1] >> keys;
    cache.read V[l, 0..at+1] >> values;
    op attn(q, keys, values) >> a;
    op linear(a, w_out[l], b_out[l]) >> h;
    op add(y, h) >> y;
    op layer_norm(y, g2[l], b2[l], eps={EPS}) >> h;
    op linear(h, w_up[l], b_up[l]) >> up;
    op gelu(up, approximate="tanh") >> up;
    op linear(up, w_down[l], b_down[l]) >> h;
    op add(y, h) >> y;
  }}
  return y;
}}
"""


def made_weights(layers: int) -> list[dict[str, Array]]:
    rng = np.random.default_rng(0)
    return [
        {name: rng.standard_normal(shape, dtype=np.float32) * np.float32(0.05) for name, shape in SHAPES.items()}
        for _ in range(layers)
    ]


def noise(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


class Layers(Protocol):
    def rewind(self) -> None:
        """Go back to where `TURNS` tokens are still to come."""
        ...

    def step(self, position: int) -> None: ...

    def result(self) -> Array: ...


class Simulated:
    """The layers as a program; tokens before those that are measured are written to its cache by steps of their own."""

    def __init__(self, weights: Sequence[Mapping[str, Array]], inputs: Array) -> None:
        arrays = {f"{name}.{number}": array for number, own in enumerate(weights) for name, array in own.items()}
        program = oi.graph(PROGRAM.replace("LAYERS", str(len(weights))))
        self._executor = Simulator(oi.Model.from_arrays(arrays), program).make_executor()
        self._layers = len(weights)
        self._inputs = inputs
        for position in range(TOKENS - TURNS):
            self.step(position)
        self._state = self._executor.snapshot()

    def rewind(self) -> None:
        self._executor.restore(self._state)

    def step(self, position: int) -> None:
        self._executor.step(x=self._inputs[position : position + 1], at=position)

    def result(self) -> Array:
        return np.asarray(self._executor.fetch("y"))

    def caches(self) -> tuple[Array, Array]:
        """Return keys and values [layers, heads, tokens, depth] of the tokens so far, with room for all."""
        found = np.zeros((2, self._layers, HEADS, TOKENS, DEPTH), np.float32)
        for own, name in zip(found, "KV", strict=True):
            stored = np.asarray(self._executor.fetch(name))
            own[:, :, : stored.shape[1]] = stored.transpose(0, 2, 1, 3)
        return found[0], found[1]


class ByHand:
    """The same arithmetic in NumPy."""

    def __init__(self, weights: Sequence[Mapping[str, Array]], inputs: Array, keys: Array, values: Array) -> None:
        self._weights = weights
        self._inputs = inputs
        self._keys, self._values = keys.copy(), values.copy()
        self._h, self._y, self._a, self._square = (np.empty((1, WIDTH), np.float32) for _ in range(4))
        self._part = np.empty((1, 1), np.float32)
        self._qkv = np.empty((1, 3 * WIDTH), np.float32)
        self._q, self._k, self._v = (each.reshape(HEADS, 1, DEPTH) for each in np.split(self._qkv, 3, axis=1))
        self._scores = np.empty(HEADS * TOKENS, np.float32)
        self._sums = np.empty((HEADS, 1, 1), np.float32)
        self._up, self._cube = (np.empty((1, INNER), np.float32) for _ in range(2))

    def _layer_norm(self, x: Array, g: Array, b: Array) -> None:
        np.mean(x, axis=-1, keepdims=True, out=self._part)
        np.subtract(x, self._part, out=self._h)
        np.multiply(self._h, self._h, out=self._square)
        np.mean(self._square, axis=-1, keepdims=True, out=self._part)
        np.add(self._part, np.float32(EPS), out=self._part)
        np.sqrt(self._part, out=self._part)
        np.divide(self._h, self._part, out=self._h)
        np.multiply(self._h, g, out=self._h)
        np.add(self._h, b, out=self._h)

    def _attention(self, layer: int, position: int) -> None:
        keys, values = self._keys[layer, :, : position + 1], self._values[layer, :, : position + 1]
        scores = self._scores[: HEADS * (position + 1)].reshape(HEADS, 1, position + 1)
        keys[:, position], values[:, position] = self._k[:, 0], self._v[:, 0]
        np.multiply(self._q, np.float32(1 / math.sqrt(DEPTH)), out=self._q)
        np.matmul(self._q, keys.transpose(0, 2, 1), out=scores)
        np.max(scores, axis=-1, keepdims=True, out=self._sums)
        np.subtract(scores, self._sums, out=scores)
        np.exp(scores, out=scores)
        np.sum(scores, axis=-1, keepdims=True, out=self._sums)
        heads = self._a.reshape(HEADS, 1, DEPTH)
        np.matmul(scores, values, out=heads)
        np.divide(heads, self._sums, out=heads)

    def _gelu(self) -> None:
        up, cube = self._up, self._cube
        np.multiply(up, up, out=cube)
        np.multiply(cube, up, out=cube)
        np.multiply(cube, np.float32(0.044715), out=cube)
        np.add(cube, up, out=cube)
        np.multiply(cube, np.float32(math.sqrt(2 / math.pi)), out=cube)
        np.tanh(cube, out=cube)
        np.add(cube, np.float32(1), out=cube)
        np.multiply(cube, up, out=up)
        np.multiply(up, np.float32(0.5), out=up)

    def rewind(self) -> None:
        """Do nothing: steps write what they read."""

    def step(self, position: int) -> None:
        np.copyto(self._y, self._inputs[position : position + 1])
        for layer, weights in enumerate(self._weights):
            self._layer(layer, weights, position)

    def _layer(self, layer: int, w: Mapping[str, Array], position: int) -> None:
        self._layer_norm(self._y, w["g1"], w["b1"])
        np.matmul(self._h, w["w_qkv"], out=self._qkv)
        np.add(self._qkv, w["b_qkv"], out=self._qkv)
        self._attention(layer, position)
        np.matmul(self._a, w["w_out"], out=self._h)
        np.add(self._h, w["b_out"], out=self._h)
        np.add(self._y, self._h, out=self._y)
        self._layer_norm(self._y, w["g2"], w["b2"])
        np.matmul(self._h, w["w_up"], out=self._up)
        np.add(self._up, w["b_up"], out=self._up)
        self._gelu()
        np.matmul(self._up, w["w_down"], out=self._h)
        np.add(self._h, w["b_down"], out=self._h)
        np.add(self._y, self._h, out=self._y)

    def result(self) -> Array:
        return self._y


class OnnxRuntime:
    """The same in ONNX Runtime; keys and values lie where its matrix products take them without transposing."""

    def __init__(self, weights: Sequence[Mapping[str, Array]], inputs: Array, keys: Array, values: Array) -> None:
        ort: Any = importlib.import_module("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        model = _onnx_model(weights).SerializeToString()
        self._session = ort.InferenceSession(model, options, providers=providers)
        self._inputs = inputs
        self._feeds = {f"keys.{n}": np.ascontiguousarray(own.transpose(0, 2, 1)) for n, own in enumerate(keys)}
        self._feeds |= {f"values.{n}": own for n, own in enumerate(values)}
        self._result = np.empty(0, np.float32)

    def rewind(self) -> None:
        """Do nothing: nothing is written."""

    def step(self, position: int) -> None:
        (self._result,) = self._session.run(["y"], {"x.0": self._inputs[position : position + 1], **self._feeds})

    def result(self) -> Array:
        return self._result


STEPS: Sequence[tuple[str, str, str, Mapping[str, object]]] = (
    ("LayerNormalization", "x g1 b1", "h1", {"epsilon": EPS}),
    ("Gemm", "h1 w_qkv b_qkv", "qkv", {}),
    ("Split", "qkv", "q k v", {"axis": 1, "num_outputs": 3}),
    ("Reshape", "q heads", "q_heads", {}),
    ("Mul", "q_heads scale", "scaled", {}),
    ("MatMul", "scaled keys", "scores", {}),
    ("Softmax", "scores", "shares", {"axis": -1}),
    ("MatMul", "shares values", "mixed", {}),
    ("Reshape", "mixed row", "a", {}),
    ("Gemm", "a w_out b_out", "out", {}),
    ("Add", "x out", "x2", {}),
    ("LayerNormalization", "x2 g2 b2", "h2", {"epsilon": EPS}),
    ("Gemm", "h2 w_up b_up", "up", {}),
    ("Gelu", "up", "bent", {"approximate": "tanh"}),
    ("Gemm", "bent w_down b_down", "down", {}),
    ("Add", "x2 down", "next", {}),
)
"""A layer in ONNX: operator, inputs, outputs, settings. Names are a layer's own, but for the constants below."""


def _onnx_model(weights: Sequence[Mapping[str, Array]]) -> Any:
    onnx: Any = importlib.import_module("onnx")
    make, layers = onnx.helper, len(weights)
    constants = {
        "scale": np.array(1 / math.sqrt(DEPTH), np.float32),
        "heads": np.array([HEADS, 1, DEPTH]),
        "row": np.array([1, WIDTH]),
        **{f"{name}.{number}": array for number, own in enumerate(weights) for name, array in own.items()},
    }

    def named(text: str, layer: int) -> list[str]:
        following = f"x.{layer + 1}" if layer + 1 < layers else "y"
        names = [name if name in constants else f"{name}.{layer}" for name in text.split()]
        return [following if name == f"next.{layer}" else name for name in names]

    nodes = [
        make.make_node(op, named(inputs, layer), named(outputs, layer), **settings)
        for layer in range(layers)
        for op, inputs, outputs, settings in STEPS
    ]
    shapes: dict[str, list[int]] = {"x.0": [1, WIDTH]}
    for layer in range(layers):
        shapes |= {f"keys.{layer}": [HEADS, DEPTH, TOKENS], f"values.{layer}": [HEADS, TOKENS, DEPTH]}
    inputs = [make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    output = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, WIDTH])
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = make.make_graph(nodes, "layers", inputs, [output], stored)
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 20)], ir_version=9)


def medians(layers: Mapping[str, Layers], repeats: int) -> dict[str, float]:
    """Return median seconds of processor time of a step, taken alternately and each first as often as the others."""
    times: dict[str, list[float]] = {name: [] for name in layers}
    for turn in range(repeats):
        order = list(layers)
        for name in (*order[turn % len(order) :], *order[: turn % len(order)]):
            layers[name].rewind()
            start = time.thread_time()
            for position in range(TOKENS - TURNS, TOKENS):
                layers[name].step(position)
            times[name].append((time.thread_time() - start) / TURNS)
    return {name: float(np.median(each)) for name, each in times.items()}


def measured(count: int) -> dict[str, float]:
    """Return median seconds of a step of some layers by who runs it, after a check that all have one result."""
    weights, inputs = made_weights(count), noise(TOKENS, WIDTH, seed=1)
    own = Simulated(weights, inputs)
    layers: dict[str, Layers] = {"ours": own, "NumPy": ByHand(weights, inputs, *own.caches())}
    for position in range(TOKENS - TURNS, TOKENS):
        for each in layers.values():
            each.step(position)
    if all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
        layers["ONNX Runtime"] = OnnxRuntime(weights, inputs, *own.caches())
        layers["ONNX Runtime"].step(TOKENS - 1)
    for each in layers.values():
        np.testing.assert_allclose(own.result(), each.result(), rtol=1e-3, atol=1e-3)
    return medians(layers, REPEATS[count])


def main() -> None:
    for count in REPEATS:
        found = measured(count)
        print(f"{count:2} layers: ours         {found['ours'] / count * 1e6:8.1f} us a layer")
        for name, aim in AIMS.items():
            if name not in found:
                print(f"           {name:12} left out: onnx and onnxruntime are not installed")
                continue
            ratio = found["ours"] / found[name]
            print(f"           {name:12} {found[name] / count * 1e6:8.1f} us a layer, ratio {ratio:.2f} (aim {aim})")


if __name__ == "__main__":
    main()
