"""Operators run on the device cpu, with its kernels or by their decompositions, and the ONNX reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openinfer.array_types import dtype_of_array
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.simulate.devices.binding import Binder
from openinfer_backend_cpu.backend import CpuBackend

Arrays = Sequence[np.ndarray | None]
RunOperator = Callable[..., list[np.ndarray]]
OnnxReference = Callable[..., list[np.ndarray]]


@pytest.fixture(scope="session")
def run_operator() -> RunOperator:
    """Return how to run an operator: ``run(op, inputs, without_kernels=(), **settings)`` gives its outputs.

    It runs twice on the same buffers, so that state left over from a run would show.
    """
    environment = Environment.default()
    full = kernel_table(environment, environment.devices["cpu"])

    def run(op: str, inputs: Arrays, *, without_kernels: Sequence[str] = (), **settings: Any) -> list[np.ndarray]:
        kept = {name: found for name, found in full.kernels.items() if name not in without_kernels}
        backend = CpuBackend()
        binder = Binder(environment, replace(full, kernels=kept), backend)
        call = call_of(environment.op(op), [None if a is None else _type(a) for a in inputs], settings)
        buffers = [None if a is None else backend.upload(_type(a), np.ascontiguousarray(a)) for a in inputs]
        outputs = [backend.allocate(kind) for kind in call.outputs]
        bound = binder.bind(call, buffers, outputs)
        with np.errstate(all="ignore"):
            bound()
            bound()
        return [backend.read(output) for output in outputs]

    return run


def _type(array: np.ndarray) -> TensorType:
    dtype = dtype_of_array(array)
    assert dtype is not None
    return TensorType(dtype, array.shape)


@pytest.fixture(scope="session")
def onnx_reference() -> OnnxReference:
    """Return how to ask the ONNX reference evaluator: ``ask(op, inputs by name, outputs, opset, **attributes)``."""
    onnx = pytest.importorskip("onnx", reason="the ONNX reference evaluator is the oracle")
    reference = pytest.importorskip("onnx.reference", reason="the ONNX reference evaluator is the oracle")
    helper = onnx.helper

    def ask(
        op: str, inputs: Mapping[str, np.ndarray], outputs: int = 1, opset: int = 23, **attributes: Any
    ) -> list[np.ndarray]:
        names = [f"y{number}" for number in range(outputs)]
        node = helper.make_node(op, list(inputs), names, **attributes)
        given = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
            if name
        ]
        results = [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in names]
        graph = helper.make_graph([node], "one", given, results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        with np.errstate(all="ignore"):
            return reference.ReferenceEvaluator(model).run(None, {n: a for n, a in inputs.items() if n})

    return ask
