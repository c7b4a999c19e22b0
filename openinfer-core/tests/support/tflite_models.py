"""Small TFLite models, written with the package flatbuffers, and how a program of one compares with LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tflite = pytest.importorskip("tflite", reason="models are made with the package tflite")

import flatbuffers  # noqa: E402

from openinfer import Simulator  # noqa: E402
from openinfer.importers import ImportedModel, load  # noqa: E402

TYPES = {
    np.dtype(np.float32): "FLOAT32",
    np.dtype(np.float16): "FLOAT16",
    np.dtype(np.bool_): "BOOL",
    **{np.dtype(f"{kind}{bits}"): f"{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}

VERSIONS = {"BROADCAST_TO": 2}
"""First versions that LiteRT registers, where they are not 1."""


@dataclass(frozen=True)
class Tensor:
    """A tensor: ``values`` are its type and shape, and its numbers where ``stored`` is true."""

    name: str
    values: Any
    stored: bool = False
    scale: Any = ()
    zero: Any = 0
    axis: int = 0
    signature: Sequence[int] = ()
    variable: bool = False
    kind: str = ""


@dataclass(frozen=True)
class Operator:
    op: str
    inputs: str
    outputs: str
    options: str
    fields: Mapping[str, Any]
    intermediates: str = ""


def holds(name: str, values: Any, scale: Any = (), zero: Any = 0, axis: int = 0) -> Tensor:
    """Return a tensor with its numbers."""
    return Tensor(name, np.asarray(values), True, scale, zero, axis)


def of(
    name: str, shape: Sequence[int], dtype: Any = np.float32, scale: Any = (), zero: Any = 0, **other: Any
) -> Tensor:
    """Return a tensor that is an input or computed."""
    return Tensor(name, np.zeros(shape, dtype), False, scale, zero, **other)


def op(name: str, inputs: str, outputs: str, options: str = "", **fields: Any) -> Operator:
    """Return an operator; names with spaces between them, ``-`` for one left out, fields as in the schema."""
    return Operator(name, inputs, outputs, options, fields)


class _Writer:
    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)

    def table(self, kind: str, fields: Mapping[str, Any]) -> int:
        """Write a table; offsets of what it refers to are written before."""
        getattr(tflite, f"{kind}Start")(self.builder)
        for name, value in fields.items():
            getattr(tflite, f"{kind}Add{name}")(self.builder, value)
        return getattr(tflite, f"{kind}End")(self.builder)

    def numbers(self, values: Any, dtype: Any) -> int:
        return self.builder.CreateNumpyVector(np.asarray(values, dtype).reshape(-1))

    def offsets(self, values: Sequence[int]) -> int:
        self.builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            self.builder.PrependUOffsetTRelative(value)
        return self.builder.EndVector()

    def quantisation(self, tensor: Tensor) -> dict[str, int]:
        scale = np.atleast_1d(np.asarray(tensor.scale, np.float32))
        if not scale.size:
            return {}
        zero = np.broadcast_to(np.asarray(tensor.zero, np.int64), scale.shape)
        parts = {"Scale": self.numbers(scale, np.float32), "ZeroPoint": self.numbers(zero, np.int64)}
        return {"Quantization": self.table("QuantizationParameters", {**parts, "QuantizedDimension": tensor.axis})}

    def tensor(self, tensor: Tensor, buffer: int) -> int:
        kind = tensor.kind or TYPES[tensor.values.dtype]
        fields: dict[str, Any] = {
            "Name": self.builder.CreateString(tensor.name),
            "Shape": self.numbers(tensor.values.shape, np.int32),
            **self.quantisation(tensor),
        }
        if tensor.signature:
            fields["ShapeSignature"] = self.numbers(tensor.signature, np.int32)
        numbers = {"Type": getattr(tflite.TensorType, kind), "Buffer": buffer, "IsVariable": tensor.variable}
        return self.table("Tensor", {**fields, **numbers, "HasRank": True})

    def option(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.builder.CreateString(value)
        return self.numbers(value, np.int32) if isinstance(value, (list, tuple)) else value

    def operator(self, operator: Operator, code: int, places: Mapping[str, int]) -> int:
        options: dict[str, Any] = {}
        if operator.options:
            fields = {name: self.option(value) for name, value in operator.fields.items()}
            options["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, operator.options)
            options["BuiltinOptions"] = self.table(operator.options, fields)
        vectors = {
            kind: self.numbers([places[name] for name in names.split()], np.int32)
            for kind, names in (("Inputs", operator.inputs), ("Outputs", operator.outputs))
        }
        if operator.intermediates:
            vectors["Intermediates"] = self.numbers([places[name] for name in operator.intermediates.split()], np.int32)
        return self.table("Operator", {"OpcodeIndex": code, **vectors, **options})


@dataclass(frozen=True)
class Graph:
    """A subgraph; names of inputs and outputs with spaces between them."""

    tensors: Sequence[Tensor]
    operators: Sequence[Operator]
    inputs: str
    outputs: str


def model(tensors: Sequence[Tensor], operators: Sequence[Operator], inputs: str, outputs: str, *others: Graph) -> bytes:
    """Return a model; names of inputs and outputs with spaces between them; subgraphs that operators run."""
    writer, graphs = _Writer(), [Graph(tensors, operators, inputs, outputs), *others]
    stored = [tensor for graph in graphs for tensor in graph.tensors if tensor.stored]
    data = [writer.numbers(np.frombuffer(tensor.values.tobytes(), np.uint8), np.uint8) for tensor in stored]
    buffers = [writer.table("Buffer", {}), *(writer.table("Buffer", {"Data": vector}) for vector in data)]
    buffer_of = {id(tensor): number for number, tensor in enumerate(stored, start=1)}
    kinds = list(dict.fromkeys(operator.op for graph in graphs for operator in graph.operators))
    made = [_subgraph(writer, graph, buffer_of, kinds) for graph in graphs]
    codes = [_code(writer, kind) for kind in kinds]
    parts = {
        "OperatorCodes": writer.offsets(codes),
        "Subgraphs": writer.offsets(made),
        "Buffers": writer.offsets(buffers),
        "Description": writer.builder.CreateString("tests"),
    }
    writer.builder.Finish(writer.table("Model", {"Version": 3, **parts}), file_identifier=b"TFL3")
    return bytes(writer.builder.Output())


def _subgraph(writer: _Writer, graph: Graph, buffer_of: Mapping[int, int], kinds: list[str]) -> int:
    places = {tensor.name: place for place, tensor in enumerate(graph.tensors)} | {"-": -1}
    made = {
        "Tensors": writer.offsets([writer.tensor(tensor, buffer_of.get(id(tensor), 0)) for tensor in graph.tensors]),
        "Inputs": writer.numbers([places[name] for name in graph.inputs.split()], np.int32),
        "Outputs": writer.numbers([places[name] for name in graph.outputs.split()], np.int32),
        "Operators": writer.offsets(
            [writer.operator(operator, kinds.index(operator.op), places) for operator in graph.operators]
        ),
    }
    return writer.table("SubGraph", made)


def _code(writer: _Writer, kind: str) -> int:
    number = getattr(tflite.BuiltinOperator, kind)
    fields = {"BuiltinCode": number, "DeprecatedBuiltinCode": min(number, 127), "Version": VERSIONS.get(kind, 1)}
    return writer.table("OperatorCode", fields)


def saved(data: bytes, folder: Path, name: str = "small.tflite") -> Path:
    """Write a model."""
    path = folder / name
    path.write_bytes(data)
    return path


def imported(data: bytes, folder: Path, **options: Any) -> ImportedModel:
    """Write a model and import it."""
    return load(saved(data, folder), **options)


def run(model: ImportedModel, **inputs: Any) -> list[Any]:
    """Run a step of a program and return its outputs in order."""
    with Simulator(model.model, model.graph).make_executor() as executor:
        executor.step(**{model.report.inputs[name]: value for name, value in inputs.items()})
        return [np.asarray(executor.fetch(ours)) for ours in model.report.outputs.values()]
