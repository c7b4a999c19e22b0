"""Operators on bytes that ONNX Runtime's quantiser writes compute what ONNX Runtime does, without f32 in between."""

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
Case = tuple[Any, dict[str, Any], dict[str, Any], int]
"""Node, inputs, constants, and how many steps a result may be off where rounding meets another formula."""


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def codes(draw: Random, *shape: int, kind: Any = None) -> Any:
    if kind is np.int8:
        return weights_of(*shape)
    limits = np.iinfo(kind or draw.choice((np.uint8, np.int8)))
    return RNG.integers(limits.min, limits.max + 1, shape).astype(limits.dtype)


def weights_of(*shape: int) -> Any:
    """Return weights of two products with bytes that have 16 bits.

    On x86 processors without VNNI ONNX Runtime adds such pairs in 16 bits, where larger sums saturate.
    """
    return RNG.integers(-64, 65, shape).astype(np.int8)


def grids(draw: Random, kind: Any, *names: str) -> dict[str, Any]:
    """Return scales and zero points; names in pairs."""
    numbers: dict[str, Any] = {}
    for scale, zero in zip(names[::2], names[1::2], strict=True):
        numbers |= {scale: np.float32(draw.uniform(0.01, 0.06)), zero: kind(draw.randint(0, 100))}
    return numbers


def unary(draw: Random) -> Case:
    op = draw.choice(("QLinearLeakyRelu", "QLinearSigmoid"))
    x = codes(draw, 3, draw.randint(1, 9))
    constants = grids(draw, x.dtype.type, "s", "z", "t", "w") | ({"t": np.float32(1 / 256)} if "Sig" in op else {})
    return node(op, "x s z t w", "y", **({"alpha": 0.3} if "Leaky" in op else {})), {"x": x}, constants, 1


def binary(draw: Random) -> Case:
    op, columns = draw.choice(("QLinearAdd", "QLinearMul")), draw.randint(1, 9)
    x = codes(draw, 3, columns)
    b = codes(draw, *draw.choice(((columns,), (3, columns), (3, 1))), kind=x.dtype.type)
    constants = grids(draw, x.dtype.type, "s", "z", "t", "w", "c", "v")
    return node(op, "x s z b t w c v", "y"), {"x": x, "b": b}, constants, int(op == "QLinearAdd")


def concat(draw: Random) -> Case:
    x = codes(draw, 3, draw.randint(1, 5))
    b = codes(draw, 3, 4, kind=x.dtype.type)
    constants = grids(draw, x.dtype.type, "s", "z", "t", "w")
    # The grid of the first part is that of the result.
    return node("QLinearConcat", "s z x s z b t w", "y", axis=draw.choice((1, -1))), {"x": x, "b": b}, constants, 1


def where(draw: Random) -> Case:
    x = codes(draw, 3, 5)
    inputs = {"m": RNG.integers(0, 2, (3, 5)).astype(bool), "x": x, "b": codes(draw, 3, 5, kind=x.dtype.type)}
    constants = grids(draw, x.dtype.type, "s", "z", "t", "w", "c", "v")
    return node("QLinearWhere", "m x s z b t w c v", "y"), inputs, constants, 1


def global_pool(draw: Random) -> Case:
    x = codes(draw, *(draw.randint(1, 6) for _ in range(4)))
    made = node("QLinearGlobalAveragePool", "x s z t w", "y", channels_last=draw.randint(0, 1))
    return made, {"x": x}, grids(draw, x.dtype.type, "s", "z", "t", "w"), 1


def pool(draw: Random) -> Case:
    x = codes(draw, 2, 6, 5, 4)
    attributes: dict[str, Any] = draw.choice(
        (
            {},
            {"pads": [1, 0, 1, 1]},
            {"pads": [1] * 4, "count_include_pad": 1, "strides": [2, 2]},
            {"auto_pad": "SAME_UPPER"},
            {"channels_last": 1, "pads": [1] * 4},
        )
    )
    made = node("QLinearAveragePool", "x s z t w", "y", kernel_shape=[3, 2], **attributes)
    return made, {"x": x}, grids(draw, x.dtype.type, "s", "z", "t", "w"), 1


def softmax(draw: Random) -> Case:
    x, opset = codes(draw, 3, 5, 4), draw.choice((12, 13))
    constants = grids(draw, x.dtype.type, "s", "z") | {"t": np.float32(1 / 256), "w": x.dtype.type(0)}
    axis = draw.choice((-1, 1, 2) if opset == 12 else (-1, 2))
    return node("QLinearSoftmax", "x s z t w", "y", axis=axis, opset=opset), {"x": x}, constants, 1


def gemm(draw: Random) -> Case:
    x, columns, is_transposed = codes(draw, 3, 5), draw.randint(1, 6), draw.randint(0, 1)
    w = codes(draw, *((columns, 5) if is_transposed else (5, columns)), kind=np.int8)
    several = draw.choice(((), (columns,)))
    constants = grids(draw, x.dtype.type, "s", "z", "p", "v") | {"b": w, "c": RNG.integers(-99, 99, columns, np.int32)}
    constants |= {"t": np.full(several, 0.02, np.float32), "w": np.full(several, 2, np.int8)}
    made = node("QGemm", f"x s z b t w c{draw.choice(('', ' p v'))}", "y", transB=is_transposed, alpha=0.5)
    return made, {"x": x}, constants, 1


def to_float(draw: Random) -> Case:
    x, columns = codes(draw, 2, 3, 5), draw.randint(1, 6)
    constants = grids(draw, x.dtype.type, "s", "z") | {"b": codes(draw, 5, columns, kind=np.int8), "v": rand(columns)}
    constants |= {"t": np.full(columns, 0.02, np.float32), "w": np.full(columns, 2, np.int8)}
    return (
        node("MatMulIntegerToFloat", draw.choice(("x b s t z w v", "x b s t z", "x b s t")), "y"),
        {"x": x},
        constants,
        0,
    )


def dynamic(draw: Random) -> Case:
    columns = draw.randint(1, 6)
    constants = {
        "b": codes(draw, 5, columns, kind=np.int8),
        "s": np.full(columns, 0.02, np.float32),
        "v": rand(columns),
    }
    constants["z"] = np.full(columns, 3, np.int8)
    return (
        node("DynamicQuantizeMatMul", draw.choice(("x b s z v", "x b s - v", "x b s")), "y"),
        {"x": rand(2, 3, 5)},
        constants,
        0,
    )


def lstm(draw: Random) -> Case:
    steps, hidden, kind = draw.choice((1, 4)), 3, draw.choice((np.int8, np.uint8))
    direction = draw.choice(("forward", "reverse", "bidirectional"))
    directions, columns = 1 + (direction == "bidirectional"), draw.choice(((), (4 * hidden,)))
    constants = {
        "w": codes(draw, directions, 5, 4 * hidden, kind=kind),
        "r": codes(draw, directions, hidden, 4 * hidden, kind=kind),
        "b": rand(directions, 8 * hidden),
        "s": np.full((directions, *columns), 0.01, np.float32),
        "z": np.full((directions, *columns), 0 if kind is np.int8 else 128, kind),
        "h": rand(directions, 1, hidden),
        "c": rand(directions, 1, hidden),
    }
    names = draw.choice(("x w r b - h c - s z s z", "x w r - - - - - s z s z"))
    made = node("DynamicQuantizeLSTM", names, draw.choice(("y", "y p q")), direction=direction, hidden_size=hidden)
    return made, {"x": rand(steps, 1, 5)}, constants, 0


def nbits(draw: Random) -> Case:
    bits, size, rows, length = (
        draw.choice((4, 8)),
        draw.choice((16, 32, 64, 256)),
        draw.randint(1, 6),
        draw.randint(1, 99),
    )
    blocks = -(-length // size)
    constants = {
        "w": codes(draw, rows, blocks, size * bits // 8, kind=np.uint8),
        "s": rand(rows * blocks),
        "z": codes(draw, rows * -(-blocks * bits // 8), kind=np.uint8),
        "b": rand(rows),
    }
    names = draw.choice(("x w s", "x w s z", "x w s z - b", "x w s - - b"))
    made = node("MatMulNBits", names, "y", K=length, N=rows, bits=bits, block_size=size)
    return made, {"x": rand(2, 3, length)}, constants, 0


def signal(draw: Random) -> Case:
    """Return convolutions over one dim: those of ONNX, that the quantiser writes for audio models."""
    x, groups = codes(draw, 1, 4, draw.randint(5, 12), kind=np.uint8), draw.choice((1, 2))
    constants = grids(draw, np.uint8, "s", "z", "p", "v") | {"k": codes(draw, 6, 4 // groups, 3, kind=np.int8)}
    constants |= {"t": np.float32(0.02), "w": np.int8(0)}
    attributes = {"domain": "", "group": groups, "pads": [1, draw.randint(0, 2)], "strides": [2]}
    op, names = draw.choice((("ConvInteger", "x k z"), ("QLinearConv", "x s z k t w p v")))
    return node(op, names, "y", **attributes), {"x": x}, constants, 1


CASES: dict[str, Callable[[Random], Case]] = {
    case.__name__: case
    for case in (
        *(unary, binary, concat, where, global_pool, pool, softmax, gemm, to_float, dynamic, lstm, nbits, signal),
    )
}


@pytest.mark.rule("operators.quantisation.3")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", CASES)
def test_a_quantised_operator_computes_what_onnx_runtime_does(name: str, seed: int, tmp_path: Path) -> None:
    made, inputs, constants, steps = CASES[name](Random(f"{name} {seed}"))
    used = {key: value for key, value in constants.items() if key in made.input}
    agrees(model([made], inputs, ["y"], used), inputs, tmp_path, steps=steps, rtol=5e-4)


@pytest.mark.parametrize("kind", [np.int16, np.uint16, np.int8])
def test_the_quantiser_writes_codes_of_16_bits_by_operators_of_its_own(kind: Any, tmp_path: Path) -> None:
    limits = np.iinfo(kind)
    constants = {
        "s": np.float32(0.003),
        "z": kind(3),
        "t": np.full(3, 0.01, np.float32),
        "v": np.arange(3).astype(kind),
    }
    constants["w"] = RNG.integers(limits.min, limits.max, (4, 3)).astype(kind)
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w t v", "f", axis=1),
        node("MatMul", "d f", "y", domain=""),
    ]
    x = rand(2, 4)
    agrees(model(nodes, {"x": x}, ["q", "y"], constants), {"x": x}, tmp_path)


def test_functions_of_a_byte_are_tables_of_bytes(tmp_path: Path) -> None:
    constants = {"s": np.float32(0.03), "z": np.uint8(7), "t": np.float32(0.004), "w": np.uint8(0)}
    x = np.arange(256, dtype=np.uint8)
    imported = load(saved(model([node("QLinearSigmoid", "x s z t w", "y")], {"x": x}, ["y"], constants), tmp_path))
    assert [line for line in imported.text.splitlines() if " op " in line] == ["  op gather(table, x) >> y;"]
    assert imported.model.tensors["table"].dtype.name == "u8"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (node("MatMulNBits", "x w s - g", "y", K=4, N=2, bits=4, block_size=16), "the input g_idx"),
        (node("MatMulNBits", "x w s", "y", K=4, N=2, bits=2, block_size=16), "bits=2 in blocks of 16; expected 4 or 8"),
        (node("MatMulNBits", "x w s", "y", K=4, N=2, block_size=512), "bits=4 in blocks of 512"),
        (node("QLinearAveragePool", "b s z s z", "y", kernel_shape=[1, 1], ceil_mode=1), "ceil_mode=1"),
    ],
)
def test_an_error_names_what_is_not_supported(made: Any, words: str, tmp_path: Path) -> None:
    constants = {"w": np.zeros((2, 1, 8), np.uint8), "s": np.ones(2, np.float32), "g": np.zeros(4, np.int32)}
    constants |= {"b": np.zeros((1, 1, 2, 2), np.uint8), "z": np.uint8(0)}
    used = {key: value for key, value in constants.items() if key in made.input}
    with pytest.raises(ModelImportError) as raised:
        load(saved(model([made], {"x": rand(3, 4)}, ["y"], used), tmp_path))
    assert words in str(raised.value)
