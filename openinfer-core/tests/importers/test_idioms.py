"""What exporters write out is recognised as the operator that it means, and computes the same."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import INT64, agrees, info, model, node, saved, weights

from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(3)


def f32(*values: float) -> Any:
    return np.array(values[0] if len(values) == 1 else values, np.float32)


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


HALF = {"half": f32(0.5), "one": f32(1.0)}

GELU = [
    node("Div", "x root", "u"),
    node("Erf", "u", "e"),
    node("Add", "e one", "g"),
    node("Mul", "x g", "p"),
    node("Mul", "p half", "y"),
]

GELU_SCALED_FIRST = [
    node("Mul", "x root_inverse", "u"),
    node("Erf", "u", "e"),
    node("Add", "one e", "g"),
    node("Mul", "x half", "p"),
    node("Mul", "g p", "y"),
]

GELU_TANH = [
    node("Pow", "x three", "cube"),
    node("Mul", "slope cube", "s"),
    node("Add", "x s", "a"),
    node("Mul", "a factor", "u"),
    node("Tanh", "u", "t"),
    node("Add", "t one", "g"),
    node("Mul", "half x", "p"),
    node("Mul", "p g", "y"),
]

LAYER_NORM = [
    node("ReduceMean", "x", "m", axes=[-1]),
    node("Sub", "x m", "c"),
    node("Pow", "c two", "q"),
    node("ReduceMean", "q", "v", axes=[-1]),
    node("Add", "v eps", "w"),
    node("Sqrt", "w", "d"),
    node("Div", "c d", "n"),
    node("Mul", "n scale", "s"),
    node("Add", "s bias", "y"),
]

RMS_NORM = [
    node("Pow", "x two", "q"),
    node("ReduceMean", "q", "v", axes=[-1]),
    node("Add", "v eps", "w"),
    node("Sqrt", "w", "d"),
    node("Reciprocal", "d", "r"),
    node("Mul", "x r", "n"),
    node("Mul", "scale n", "y"),
]

CONSTANTS = {
    **HALF,
    "minus_half": f32(-0.5),
    "root": f32(math.sqrt(2)),
    "root_inverse": f32(math.sqrt(0.5)),
    "two": f32(2.0),
    "three": f32(3.0),
    "slope": f32(0.044715),
    "factor": f32(math.sqrt(2 / math.pi)),
    "eps": f32(1e-5),
    "scale": rand(6),
    "bias": rand(6),
    "weight": rand(6, 4),
    "row": rand(4),
}

CASES = {
    "gelu": (GELU, "op gelu(x) >> y;"),
    "gelu, scaled first": (GELU_SCALED_FIRST, "op gelu(x) >> y;"),
    "gelu by tanh": (GELU_TANH, 'op gelu(x, approximate="tanh") >> y;'),
    "silu": ([node("Sigmoid", "x", "s"), node("Mul", "x s", "y")], "op silu(x) >> y;"),
    "quick gelu": (
        [node("Mul", "x three", "k"), node("Sigmoid", "k", "s"), node("Mul", "x s", "y")],
        "op silu(x, beta=3.0) >> y;",
    ),
    "layer norm": (LAYER_NORM, "op layer_norm(x, scale=scale, bias=bias) >> y;"),
    "rms norm": (RMS_NORM, "op rms_norm(x, scale=scale) >> y;"),
    "rms norm by a power of 1/2": (
        [*RMS_NORM[:3], node("Pow", "w half", "d"), *RMS_NORM[4:]],
        "op rms_norm(x, scale=scale) >> y;",
    ),
    "rms norm by a power of -1/2": (
        [*RMS_NORM[:3], node("Pow", "w minus_half", "r"), *RMS_NORM[5:]],
        "op rms_norm(x, scale=scale) >> y;",
    ),
    "linear": ([node("MatMul", "x weight", "p"), node("Add", "p row", "y")], "op linear(x, weight, bias=row) >> y;"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pattern_becomes_its_operator(name: str, tmp_path: Path) -> None:
    nodes, statement = CASES[name]
    used = {each for n in nodes for each in n.input}
    initial = weights(**{key: value for key, value in CONSTANTS.items() if key in used})
    proto = model(nodes, [info("x", ["N", 5, 6])], [info("y", None)], initial, opset=13)
    imported = load(saved(proto, tmp_path))
    lines = [line.partition("//")[0].strip() for line in imported.text.splitlines()]
    assert [line for line in lines if line.startswith("op ")] == [statement]
    agrees(proto, imported, {"x": rand(2, 5, 6)})


def test_a_value_that_others_read_keeps_its_pattern_written_out(tmp_path: Path) -> None:
    initial = weights(**{key: CONSTANTS[key] for key in ("root", "one", "half")})
    proto = model(GELU, [info("x", [4])], [info("y", None), info("e", None)], initial)
    imported = load(saved(proto, tmp_path))
    assert "op erf(" in imported.text
    agrees(proto, imported, {"x": rand(4)})


def attention(mask: bool) -> Any:
    nodes = [
        node("Transpose", "k", "kt", perm=[0, 1, 3, 2]),
        node("Mul", "q scale", "qs"),
        node("MatMul", "qs kt", "p"),
        node("Add", "p mask", "m"),
        node("Softmax", "m" if mask else "p", "w", axis=-1),
        node("MatMul", "w v", "y"),
    ]
    causal = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
    inputs = [info(name, [2, 3, 5, 4]) for name in "qkv"]
    return model(nodes, inputs, [info("y", None)], weights(scale=f32(0.5), mask=causal))


@pytest.mark.parametrize(("mask", "settings"), [(False, ""), (True, ", causal=true")])
def test_attention_is_recognised_with_its_causal_mask(mask: bool, settings: str, tmp_path: Path) -> None:
    proto = attention(mask)
    imported = load(saved(proto, tmp_path))
    assert f"op sdpa(q, k, v{settings}) >> y;" in imported.text
    agrees(proto, imported, {name: rand(2, 3, 5, 4) for name in "qkv"})


def test_a_mask_of_one_number_hides_nothing(tmp_path: Path) -> None:
    proto = attention(mask=True)
    proto.graph.initializer[1].CopyFrom(weights(mask=np.zeros((1, 1, 1, 1), np.float32))[0])
    imported = load(saved(proto, tmp_path))
    assert "causal" not in imported.text
    agrees(proto, imported, {name: rand(2, 3, 5, 4) for name in "qkv"})


@pytest.mark.parametrize(("constant", "value"), [("factor", 0.7965), ("slope", 0.04478), ("half", 0.5005)])
def test_numbers_that_are_only_near_those_of_a_pattern_stay_written_out(
    constant: str, value: float, tmp_path: Path
) -> None:
    used = {each for n in GELU_TANH for each in n.input}
    numbers = {key: found for key, found in CONSTANTS.items() if key in used} | {constant: f32(value)}
    proto = model(GELU_TANH, [info("x", [3, 6])], [info("y", None)], weights(**numbers))
    imported = load(saved(proto, tmp_path))
    assert "op gelu(" not in imported.text
    agrees(proto, imported, {"x": 3 * rand(3, 6)})


def test_a_power_that_is_not_whole_is_not_a_cube(tmp_path: Path) -> None:
    powers = {key for n in GELU_TANH if n.op_type == "Pow" for key in n.input[1:]}
    assert powers
    used = {each for n in GELU_TANH for each in n.input}
    numbers = {key: found for key, found in CONSTANTS.items() if key in used} | {key: f32(3.7) for key in powers}
    proto = model(GELU_TANH, [info("x", [6])], [info("y", None)], weights(**numbers))
    imported = load(saved(proto, tmp_path))
    assert "op gelu(" not in imported.text
    agrees(proto, imported, {"x": np.abs(rand(6))})


def test_rows_of_a_table_that_the_model_calls_so_are_an_embedding(tmp_path: Path) -> None:
    table = weights(embedding=rand(9, 3))
    proto = model([node("Gather", "embedding ids", "y")], [info("ids", ["N"], INT64)], [info("y", None)], table)
    imported = load(saved(proto, tmp_path))
    assert "op embedding(ids, embedding) >> y;" in imported.text
    agrees(proto, imported, {"ids": np.array([8, 0, 3])})


def test_rows_of_other_tables_may_be_counted_from_the_end(tmp_path: Path) -> None:
    proto = model([node("Gather", "t ids", "y")], [info("ids", ["N"], INT64)], [info("y", None)], weights(t=rand(9, 3)))
    imported = load(saved(proto, tmp_path))
    assert "op gather(t, ids) >> y;" in imported.text
    agrees(proto, imported, {"ids": np.array([8, -1, -9])})


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_a_constant_of_more_dims_keeps_its_pattern_written_out(name: str, tmp_path: Path) -> None:
    """The result has the dims of the constant too, which the operator does not give."""
    nodes = (
        GELU if name == "gelu" else [node("Mul", "x three", "k"), node("Sigmoid", "k", "s"), node("Mul", "x s", "y")]
    )
    used = {each for n in nodes for each in n.input}
    numbers = {key: np.reshape(value, (1, 1, 1)) for key, value in CONSTANTS.items() if key in used}
    proto = model(nodes, [info("x", [4])], [info("y", None)], weights(**numbers))
    imported = load(saved(proto, tmp_path))
    assert f"op {name}(" not in imported.text
    agrees(proto, imported, {"x": rand(4)})


def normed(bias: bool) -> Any:
    nodes = [
        node("Conv", "x w b" if bias else "x w", "c"),
        node("BatchNormalization", "c s o m v", "n", epsilon=1e-3),
        node("Relu", "n", "y"),
    ]
    initial = weights(w=rand(4, 3, 3, 3), b=rand(4), s=rand(4), o=rand(4), m=rand(4), v=np.abs(rand(4)))
    return model(nodes, [info("x", [1, 3, 8, 8])], [info("y", None)], initial)


@pytest.mark.parametrize("bias", [False, True])
def test_batch_norms_are_folded_into_the_weights_before(bias: bool, tmp_path: Path) -> None:
    proto = normed(bias)
    imported = load(saved(proto, tmp_path))
    assert "batch_norm" not in imported.text
    assert imported.report.notes == ("1 batch norm folded into the weights before",)
    agrees(proto, imported, {"x": rand(1, 3, 8, 8)})


def test_batch_norms_stay_on_request(tmp_path: Path) -> None:
    proto = normed(True)
    imported = load(saved(proto, tmp_path), keep_norms=True)
    assert "op batch_norm(" in imported.text
    agrees(proto, imported, {"x": rand(1, 3, 8, 8)})


def test_a_norm_of_a_value_that_others_read_stays(tmp_path: Path) -> None:
    proto = normed(True)
    proto.graph.output.append(info("c", None))
    imported = load(saved(proto, tmp_path))
    assert "op batch_norm(" in imported.text
    agrees(proto, imported, {"x": rand(1, 3, 8, 8)})
