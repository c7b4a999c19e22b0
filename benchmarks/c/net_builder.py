"""Builders of networks: layers with random weights, as statements of a program and as nodes of an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import openinfer as oi
from openinfer_oinf import TensorSpec, dataclass_to_oinf

Array = np.ndarray
OPSET, IR_VERSION = 20, 9


@dataclass(frozen=True)
class Net:
    """One network.

    Attributes:
        multiply_adds: of one step.
        tolerance: largest difference between two right results, as a share of the largest element.
        types: element types of weights that are not f32.
        past: inputs of the ONNX model alone, which the program has in persistent memory.
        state: what persistent variables of the program hold before a step.
        counters: those of them that a step changes and the next one of a measurement finds as they were.
        limits: how far caches may grow.
        onnx_names: names of inputs in the ONNX model, by names in the program; the others have the same in both.
    """

    name: str
    program: str
    weights: Mapping[str, Array]
    onnx_model: bytes
    inputs: Mapping[str, Array]
    outputs: Sequence[str]
    multiply_adds: int
    tolerance: float = 2e-5
    types: Mapping[str, str] = field(default_factory=dict)
    past: Mapping[str, Array] = field(default_factory=dict)
    state: Mapping[str, Array] = field(default_factory=dict)
    counters: Sequence[str] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    onnx_names: Mapping[str, str] = field(default_factory=dict)

    def model(self, file: Path) -> oi.Model:
        """Return the weights as the model of a new file."""
        of = {name: TensorSpec(array, dtype=self.types.get(name, "f32")) for name, array in self.weights.items()}
        file.write_bytes(dataclass_to_oinf(of))
        return oi.ModelLoader.open(file)


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
        self._types: dict[str, str] = {}
        self._past: dict[str, Array] = {}
        self._presents: list[str] = []
        self._state: dict[str, Array] = {}
        self._persistent: list[str] = []
        self._counters: list[str] = []
        self._limits: dict[str, int] = {}

    def title(self, name: str) -> str:
        """Return the name of a network with what these layers have of their own."""
        return name

    def input(self, name: str, *shape: int) -> str:
        self._inputs[name] = self.rng.standard_normal(shape).astype(np.float32)
        self.shapes[name] = shape
        return name

    def weight(self, name: str, array: Array, *, is_used: bool = True) -> str:
        """Add a weight; one that is not used is of the ONNX graph alone."""
        self._initialisers[name] = np.ascontiguousarray(array, np.float32)
        if is_used:
            self._weights[name] = self._initialisers[name]
        return name

    def counter(self, name: str, value: int) -> None:
        """Add a persistent integer that has the same value before each step of a measurement."""
        self._persistent.append(f"{name}: i64;")
        self._state[name] = np.array(value, np.int64)
        self._counters.append(name)

    def cache(self, name: str, index: str, filled: int, room: int, *entry: int) -> Array:
        """Add a cache whose first entries are random; return them."""
        self._persistent.append(f"{name}({index}): f32[{', '.join(map(str, entry))}] @table;")
        self._state[name] = np.zeros((room, *entry), np.float32)
        self._state[name][:filled] = self.rng.standard_normal((filled, *entry))
        self._state[f"{name}.{index}"] = np.array(filled, np.int64)
        self._limits[f"{name}.{index}"] = room
        return self._state[name][:filled]

    def past(self, name: str, array: Array, present: str) -> None:
        """Add an input and an output of the ONNX graph alone, of which the output has one row more."""
        self._past[name] = np.ascontiguousarray(array)
        self.shapes[present] = (array.shape[0], array.shape[1] + 1, *array.shape[2:])
        self._presents.append(present)

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
        found = convolution(self.shapes[x], channels, kernel, stride, padding, depthwise=depthwise)
        w = self.normal(f"{y}_w", math.sqrt(2 / found.taps), *found.weights)
        b = self.normal(f"{y}_b", 0.05, channels)
        self.line(f"op conv2d({x}, {w}, {b}, {found.settings}) >> {y};", **{y: found.result})
        made = f"{y}_linear" if relu else y
        self.node("Conv", (x, w, b), made, **found.attributes)
        if relu:
            self.line(f"op relu({y}) >> {y};")
            self.node("Relu", (made,), y)
        self.multiply_adds += found.multiply_adds
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
            name=self.title(name),
            program="\n".join(
                [
                    f"dynamic {{ {self._declared(self._inputs)} }}",
                    f"constant {{ {self._declared(self._weights)} }}",
                    f"persistent {{ {' '.join(self._persistent)} }}",
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
            types=self._types,
            past=self._past,
            state=self._state,
            counters=self._counters,
            limits=self._limits,
        )

    def _declared(self, arrays: Mapping[str, Array]) -> str:
        return " ".join(
            f"{name}: {self._types.get(name, 'f32')}[{', '.join(map(str, array.shape))}];"
            for name, array in arrays.items()
        )

    def _graph(self, name: str) -> onnx.GraphProto:
        floats, given = onnx.TensorProto.FLOAT, {**self._inputs, **self._past}
        inputs = [helper.make_tensor_value_info(n, floats, array.shape) for n, array in given.items()]
        made = (*self._outputs, *self._presents)
        outputs = [helper.make_tensor_value_info(n, floats, self.shapes[n]) for n in made]
        initialisers = [numpy_helper.from_array(array, n) for n, array in self._initialisers.items()]
        return helper.make_graph(self._nodes, name, inputs, outputs, initialisers)


def _opset() -> onnx.OperatorSetIdProto:
    return helper.make_opsetid("", OPSET)


@dataclass(frozen=True)
class Convolution:
    """The shapes of a convolution of one image, and its settings in a program and in ONNX.

    Attributes:
        weights, result: shapes.
        taps: terms of each sum.
    """

    weights: tuple[int, ...]
    result: tuple[int, ...]
    taps: int
    settings: str
    attributes: Mapping[str, object]

    @property
    def multiply_adds(self) -> int:
        return math.prod(self.result) * self.taps


def convolution(
    image: Sequence[int],
    channels: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int] | None,
    *,
    depthwise: bool,
) -> Convolution:
    """Return a convolution of an image [1, C, H, W]; padding as TensorFlow's SAME has it unless given."""
    _, c, *size = image
    groups = c if depthwise else 1
    around = same_padding(size, kernel, stride) if padding is None else padding
    reach = (size[0] + around[0] + around[2], size[1] + around[1] + around[3])
    out = [(n - k) // s + 1 for n, k, s in zip(reach, kernel, stride, strict=True)]
    return Convolution(
        weights=(channels, c // groups, *kernel),
        result=(1, channels, *out),
        taps=c // groups * kernel[0] * kernel[1],
        settings=f"stride={list(stride)}, padding={list(around)}, groups={groups}",
        attributes={"pads": list(around), "strides": list(stride), "group": groups},
    )


def same_padding(size: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> tuple[int, int, int, int]:
    out = [-(-n // s) for n, s in zip(size, stride, strict=True)]
    total = [max((o - 1) * s + k - n, 0) for o, s, k, n in zip(out, stride, kernel, size, strict=True)]
    return (total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2)
