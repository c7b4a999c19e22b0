"""Reductions of tensors without elements, as ONNX defines them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import helper, info, model, node, run, saved, weights

from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

SHAPES = [(0, 3), (3, 0), (0, 0), (2, 0, 3)]
IDENTITIES = {
    "ReduceMax": {"f": -np.inf, "i": -(2**31)},
    "ReduceMin": {"f": np.inf, "i": 2**31 - 1},
    "ReduceSum": {"f": 0, "i": 0},
    "ReduceProd": {"f": 1, "i": 1},
}


def reduced(folder: Path, op: str, x: Any, axis: int, *, keepdims: int) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    by_input = op not in ("ArgMax", "ArgMin")
    attributes = {"keepdims": keepdims} if by_input else {"keepdims": keepdims, "axis": axis}
    nodes = [node(op, "x axes" if by_input else "x", "y", **attributes)]
    result = info("y", None, kind if by_input else helper.np_dtype_to_tensor_dtype(np.dtype(np.int64)))
    axes = weights(axes=np.array([axis])) if by_input else ()
    proto = model(nodes, [info("x", list(x.shape), kind)], [result], axes, 18)
    return run(load(saved(proto, folder)), {"x": x})[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("op", IDENTITIES)
def test_slices_of_nothing_have_the_identity(op: str, dtype: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = np.zeros(shape, dtype)
    for axis in range(len(shape)):
        for keepdims in (0, 1):
            wanted = x.sum(axis, keepdims=bool(keepdims), dtype=dtype) + dtype(IDENTITIES[op][x.dtype.kind])
            y = reduced(tmp_path, op, x, axis, keepdims=keepdims)
            np.testing.assert_array_equal(y, wanted, strict=True)


@pytest.mark.parametrize(
    "op", ["ArgMax", "ArgMin", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"]
)
@pytest.mark.parametrize(
    ("shape", "axis", "left"), [((0, 3), 1, (0, 1)), ((0, 0), 1, (0, 1)), ((2, 0, 3), 2, (2, 0, 1))]
)
def test_a_result_without_elements_has_its_shape(
    op: str, shape: tuple[int, ...], axis: int, left: tuple[int, ...], tmp_path: Path
) -> None:
    assert reduced(tmp_path, op, np.zeros(shape, np.float32), axis, keepdims=1).shape == left


@pytest.mark.parametrize("op", ["Hardmax", "Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_nothing_is_normalised_to_nothing(op: str, axis: int, tmp_path: Path) -> None:
    for shape in ((0, 3), (3, 0)):
        path = saved(model([node(op, "x", "y", axis=axis)], [info("x", list(shape))], [info("y", None)]), tmp_path)
        assert run(load(path), {"x": np.zeros(shape, np.float32)})[0].shape == shape
