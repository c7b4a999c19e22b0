"""Writes chains of quantised layers as .tflite files, with the packages tflite and flatbuffers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES = {"int8": tflite.TensorType.INT8, "int32": tflite.TensorType.INT32}
VERSIONS = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "AVERAGE_POOL_2D": 2, "SOFTMAX": 2}
"""Versions of operators whose tensors are int8 with a scale for each channel."""


@dataclass(frozen=True)
class Layer:
    """One operator: its stored inputs, and the tensor that it computes.

    Attributes:
        stored: arrays after the input, each with its scales and the axis of these.
        options: name and fields of the operator's table of options.
        shape, scale, zero: of the result.
    """

    op: str
    options: tuple[str, dict[str, Any]]
    shape: tuple[int, ...]
    scale: float
    zero: int
    stored: tuple[tuple[np.ndarray, Any, int], ...] = field(default=())


class Writer:
    """A file that grows from its leaves."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1 << 16)

    def table(self, kind: str, fields: dict[str, Any]) -> int:
        getattr(tflite, f"{kind}Start")(self.builder)
        for name, value in fields.items():
            getattr(tflite, f"{kind}Add{name}")(self.builder, value)
        return getattr(tflite, f"{kind}End")(self.builder)

    def vector(self, values: Any, dtype: str) -> int:
        return self.builder.CreateNumpyVector(np.ascontiguousarray(values, dtype).reshape(-1))

    def offsets(self, values: list[int]) -> int:
        self.builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            self.builder.PrependUOffsetTRelative(value)
        return self.builder.EndVector()

    def tensor(self, name: str, shape: Any, dtype: str, buffer: int, scale: Any, zero: int, axis: int) -> int:
        scales = np.atleast_1d(np.asarray(scale, np.float32))
        parts = {"Scale": self.vector(scales, "float32"), "ZeroPoint": self.vector([zero] * scales.size, "int64")}
        fields = {
            "Name": self.builder.CreateString(name),
            "Shape": self.vector(shape, "int32"),
            "Quantization": self.table("QuantizationParameters", {**parts, "QuantizedDimension": axis}),
        }
        return self.table("Tensor", {**fields, "Type": TYPES[dtype], "Buffer": buffer, "HasRank": True})


def tflite_bytes(shape: tuple[int, ...], scale: float, zero: int, layers: list[Layer], description: str) -> bytes:
    """Return a model whose layers follow one another; ``shape``, ``scale`` and ``zero`` are those of its input."""
    writer = Writer()
    buffers, tensors, operators = [writer.table("Buffer", {})], [], []
    tensors.append(writer.tensor("input", shape, "int8", 0, scale, zero, 0))
    kinds, above = list(dict.fromkeys(layer.op for layer in layers)), 0
    for number, layer in enumerate(layers):
        inputs = [above]
        for place, (array, scales, axis) in enumerate(layer.stored):
            data = writer.vector(np.frombuffer(array.tobytes(), np.uint8), "uint8")
            buffers.append(writer.table("Buffer", {"Data": data}))
            inputs.append(len(tensors))
            name = f"{layer.op.lower()}_{number}/{('weight', 'bias')[place]}"
            tensors.append(writer.tensor(name, array.shape, array.dtype.name, len(buffers) - 1, scales, 0, axis))
        above = len(tensors)
        name = "output" if layer is layers[-1] else f"{layer.op.lower()}_{number}"
        tensors.append(writer.tensor(name, layer.shape, "int8", 0, layer.scale, layer.zero, 0))
        kind, options = layer.options
        fields = {
            "OpcodeIndex": kinds.index(layer.op),
            "Inputs": writer.vector(inputs, "int32"),
            "Outputs": writer.vector([above], "int32"),
            "BuiltinOptionsType": getattr(tflite.BuiltinOptions, kind),
            "BuiltinOptions": writer.table(kind, options),
        }
        operators.append(writer.table("Operator", fields))
    graph = {
        "Tensors": writer.offsets(tensors),
        "Inputs": writer.vector([0], "int32"),
        "Outputs": writer.vector([above], "int32"),
        "Operators": writer.offsets(operators),
    }
    subgraph = writer.table("SubGraph", graph)
    codes = []
    for kind in kinds:
        number = getattr(tflite.BuiltinOperator, kind)
        codes.append(
            writer.table(
                "OperatorCode", {"BuiltinCode": number, "DeprecatedBuiltinCode": number, "Version": VERSIONS[kind]}
            )
        )
    parts = {
        "OperatorCodes": writer.offsets(codes),
        "Subgraphs": writer.offsets([subgraph]),
        "Buffers": writer.offsets(buffers),
        "Description": writer.builder.CreateString(description),
    }
    writer.builder.Finish(writer.table("Model", {"Version": 3, **parts}), file_identifier=b"TFL3")
    return bytes(writer.builder.Output())
