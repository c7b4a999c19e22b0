"""Networks with random weights, each twice: as a program with a model, and as an ONNX model of the same arithmetic.

The first four have the shapes of MLPerf Tiny's reference models, batch norms folded into the weights; `decoder_layer`
is a layer of GPT-2's small size for one token behind 255 others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray
OPSET, IR_VERSION = 20, 9


@dataclass(frozen=True)
class Net:
    """One network.

    Attributes:
        multiply_adds: of one step.
        weight_nbytes: of all weights in f32.
        tolerance: largest difference between two right results, as a share of the largest element.
    """

    name: str
    program: str
    weights: Mapping[str, Array]
    onnx_model: bytes
    inputs: Mapping[str, Array]
    outputs: Sequence[str]
    multiply_adds: int
    tolerance: float = 2e-5

    @property
    def weight_nbytes(self) -> int:
        return sum(array.nbytes for array in self.weights.values())


class Builder:
    """Appends layers to a program and to an ONNX graph at once; values are called by their names in both."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.multiply_adds = 0
        self._inputs: dict[str, Array] = {}
        self._weights: dict[str, Array] = {}
        self._outputs: list[str] = []
        self._lines: list[str] = []
        self._nodes: list[onnx.NodeProto] = []
        self._initialisers: dict[str, Array] = {}

    def input(self, name: str, *shape: int) -> str:
        self._inputs[name] = self.rng.standard_normal(shape).astype(np.float32)
        self.shapes[name] = shape
        return name

    def weight(self, name: str, array: Array) -> str:
        self._weights[name] = self._initialisers[name] = np.ascontiguousarray(array, np.float32)
        return name

    def normal(self, name: str, scale: float, *shape: int) -> str:
        return self.weight(name, self.rng.standard_normal(shape) * scale)

    def integers(self, name: str, *values: int) -> str:
        """Add a tensor that only ONNX needs, such as a shape."""
        self._initialisers[name] = np.asarray(values, np.int64)
        return name

    def number(self, name: str, value: float) -> str:
        self._initialisers[name] = np.float32(value)
        return name

    def line(self, text: str, **made: tuple[int, ...]) -> None:
        """Append a statement that makes values of these shapes."""
        for name, shape in made.items():
            if name not in self.shapes:
                self.shapes[name] = shape
                extents = ", ".join(map(str, shape))
                self._lines.append(f"assign {name}: f32[{extents}];")
        self._lines.append(text)

    def node(self, kind: str, inputs: Sequence[str], *outputs: str, **attributes: object) -> None:
        self._nodes.append(helper.make_node(kind, list(inputs), list(outputs), **attributes))

    def conv(
        self,
        x: str,
        y: str,
        channels: int,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        *,
        depthwise: bool = False,
        relu: bool = True,
        padding: tuple[int, int, int, int] | None = None,
    ) -> str:
        """Append a convolution with bias; padding as TensorFlow's SAME has it unless given."""
        _, c, *size = self.shapes[x]
        groups = c if depthwise else 1
        if padding is None:
            padding = _same(size, kernel, stride)
        reach = (size[0] + padding[0] + padding[2], size[1] + padding[1] + padding[3])
        out = [(n - k) // s + 1 for n, k, s in zip(reach, kernel, stride, strict=True)]
        taps = c // groups * kernel[0] * kernel[1]
        w = self.normal(f"{y}_w", math.sqrt(2 / taps), channels, c // groups, *kernel)
        b = self.normal(f"{y}_b", 0.05, channels)
        settings = f"stride={list(stride)}, padding={list(padding)}, groups={groups}"
        self.line(f"op conv2d({x}, {w}, {b}, {settings}) >> {y};", **{y: (1, channels, *out)})
        made = f"{y}_linear" if relu else y
        self.node("Conv", (x, w, b), made, pads=list(padding), strides=list(stride), group=groups)
        if relu:
            self.line(f"op relu({y}) >> {y};")
            self.node("Relu", (made,), y)
        self.multiply_adds += channels * out[0] * out[1] * taps
        return y

    def linear(self, x: str, y: str, features: int, *, relu: bool = False, scale: float | None = None) -> str:
        rows, depth = self.shapes[x]
        w = self.normal(f"{y}_w", scale or math.sqrt(2 / depth), depth, features)
        b = self.normal(f"{y}_b", 0.05, features)
        self.line(f"op linear({x}, {w}, {b}) >> {y};", **{y: (rows, features)})
        made = f"{y}_linear" if relu else y
        self.node("Gemm", (x, w, b), made)
        if relu:
            self.line(f"op relu({y}) >> {y};")
            self.node("Relu", (made,), y)
        self.multiply_adds += rows * depth * features
        return y

    def add(self, a: str, b: str, y: str, *, relu: bool = False) -> str:
        self.line(f"op add({a}, {b}) >> {y};", **{y: self.shapes[a]})
        made = f"{y}_sum" if relu else y
        self.node("Add", (a, b), made)
        if relu:
            self.line(f"op relu({y}) >> {y};")
            self.node("Relu", (made,), y)
        return y

    def classes(self, x: str, count: int) -> None:
        """Append the mean of each channel, a layer and softmax: the output."""
        channels = self.shapes[x][1]
        self.line(f"op global_avg_pool({x}) >> pooled;", pooled=(1, channels, 1, 1))
        self.line(f"op reshape(pooled, shape=[1, {channels}]) >> features;", features=(1, channels))
        self.node("GlobalAveragePool", (x,), "pooled")
        self.node("Flatten", ("pooled",), "features", axis=1)
        self.linear("features", "logits", count)
        self.line("op softmax(logits, axis=1) >> probabilities;", probabilities=(1, count))
        self.node("Softmax", ("logits",), "probabilities", axis=1)
        self.output("probabilities")

    def output(self, name: str) -> None:
        self._outputs.append(name)

    def net(self, name: str, tolerance: float = 2e-5) -> Net:
        returned = ", ".join(self._outputs)
        made = helper.make_model(self._graph(name), ir_version=IR_VERSION, opset_imports=[_opset()])
        onnx.checker.check_model(made)
        return Net(
            name=name,
            program="\n".join(
                [
                    f"dynamic {{ {self._declared(self._inputs)} }}",
                    f"constant {{ {self._declared(self._weights)} }}",
                    "block entry {",
                    *(f"  {line}" for line in self._lines),
                    f"  return {returned};",
                    "}",
                ]
            ),
            weights=self._weights,
            onnx_model=made.SerializeToString(),
            inputs=self._inputs,
            outputs=tuple(self._outputs),
            multiply_adds=self.multiply_adds,
            tolerance=tolerance,
        )

    def _declared(self, arrays: Mapping[str, Array]) -> str:
        return " ".join(f"{name}: f32[{', '.join(map(str, a.shape))}];" for name, a in arrays.items())

    def _graph(self, name: str) -> onnx.GraphProto:
        floats = onnx.TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info(n, floats, array.shape) for n, array in self._inputs.items()]
        outputs = [helper.make_tensor_value_info(n, floats, self.shapes[n]) for n in self._outputs]
        initialisers = [numpy_helper.from_array(array, n) for n, array in self._initialisers.items()]
        return helper.make_graph(self._nodes, name, inputs, outputs, initialisers)


def _opset() -> onnx.OperatorSetIdProto:
    return helper.make_opsetid("", OPSET)


def _same(size: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> tuple[int, int, int, int]:
    out = [-(-n // s) for n, s in zip(size, stride, strict=True)]
    total = [max((o - 1) * s + k - n, 0) for o, s, k, n in zip(out, stride, kernel, size, strict=True)]
    return (total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2)


def resnet8() -> Net:
    """Image classification: 3x32x32, three residual stages."""
    b = Builder(1)
    x = b.conv(b.input("image", 1, 3, 32, 32), "stem", 16, (3, 3))
    y = b.conv(b.conv(x, "a1", 16, (3, 3)), "a2", 16, (3, 3), relu=False)
    x = b.add(x, y, "a", relu=True)
    for stage, channels in (("b", 32), ("c", 64)):
        y = b.conv(x, f"{stage}1", channels, (3, 3), (2, 2))
        y = b.conv(y, f"{stage}2", channels, (3, 3), relu=False)
        short = b.conv(x, f"{stage}0", channels, (1, 1), (2, 2), relu=False)
        x = b.add(short, y, stage, relu=True)
    b.classes(x, 10)
    return b.net("ResNet-8")


def mobilenet(side: int = 96, scale: float = 0.25, classes: int = 2) -> Net:
    """Visual wake words: MobileNetV1, depthwise separable convolutions."""
    b = Builder(2)
    x = b.conv(b.input("image", 1, 3, side, side), "stem", int(32 * scale), (3, 3), (2, 2))
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for number, (wide, stride) in enumerate(blocks):
        x = b.conv(x, f"d{number}", b.shapes[x][1], (3, 3), (stride, stride), depthwise=True)
        x = b.conv(x, f"p{number}", int(wide * scale), (1, 1))
    b.classes(x, classes)
    return b.net(f"MobileNetV1 {scale} {side}²", tolerance=1e-4)


def autoencoder() -> Net:
    """Anomaly detection: ten layers of products."""
    b = Builder(3)
    x = b.input("frame", 1, 640)
    widths = [128, 128, 128, 128, 8, 128, 128, 128, 128, 640]
    for number, width in enumerate(widths):
        x = b.linear(x, f"y{number}", width, relu=number < len(widths) - 1)
    b.output(x)
    return b.net("FC autoencoder")


def ds_cnn() -> Net:
    """Keyword spotting: 49 frames of 10 coefficients."""
    b = Builder(4)
    x = b.conv(b.input("frames", 1, 1, 49, 10), "stem", 64, (10, 4), (2, 2))
    for number in range(4):
        x = b.conv(x, f"d{number}", 64, (3, 3), depthwise=True)
        x = b.conv(x, f"p{number}", 64, (1, 1))
    b.classes(x, 12)
    return b.net("DS-CNN")


def decoder_layer(width: int = 768, heads: int = 12, tokens: int = 256) -> Net:
    """A layer of GPT-2's small size: one token, keys and values of the others are inputs."""
    b = Builder(5)
    depth, past = width // heads, tokens - 1
    x = b.input("x", 1, width)
    b.input("keys", heads, past, depth)
    b.input("values", heads, past, depth)
    h = _layer_norm(b, x, "n1")
    b.linear(h, "qkv", 3 * width, scale=0.02)
    row, head = (1, width), (heads, 1, depth)
    b.line(f"op split(qkv, axis=1, sizes=[{width}, {width}, {width}]) >> q0, k0, v0;", q0=row, k0=row, v0=row)
    b.node("Split", ("qkv", b.integers("thirds", width, width, width)), "q0", "k0", "v0", axis=1)
    for name in "qkv":
        b.line(f"op reshape({name}0, shape={list(head)}) >> {name};", **{name: head})
        b.node("Reshape", (f"{name}0", b.integers(f"{name}_shape", *head)), name)
    every = (heads, tokens, depth)
    for whole, old, new in (("all_keys", "keys", "k"), ("all_values", "values", "v")):
        b.line(f"op concat({old}, {new}, axis=1) >> {whole};", **{whole: every})
        b.node("Concat", (old, new), whole, axis=1)
    b.line("op matmul(q, all_keys, trans_b=true) >> scores;", scores=(heads, 1, tokens))
    b.node("Transpose", ("all_keys",), "keys_t", perm=[0, 2, 1])
    b.node("MatMul", ("q", "keys_t"), "scores")
    b.line("op mul(scores, scale_by) >> scaled;", scaled=(heads, 1, tokens))
    b.weight("scale_by", np.full((1,), 1 / math.sqrt(depth)))
    b.node("Mul", ("scores", "scale_by"), "scaled")
    b.line("op softmax(scaled, axis=2) >> chances;", chances=(heads, 1, tokens))
    b.node("Softmax", ("scaled",), "chances", axis=2)
    b.line("op matmul(chances, all_values) >> mixed;", mixed=head)
    b.node("MatMul", ("chances", "all_values"), "mixed")
    b.line(f"op reshape(mixed, shape=[1, {width}]) >> attended;", attended=row)
    b.node("Reshape", ("mixed", b.integers("row", 1, width)), "attended")
    b.multiply_adds += 2 * heads * tokens * depth
    x1 = b.add(x, b.linear("attended", "projected", width, scale=0.02), "x1")
    h = b.linear(_layer_norm(b, x1, "n2"), "wide", 4 * width, scale=0.02)
    b.line(f'op gelu({h}, approximate="tanh") >> active;', active=(1, 4 * width))
    b.node("Gelu", (h,), "active", approximate="tanh")
    b.add(x1, b.linear("active", "narrow", width, scale=0.02), "y")
    b.output("y")
    return b.net("GPT-2 layer", tolerance=1e-4)


def _layer_norm(b: Builder, x: str, y: str) -> str:
    width = b.shapes[x][1]
    gain = b.weight(f"{y}_g", 1 + 0.1 * b.rng.standard_normal(width))
    bias = b.normal(f"{y}_b", 0.1, width)
    b.line(f"op layer_norm({x}, {gain}, {bias}, eps=1e-5) >> {y};", **{y: (1, width)})
    b.node("LayerNormalization", (x, gain, bias), y, axis=-1, epsilon=1e-5)
    return y


def lstm_cell(width: int = 128) -> Net:
    """One step of an LSTM cell: two products, three sigmoids, two tanhs."""
    b = Builder(6)
    b.input("x", 1, width)
    b.input("h", 1, width)
    b.input("c", 1, width)
    row = (1, width)
    b.add(b.linear("x", "from_x", 4 * width, scale=0.1), b.linear("h", "from_h", 4 * width, scale=0.1), "gates")
    sizes = ", ".join([str(width)] * 4)
    b.line(f"op split(gates, axis=1, sizes=[{sizes}]) >> i0, f0, g0, o0;", i0=row, f0=row, g0=row, o0=row)
    b.node("Split", ("gates", b.integers("quarters", *[width] * 4)), "i0", "f0", "g0", "o0", axis=1)
    for name, function in (("i", "sigmoid"), ("f", "sigmoid"), ("g", "tanh"), ("o", "sigmoid")):
        _call(b, function, f"{name}0", y=name)
    _call(b, "mul", "f", "c", y="kept")
    _call(b, "mul", "i", "g", y="new")
    _call(b, "add", "kept", "new", y="c_next")
    _call(b, "tanh", "c_next", y="squashed")
    _call(b, "mul", "o", "squashed", y="h_next")
    b.output("h_next")
    b.output("c_next")
    return b.net("LSTM cell", tolerance=1e-4)


def _call(b: Builder, function: str, *inputs: str, y: str) -> None:
    b.line(f"op {function}({', '.join(inputs)}) >> {y};", **{y: b.shapes[inputs[0]]})
    b.node(function.capitalize(), inputs, y)


def audio_front() -> Net:
    """Half a second of 16 kHz audio through a strided convolution: 64 filters of 400 samples, every 160."""
    b = Builder(7)
    x = b.input("samples", 1, 1, 1, 8000)
    b.output(b.conv(x, "features", 64, (1, 400), (1, 160), padding=(0, 0, 0, 0)))
    return b.net("1-D convolution front end", tolerance=1e-4)


def depthwise() -> Net:
    """A depthwise convolution of 3x3 over 64 channels at 112²."""
    b = Builder(8)
    b.output(b.conv(b.input("x", 1, 64, 112, 112), "y", 64, (3, 3), depthwise=True))
    return b.net("depthwise 3x3 112²")


NETS: Mapping[str, Callable[[], Net]] = {
    "resnet8": resnet8,
    "mobilenet": mobilenet,
    "autoencoder": autoencoder,
    "ds_cnn": ds_cnn,
    "gpt2": decoder_layer,
    "lstm": lstm_cell,
    "audio": audio_front,
    "mobilenet224": lambda: mobilenet(224, 1.0, 1000),
    "depthwise": depthwise,
}
