"""Products, activations and norms that ONNX Runtime's optimiser fuses compute what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx_models import saved
from runtime_models import agrees, model, node

from openinfer.errors import ModelImportError
from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(12)
Case = tuple[Any, dict[str, Any], list[str], dict[str, Any]]


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def fused_matmul(draw: Random) -> Case:
    batch, rows, inner, columns = (draw.randint(1, 4) for _ in range(4))
    flags = {name: draw.randint(0, 1) for name in ("transA", "transB", "transBatchA", "transBatchB")}
    a = (batch, inner, rows) if flags["transA"] else (batch, rows, inner)
    b = (batch, columns, inner) if flags["transB"] else (batch, inner, columns)
    a, b = ((s[1], s[0], s[2]) if flags[f"transBatch{n}"] else s for s, n in ((a, "A"), (b, "B")))
    attributes = flags | {"alpha": draw.choice((1.0, 0.3))}
    return node("FusedMatMul", "x w", "y", **attributes), {"x": rand(*a)}, ["y"], {"w": rand(*b)}


def fused_gemm(draw: Random) -> Case:
    rows, inner, columns = (draw.randint(1, 5) for _ in range(3))
    a, b = draw.randint(0, 1), draw.randint(0, 1)
    x, w = rand(*((inner, rows) if a else (rows, inner))), rand(*((columns, inner) if b else (inner, columns)))
    activation: dict[str, Any] = draw.choice(
        ({"activation": "Relu"}, {"activation": "LeakyRelu", "activation_alpha": 0.3}, {"activation": "Tanh"})
    )
    made = node("FusedGemm", "x w b", "y", transA=a, transB=b, alpha=0.4, beta=draw.choice((1.0, 2.0)), **activation)
    return made, {"x": x}, ["y"], {"w": w, "b": rand(columns)}


ACTIVATIONS = {
    "Relu": (),
    "LeakyRelu": (0.1,),
    "Clip": (-0.5, 0.5),
    "HardSigmoid": (0.3, 0.4),
    "Tanh": (),
    "Sigmoid": (),
}


def fused_conv(draw: Random) -> Case:
    name = draw.choice(list(ACTIVATIONS))
    groups, channels = draw.choice((1, 2)), 2 * draw.randint(1, 3)
    attributes: dict[str, Any] = {"activation": name, "group": groups, "pads": [1] * 4}
    if ACTIVATIONS[name]:
        attributes["activation_params"] = ACTIVATIONS[name]
    constants = {"w": rand(channels, 4 // groups, 3, 3), "b": rand(channels), "z": rand(1, channels, 6, 5)}
    names = draw.choice(("x w", "x w b", "x w b z"))
    return node("FusedConv", names, "y", **attributes), {"x": rand(1, 4, 6, 5)}, ["y"], constants


def activation(draw: Random) -> Case:
    op, names = draw.choice(
        (("Gelu", "x"), ("BiasGelu", "x b"), ("FastGelu", "x b"), ("FastGelu", "x"), ("QuickGelu", "x"))
    )
    attributes = {"alpha": draw.choice((1.702, 1.3))} if op == "QuickGelu" else {}
    width = draw.randint(1, 9)
    return node(op, names, "y", **attributes), {"x": rand(draw.randint(1, 4), width)}, ["y"], {"b": rand(width)}


def skip_norm(draw: Random) -> Case:
    batch, length, width = draw.randint(1, 3), draw.randint(1, 4), draw.randint(2, 9)
    shape = draw.choice(((batch, length, width), (1, length, width), (length, width)))
    constants = {"s": rand(*shape), "g": rand(width), "b": rand(width), "c": rand(width)}
    names = draw.choice(("x s g b c", "x s g b", "x s g - c", "x s g"))
    made = node("SkipLayerNormalization", names, "y - - t", epsilon=draw.choice((1e-3, 1e-5)))
    return made, {"x": rand(batch, length, width)}, ["y", "t"], constants


def skip_rms_norm(draw: Random) -> Case:
    shape = (draw.randint(1, 3), draw.randint(1, 4), draw.randint(2, 9))
    constants = {"s": rand(*shape), "g": rand(shape[-1]), "c": rand(shape[-1])}
    made = node("SkipSimplifiedLayerNormalization", draw.choice(("x s g c", "x s g")), "y - - t", epsilon=1e-3)
    return made, {"x": rand(*shape)}, ["y", "t"], constants


def rms_norm(draw: Random) -> Case:
    shape, axis = (2, draw.randint(1, 4), draw.randint(2, 9)), draw.choice((-1, 1, 2))
    made = node("SimplifiedLayerNormalization", "x g", "y v", domain="", epsilon=1e-3, axis=axis)
    return made, {"x": rand(*shape)}, ["y", "v"], {"g": rand(*shape[axis:])}


def embeddings(draw: Random) -> Case:
    batch, length = draw.randint(1, 3), draw.randint(1, 6)
    ids = RNG.integers(0, 9, (batch, length)).astype(np.int32)
    constants = {"w": rand(9, 8), "p": rand(7, 8), "k": rand(2, 8), "g": rand(8), "b": rand(8)}
    names, more = draw.choice(
        (
            ("i s w p k g b m", {"s": ids % 2, "m": (ids > 3).astype(np.int32)}),
            ("i - w p - g b", {}),
            ("i s w p k g b - q", {"s": ids % 2, "q": ids % 7}),
        )
    )
    return node("EmbedLayerNormalization", names, "y n e", epsilon=1e-4), {"i": ids, **more}, ["y", "n", "e"], constants


CASES: dict[str, Callable[[Random], Case]] = {
    case.__name__: case
    for case in (fused_matmul, fused_gemm, fused_conv, activation, skip_norm, skip_rms_norm, rms_norm, embeddings)
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", CASES)
def test_a_fused_operator_computes_what_onnx_runtime_does(name: str, seed: int, tmp_path: Path) -> None:
    made, inputs, outputs, constants = CASES[name](Random(f"{name} {seed}"))
    used = {key: value for key, value in constants.items() if key in made.input}
    agrees(model([made], inputs, outputs, used), inputs, tmp_path)


# Operators that ONNX Runtime runs on GPUs alone, against their parts


def parts_of_group_norm(x: Any, g: Any, b: Any, groups: int) -> Any:
    """Return the group norm of an image whose channels are last, then its SiLU."""
    batch, rows, columns, channels = x.shape
    apart = x.reshape(batch, rows * columns, groups, channels // groups).astype(np.float64)
    mean, variance = (f(apart, axis=(1, 3), keepdims=True) for f in (np.mean, np.var))
    normed = ((apart - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * g + b
    return (normed / (1 + np.exp(-normed))).astype(np.float32)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_group_norms_by_their_definition(channels_last: int, tmp_path: Path) -> None:
    x, skip, constants = rand(2, 3, 5, 8), rand(2, 8), {"g": rand(8), "b": rand(8), "c": rand(8)}
    total = x + skip[:, None, None] + constants["c"]
    right = [parts_of_group_norm(each, constants["g"], constants["b"], 4) for each in (x, total)]
    attributes = {"groups": 4, "activation": 1, "channels_last": channels_last}
    nodes = [node("GroupNorm", "x g b", "y", **attributes), node("SkipGroupNorm", "x g b s c", "z t", **attributes)]
    results = [right[0], right[1], total]
    if not channels_last:
        x, *results = (np.ascontiguousarray(each.transpose(0, 3, 1, 2)) for each in (x, *results))
        constants["c"] = constants["c"].reshape(8, 1, 1)
    agrees(model(nodes, {"x": x, "s": skip}, ["y", "z", "t"], constants), {"x": x, "s": skip}, tmp_path, right=results)


def test_sums_with_biases_by_their_definition(tmp_path: Path) -> None:
    from math import erf

    x, skip, b = rand(2, 3, 8), rand(2, 3, 8), rand(8)
    left, right = np.split(x + b, 2, axis=-1)
    gelu = right * 0.5 * (1 + np.vectorize(erf)(right / np.sqrt(2)))
    nodes = [node("BiasAdd", "x b s", "y"), node("BiasSplitGelu", "x b", "z")]
    results = [x + b + skip, (left * gelu).astype(np.float32)]
    agrees(model(nodes, {"x": x}, ["y", "z"], {"b": b, "s": skip}), {"x": x}, tmp_path, right=results)


def test_a_convolution_whose_channels_are_last(tmp_path: Path) -> None:
    x, w, b = rand(1, 6, 5, 4), rand(6, 2, 3, 3), rand(6)
    attributes = {"group": 2, "pads": [1, 0, 1, 1]}
    plain = model(
        [node("FusedConv", "x w b", "y", **attributes)], {"x": x.transpose(0, 3, 1, 2)}, ["y"], {"w": w, "b": b}
    )
    from runtime_models import of_runtime

    (right,) = of_runtime(plain, {"x": np.ascontiguousarray(x.transpose(0, 3, 1, 2))})
    proto = model(
        [node("NhwcConv", "x w b", "y", **attributes)], {"x": x}, ["y"], {"w": w.transpose(0, 2, 3, 1), "b": b}
    )
    agrees(proto, {"x": x}, tmp_path, right=[right.transpose(0, 2, 3, 1)])


# Errors


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            node("Gelu", "x", "y", approximate="tanh"),
            "the attribute approximate=tanh is not supported, these are: none",
        ),
        (node("FusedConv", "x w", "y", activation="Softmax"), "activation=Softmax with 0 parameters"),
        (node("SkipLayerNormalization", "x x w", "y m"), "the output mean"),
        (node("Sampling", "x", "y"), "export the model without ONNX Runtime's operator Sampling"),
    ],
)
def test_an_error_names_what_is_not_supported(made: Any, words: str, tmp_path: Path) -> None:
    proto = model([made], {"x": rand(1, 4, 6, 6)}, ["y"], {"w": rand(4, 4, 3, 3)})
    with pytest.raises(ModelImportError) as raised:
        load(saved(proto, tmp_path))
    assert words in str(raised.value)
