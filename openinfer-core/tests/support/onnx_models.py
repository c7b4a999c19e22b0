"""Small ONNX models, and how a program of one compares with the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="models are made with the package onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from openinfer import Simulator  # noqa: E402
from openinfer.importers import ImportedModel  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def weights(**arrays: Any) -> list[Any]:
    """Return initialisers."""
    return [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]


def info(name: str, dims: Any, kind: int = FLOAT) -> Any:
    """Return the type of an input or output."""
    return helper.make_tensor_value_info(name, kind, dims)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Return a node; names of inputs and outputs with spaces between them."""
    return helper.make_node(op, inputs.replace("-", "").split(" "), outputs.split(), **attributes)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], initialisers: Any = (), opset: int = 17) -> Any:
    """Return a model."""
    graph = helper.make_graph(nodes, "small", inputs, outputs, list(initialisers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def saved(proto: Any, folder: Path, name: str = "small.onnx") -> Path:
    """Write a model."""
    path = folder / name
    onnx.save(proto, str(path))
    return path


def read(path: Path) -> Any:
    """Read a model."""
    return onnx.load(str(path))


def expected(proto: Any, inputs: dict[str, Any]) -> list[Any]:
    """Return what ONNX's reference evaluator computes."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(proto).run(None, inputs)


def run(imported: ImportedModel, inputs: dict[str, Any]) -> list[Any]:
    """Return what the program computes in one step."""
    executor = Simulator(imported.model, imported.graph).make_executor()
    executor.insert({ours: inputs[name] for name, ours in imported.report.inputs.items()})
    executor.step()
    return [executor.fetch(name) for name in imported.report.outputs.values()]


def agrees(proto: Any, imported: ImportedModel, inputs: dict[str, Any]) -> None:
    """Assert that a program computes what its model does."""
    for ours, theirs in zip(run(imported, inputs), expected(proto, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
