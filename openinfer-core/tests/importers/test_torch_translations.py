"""Some operators of each family against NumPy: `test_torch_operators.py` compares all of them with PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_programs import imported_program, info, op, program, results

from openinfer.importers.onnx_files.elements import array_type
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(34)


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


X, Y, IMAGE, Q, K, V = f(2, 3, 4), f(3, 1), f(1, 2, 4, 6), f(1, 2, 3, 4), f(1, 2, 3, 4), f(1, 2, 3, 4)
INTEGERS, PLACES = RNG.integers(-5, 6, (2, 3, 4)), RNG.integers(0, 3, (2, 5))
POSITIVE, WEIGHT, BIAS = np.abs(X) + 0.1, f(5, 4), f(5)
EXP = np.exp(X - X.max(-1, keepdims=True))
MASKED = np.where(np.tril(np.ones((3, 3), bool)), Q @ K.swapaxes(-1, -2) / 2, -np.inf)
SEEN = np.exp(MASKED) / np.exp(MASKED).sum(-1, keepdims=True) @ V
NONE = {"weight": None, "bias": None}
RAMP = np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5)

CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("exp.default", {"self": X}, np.exp(X)),
    ("log1p.default", {"self": POSITIVE}, np.log1p(POSITIVE)),
    ("sin.default", {"self": INTEGERS}, np.sin(INTEGERS).astype(np.float32)),
    ("add.Tensor", {"self": X, "other": Y, "alpha": 2}, X + 2 * Y),
    ("mul.Tensor", {"self": INTEGERS, "other": 0.5}, (INTEGERS * 0.5).astype(np.float32)),
    ("div.Tensor_mode", {"self": INTEGERS, "other": 3, "rounding_mode": "floor"}, INTEGERS // 3),
    ("div.Tensor", {"self": INTEGERS, "other": 4}, (INTEGERS / 4).astype(np.float32)),
    ("pow.Tensor_Scalar", {"self": X, "exponent": 2}, X**2),
    ("lt.Scalar", {"self": INTEGERS, "other": 0.5}, INTEGERS < 0.5),
    ("where.self", {"condition": X > 0, "self": X, "other": Y}, np.where(X > 0, X, Y)),
    ("masked_fill.Scalar", {"self": X, "mask": X > 0, "value": 7}, np.where(X > 0, np.float32(7), X)),
    ("clamp.default", {"self": X, "min": -0.5, "max": None}, np.maximum(X, np.float32(-0.5))),
    ("leaky_relu.default", {"self": X, "negative_slope": 0.1}, np.where(X > 0, X, np.float32(0.1) * X)),
    ("view.default", {"self": X, "size": (2, -1)}, X.reshape(2, 12)),
    ("permute.default", {"self": X, "dims": (2, 0, 1)}, X.transpose(2, 0, 1)),
    ("slice.Tensor", {"self": X, "dim": 2, "start": 1, "end": 1 << 63, "step": 2}, X[:, :, 1::2]),
    ("select.int", {"self": X, "dim": 1, "index": -1}, X[:, -1]),
    ("cat.default", {"tensors": (X, X[:1]), "dim": 0}, np.concatenate([X, X[:1]])),
    ("roll.default", {"self": X, "shifts": (1,), "dims": (2,)}, np.roll(X, 1, 2)),
    (
        "constant_pad_nd.default",
        {"self": X, "pad": (1, 2), "value": 3},
        np.pad(X, [(0, 0)] * 2 + [(1, 2)], constant_values=3),
    ),
    (
        "slice_scatter.default",
        {"self": X, "src": X[:, :1], "dim": 1, "start": 2, "end": 3, "step": 1},
        np.concatenate([X[:, :2], X[:, :1]], 1),
    ),
    ("arange.start_step", {"start": 1, "end": 8, "step": 3}, np.arange(1, 8, 3)),
    ("full.default", {"size": (2, 2), "fill_value": 1.5}, np.full((2, 2), 1.5, np.float32)),
    ("sum.dim_IntList", {"self": X, "dim": (0, -1), "keepdim": False}, X.sum((0, 2))),
    ("amax.default", {"self": X, "dim": (1,), "keepdim": True}, X.max(1, keepdims=True)),
    ("argmax.default", {"self": X, "dim": 2, "keepdim": False}, X.argmax(2)),
    ("var.correction", {"self": X, "dim": (2,), "correction": 1, "keepdim": False}, X.var(2, ddof=1)),
    ("cumsum.default", {"self": X, "dim": 1}, X.cumsum(1)),
    ("softmax.int", {"self": X, "dim": -1}, EXP / EXP.sum(-1, keepdims=True)),
    (
        "layer_norm.default",
        {"input": X, "normalized_shape": (4,), "eps": 1e-5, **NONE},
        (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5),
    ),
    ("linear.default", {"input": X, "weight": WEIGHT, "bias": BIAS}, X @ WEIGHT.T + BIAS),
    (
        "addmm.default",
        {"self": BIAS, "mat1": X[0], "mat2": WEIGHT.T, "alpha": 2, "beta": 1},
        BIAS + 2 * (X[0] @ WEIGHT.T),
    ),
    ("scaled_dot_product_attention.default", {"query": Q, "key": K, "value": V, "is_causal": True}, SEEN),
    (
        "avg_pool2d.default",
        {"self": IMAGE, "kernel_size": (2,), "stride": (), "padding": (0,)},
        IMAGE.reshape(1, 2, 2, 2, 3, 2).mean((3, 5)),
    ),
    ("adaptive_avg_pool2d.default", {"self": IMAGE, "output_size": (1, 1)}, IMAGE.mean((2, 3), keepdims=True)),
    (
        "conv2d.default",
        {
            "input": IMAGE,
            "weight": np.ones((1, 2, 1, 1), np.float32),
            "bias": None,
            "stride": (1,),
            "padding": (0,),
            "dilation": (1,),
            "groups": 1,
        },
        IMAGE.sum(1, keepdims=True),
    ),
    (
        "upsample_nearest2d.vec",
        {"input": IMAGE, "output_size": None, "scale_factors": (2.0, 2.0)},
        IMAGE.repeat(2, 2).repeat(2, 3),
    ),
    (
        "upsample_bilinear2d.vec",
        {"input": RAMP, "output_size": None, "align_corners": True, "scale_factors": (1.5, 1.5)},
        (np.arange(7, dtype=np.float32) * 4 / 6).reshape(1, 1, 1, 7),
    ),
    ("embedding.default", {"weight": f(3, 4), "indices": PLACES}, None),
    ("index.Tensor", {"self": X, "indices": (None, PLACES[0])}, X[:, PLACES[0]]),
    ("index_copy.default", {"self": X, "dim": 1, "index": np.array([1]), "source": X[:, :1]}, X[:, [0, 0, 2]]),
    (
        "gather.default",
        {"self": X, "dim": 2, "index": np.abs(INTEGERS) % 4},
        np.take_along_axis(X, np.abs(INTEGERS) % 4, 2),
    ),
    ("glu.default", {"self": X, "dim": -1}, X[..., :2] / (1 + np.exp(-X[..., 2:]))),
    ("hardtanh.default", {"self": X, "min_val": 0.0, "max_val": 6.0}, X.clip(0, 6)),
    ("softplus.default", {"self": X, "beta": 1, "threshold": 20}, np.log1p(np.exp(X))),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), CASES, ids=[name for name, _, _ in CASES])
def test_an_operator_computes_what_numpy_computes(name: str, arguments: dict[str, Any], expected: Any) -> None:
    if expected is None:
        expected = arguments["weight"][arguments["indices"]]
    arrays: dict[str, Any] = {}
    read = {key: _referred(value, arrays) for key, value in arguments.items()}
    inputs = [info(key, array_type(array).name, array.shape) for key, array in arrays.items()]
    made = program([op(name, "y", array_type(expected).name, expected.shape, **read)], inputs, ["y"])

    found = results(imported_program(made), **arrays)["y"]

    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


def _referred(value: Any, arrays: dict[str, Any]) -> Any:
    """Return an argument with names in place of arrays."""
    if isinstance(value, np.ndarray):
        name = f"x{len(arrays)}"
        arrays[name] = value
        return f"%{name}"
    return tuple(_referred(part, arrays) for part in value) if isinstance(value, tuple) else value
