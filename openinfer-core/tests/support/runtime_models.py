"""Small models of ONNX Runtime's own operators, and how the program of one compares with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import helper, info, run, saved, weights

from openinfer.importers import load

NUMBERS = {"f": 1, "u1": 2, "i1": 3, "i4": 6, "i8": 7, "b1": 9, "f2": 10, "f8": 11, "u8": 13}


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Return a node of the domain com.microsoft; names with spaces between them, ``-`` for an input left out."""
    names = [name.replace("-", "") for name in inputs.split(" ")]
    written = [name.replace("-", "") for name in outputs.split(" ")]
    return helper.make_node(op, names, written, domain=attributes.pop("domain", "com.microsoft"), **attributes)


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any]) -> Any:
    """Return a model; ``inputs`` are arrays, of whose shapes it has the first dim by name."""
    infos = [info(name, array.shape, _kind(array)) for name, array in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "small", infos, results, weights(**constants))
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 17), ("com.microsoft", 1))]
    opsets.append(helper.make_opsetid("ai.onnx.ml", 3))
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _kind(array: Any) -> int:
    return NUMBERS[array.dtype.str[1:] if array.dtype.str != "<f4" else "f"]


def of_runtime(proto: Any, inputs: dict[str, Any]) -> list[Any]:
    """Return what ONNX Runtime computes."""
    runtime = pytest.importorskip("onnxruntime", reason="programs are compared with onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def agrees(
    proto: Any,
    inputs: dict[str, Any],
    folder: Path,
    *,
    steps: int = 0,
    right: list[Any] | None = None,
    rtol: float = 1e-4,
) -> str:
    """Assert that a program computes what ONNX Runtime does, quantised results up to some steps; return its text."""
    imported = load(saved(proto, folder), feeds={})
    results = of_runtime(proto, inputs) if right is None else right
    for ours, theirs in zip(run(imported, inputs), results, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol / 10)
        else:
            assert np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max(initial=0) <= steps
    return imported.text
