"""Every other operator of TFLite models: on reals as NumPy computes it, on codes within a step, and as LiteRT does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert import litert
from tflite_models import Tensor, holds, imported, model, of, op, run, saved

from openinfer import ExecutionError
from openinfer.importers.tflite_files.registry import translators
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(35)
F32, I32, BOOL = np.float32, np.int32, np.bool_
IMAGE = (2, 4, 6, 3)


@dataclass(frozen=True)
class Case:
    """An operator: shapes of its computed inputs, inputs that are stored, and what it computes of NumPy arrays.

    Attributes:
        low, high: bounds of real inputs.
        codes: whether it is tried on integers of 8 bits too.
        litert: whether the codes are those of LiteRT too.
        out: scale and zero point of the result, where TFLite fixes them.
    """

    op: str
    shapes: tuple[tuple[int, ...], ...]
    compute: Callable[..., Any]
    options: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    stored: tuple[Any, ...] = ()
    low: float = -3.0
    high: float = 3.0
    dtype: Any = F32
    codes: bool = True
    first: bool = False
    outs: int = 1
    litert: bool = True
    out: tuple[float, int] | None = None

    def __str__(self) -> str:
        return self.op


def unary(name: str, compute: Any, low: float = -3.0, high: float = 3.0, **other: Any) -> Case:
    return Case(name, (IMAGE,), compute, low=low, high=high, **other)


def ints(*numbers: int) -> Any:
    return np.array(numbers, I32)


def erf(x: Any) -> Any:
    import math

    return np.vectorize(math.erf)(x)


def pooled(x: Any) -> Any:
    return np.sqrt(np.square(x.reshape(2, 2, 2, 3, 2, 3)).mean(axis=(2, 4)))


def space_to_depth(x: Any) -> Any:
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // 2, w // 2, 4 * c)


def depth_to_space(x: Any) -> Any:
    n, h, w, c = x.shape
    return x.reshape(n, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * h, 2 * w, c // 4)


def space_to_batch(x: Any) -> Any:
    x = np.pad(x, ((0, 0), (2, 0), (0, 0), (0, 0)))
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 3, 3, c).transpose(2, 4, 0, 1, 3, 5).reshape(6 * n, h // 2, w // 3, c)


def batch_to_space(x: Any) -> Any:
    n, h, w, c = x.shape
    whole = x.reshape(2, 2, n // 4, h, w, c).transpose(2, 3, 0, 4, 1, 5).reshape(n // 4, 2 * h, 2 * w, c)
    return whole[:, 1:]


def transposed(x: Any, w: Any) -> Any:
    """Return a transposed convolution of stride 2 with valid padding."""
    made = np.zeros((x.shape[0], 2 * x.shape[1] + 1, 2 * x.shape[2] + 1, w.shape[0]))
    for i, j, a, b in np.ndindex(x.shape[1], x.shape[2], 3, 3):
        made[:, 2 * i + a, 2 * j + b] += x[:, i, j] @ w[:, a, b].T
    return made


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def greatest(x: Any, count: Any) -> Any:
    return -np.sort(-x)[:, :count]


def unit_rows(x: Any) -> Any:
    return x / np.sqrt(np.square(x).sum(-1, keepdims=True))


PAIR = (IMAGE, (3,))
WEIGHT = RNG.standard_normal((5, 3, 3, 3)).astype(F32)
REDUCED = {"options": "ReducerOptions", "fields": {"KeepDims": True}, "stored": (ints(1, 2),)}

SIZES = ((8, 12), (3, 4), (5, 11))
COORDINATES: list[dict[str, bool]] = [{}, {"AlignCorners": True}, {"HalfPixelCenters": True}]


def resized(kind: str, size: tuple[int, int], **flags: bool) -> Case:
    is_nearest = kind == "RESIZE_NEAREST_NEIGHBOR"

    def compute(x: Any, _: Any) -> Any:
        for axis, after in zip((1, 2), size, strict=True):
            before, place = x.shape[axis], np.arange(after, dtype=np.float64)
            if flags.get("AlignCorners"):
                at = place * (before - 1) / (after - 1)
            else:
                half = 0.5 if flags.get("HalfPixelCenters") else 0.0
                at = (place + half) * before / after - (0.0 if is_nearest else half)
            if is_nearest:
                places = np.floor(at + 0.5 if flags.get("AlignCorners") else at).astype(int)
                x = np.take(x, np.clip(places, 0, before - 1), axis)
                continue
            low, part = np.floor(at).astype(int), at - np.floor(at)
            ends = [np.take(x, np.clip(places, 0, before - 1), axis) for places in (low, low + 1)]
            shape = [1, 1, 1, 1]
            shape[axis] = after
            x = ends[0] * (1 - part.reshape(shape)) + ends[1] * part.reshape(shape)
        return x

    options = "ResizeNearestNeighborOptions" if is_nearest else "ResizeBilinearOptions"
    return Case(kind, (IMAGE,), compute, options, dict(flags), (ints(*size),))


CASES = [
    unary("ABS", np.abs),
    unary("CEIL", np.ceil, codes=False),
    unary("COS", np.cos, codes=False),
    unary("ELU", lambda x: np.where(x > 0, x, np.expm1(x))),
    unary("EXP", np.exp),
    unary("FLOOR", np.floor, codes=False),
    unary("GELU", lambda x: x / 2 * (1 + erf(x / np.sqrt(2))), options="GeluOptions"),
    unary("HARD_SWISH", lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    unary("LEAKY_RELU", lambda x: np.where(x > 0, x, 0.1 * x), options="LeakyReluOptions", fields={"Alpha": 0.1}),
    unary("LOG", np.log, 0.1),
    unary("LOGISTIC", lambda x: 1 / (1 + np.exp(-x)), out=(1 / 256, -128)),
    unary("NEG", np.negative, litert=False),
    unary("RELU", lambda x: np.maximum(x, 0)),
    unary("RELU6", lambda x: np.clip(x, 0, 6), high=9),
    unary("RELU_N1_TO_1", lambda x: np.clip(x, -1, 1)),
    unary("RELU_0_TO_1", lambda x: np.clip(x, 0, 1)),
    unary("ROUND", np.rint, codes=False),
    unary("RSQRT", lambda x: 1 / np.sqrt(x), 0.5),
    unary("SIGN", np.sign, codes=False),
    unary("SIN", np.sin, codes=False),
    unary("SQRT", np.sqrt, 0.1),
    unary("SQUARE", np.square, codes=False),
    unary("TANH", np.tanh, out=(1 / 128, 0)),
    unary("LOG_SOFTMAX", lambda x: np.log(softmax(x)), out=(16 / 256, 127)),
    unary("L2_NORMALIZATION", unit_rows, options="L2NormOptions", out=(1 / 128, 0)),
    Case("ADD_N", (IMAGE, IMAGE, IMAGE), lambda a, b, c: a + b + c, codes=False),
    Case("DIV", PAIR, np.divide, "DivOptions", low=1.0, codes=False),
    Case("FLOOR_DIV", PAIR, lambda a, b: np.floor(a / b), low=1.0, codes=False),
    Case("FLOOR_MOD", PAIR, np.mod, low=1.0, codes=False),
    Case("MAXIMUM", PAIR, np.maximum),
    Case("MINIMUM", PAIR, np.minimum),
    Case("POW", PAIR, np.power, low=0.5, codes=False),
    Case("PRELU", PAIR, lambda x, s: np.where(x > 0, x, s * x)),
    Case("SQUARED_DIFFERENCE", PAIR, lambda a, b: np.square(a - b)),
    Case("EQUAL", PAIR, np.equal, codes=False),
    Case("NOT_EQUAL", PAIR, np.not_equal, codes=False),
    Case("LESS", PAIR, np.less),
    Case("LESS_EQUAL", PAIR, np.less_equal),
    Case("GREATER", PAIR, np.greater),
    Case("GREATER_EQUAL", PAIR, np.greater_equal),
    Case("LOGICAL_AND", ((6,), (6,)), np.logical_and, dtype=BOOL, codes=False),
    Case("LOGICAL_OR", ((6,), (6,)), np.logical_or, dtype=BOOL, codes=False),
    Case("LOGICAL_NOT", ((6,),), np.logical_not, dtype=BOOL, codes=False),
    Case("BITWISE_XOR", ((6,), (6,)), np.bitwise_xor, dtype=I32, codes=False),
    Case("SUM", (IMAGE,), lambda x, _: x.sum((1, 2), keepdims=True), **REDUCED),
    Case("MEAN", (IMAGE,), lambda x, _: x.mean((1, 2), keepdims=True), **REDUCED),
    Case("REDUCE_MAX", (IMAGE,), lambda x, _: x.max((1, 2), keepdims=True), **REDUCED),
    Case("REDUCE_MIN", (IMAGE,), lambda x, _: x.min((1, 2), keepdims=True), **REDUCED),
    Case("REDUCE_PROD", ((2, 2, 2, 3),), lambda x, _: x.prod((1, 2), keepdims=True), codes=False, **REDUCED),
    Case("REDUCE_ALL", (IMAGE,), lambda x, _: x.all((1, 2), keepdims=True), dtype=BOOL, codes=False, **REDUCED),
    Case("REDUCE_ANY", (IMAGE,), lambda x, _: x.any((1, 2), keepdims=True), dtype=BOOL, codes=False, **REDUCED),
    Case("ARG_MAX", (IMAGE,), lambda x, _: x.argmax(-1).astype(I32), "ArgMaxOptions", {"OutputType": 2}, (ints(-1),)),
    Case("ARG_MIN", (IMAGE,), lambda x, _: x.argmin(-1).astype(I32), "ArgMinOptions", {"OutputType": 2}, (ints(-1),)),
    Case("CUMSUM", (IMAGE,), lambda x, _: x.cumsum(2), "CumsumOptions", {}, (ints(2),), codes=False),
    Case("CONCATENATION", (IMAGE, IMAGE), lambda a, b: np.concatenate([a, b], 2), "ConcatenationOptions", {"Axis": 2}),
    Case("PACK", ((3, 4), (3, 4)), lambda a, b: np.stack([a, b], 1), "PackOptions", {"Axis": 1, "ValuesCount": 2}),
    Case("UNPACK", ((2, 3, 4),), lambda x: x[0], "UnpackOptions", {"Axis": 0, "Num": 2}, outs=2),
    Case("SPLIT", ((4, 6),), lambda _, x: x[:, :3], "SplitOptions", {"NumSplits": 2}, (ints(1),), first=True, outs=2),
    Case(
        "SPLIT_V",
        ((4, 6),),
        lambda x, *_: x[:, :3],
        "SplitVOptions",
        {"NumSplits": 2},
        (ints(3, -1), ints(1)),
        outs=2,
    ),
    Case("SLICE", (IMAGE,), lambda x, *_: x[:1, 1:, :, 2:], "SliceOptions", {}, (ints(0, 1, 0, 2), ints(1, 3, 6, -1))),
    Case(
        "STRIDED_SLICE",
        (IMAGE,),
        lambda x, *_: x[1, 3:0:-2, :, 1:],
        "StridedSliceOptions",
        {"BeginMask": 4, "EndMask": 4, "ShrinkAxisMask": 1},
        (ints(-1, 3, 9, 1), ints(2, 0, 9, 3), ints(1, -2, 1, 1)),
    ),
    Case(
        "STRIDED_SLICE",
        (IMAGE,),
        lambda x, *_: x[1:, ..., None, 2],
        "StridedSliceOptions",
        {"EndMask": 1, "EllipsisMask": 2, "NewAxisMask": 4, "ShrinkAxisMask": 8},
        (ints(1, 0, 0, 2), ints(9, 0, 0, 3), ints(1, 1, 1, 1)),
    ),
    Case(
        "STRIDED_SLICE",
        (IMAGE,),
        lambda x, *_: x[None, :, 1:3, ::2],
        "StridedSliceOptions",
        {"BeginMask": 10, "EndMask": 10, "NewAxisMask": 1},
        (ints(0, 0, 1, 0), ints(0, 0, 3, 0), ints(1, 1, 1, 2)),
    ),
    Case(
        "DYNAMIC_UPDATE_SLICE",
        ((5, 4), (2, 4)),
        lambda x, part, _: np.concatenate([x[:3], part]),
        "",
        {},
        (ints(7, 1),),
    ),
    Case(
        "MIRROR_PAD",
        ((3, 4),),
        lambda x, _: np.pad(x, ((1, 0), (2, 3)), mode="symmetric"),
        "MirrorPadOptions",
        {"Mode": 1},
        (np.array([[1, 0], [2, 3]], I32),),
    ),
    Case(
        "GATHER",
        ((2, 5, 4),),
        lambda x, i: np.take_along_axis(x, i[:, :, None], 1),
        "GatherOptions",
        {"Axis": 1, "BatchDims": 1},
        (ints(3, 0, 0, 4, 4, 1).reshape(2, 3),),
    ),
    *(resized("RESIZE_BILINEAR", size, **flags) for size in ((8, 12), (3, 4), (5, 11)) for flags in COORDINATES),
    *(
        resized("RESIZE_NEAREST_NEIGHBOR", size, **flags)
        for size in ((8, 12), (3, 4), (5, 11))
        for flags in COORDINATES
    ),
    Case("TRANSPOSE", (IMAGE,), lambda x, _: x.transpose(1, 0, 3, 2), "TransposeOptions", {}, (ints(1, 0, 3, 2),)),
    Case("EXPAND_DIMS", ((3, 4),), lambda x, _: x[:, None], "ExpandDimsOptions", {}, (ints(1),)),
    Case("SQUEEZE", ((1, 3, 1, 4),), lambda x: x[:, :, 0], "SqueezeOptions", {"SqueezeDims": [2]}),
    Case("TILE", ((3, 4),), lambda x, _: np.tile(x, (2, 1)), "TileOptions", {}, (ints(2, 1),)),
    Case("BROADCAST_TO", ((3, 1),), lambda x, _: np.broadcast_to(x, (2, 3, 4)), "", {}, (ints(2, 3, 4),)),
    Case("FILL", ((),), lambda _, x: np.full((2, 3), x), "FillOptions", {}, (ints(2, 3),), first=True),
    Case("ZEROS_LIKE", (IMAGE,), np.zeros_like, codes=False),
    Case("REVERSE_V2", ((3, 4),), lambda x, _: x[:, ::-1], "ReverseV2Options", {}, (ints(1),)),
    Case(
        "MIRROR_PAD",
        ((3, 4),),
        lambda x, _: np.pad(x, ((1, 0), (2, 3)), mode="reflect"),
        "MirrorPadOptions",
        {"Mode": 0},
        (np.array([[1, 0], [2, 3]], I32),),
    ),
    Case(
        "PAD", (IMAGE,), lambda x, p: np.pad(x, p), "PadOptions", {}, (np.array([[0, 0], [1, 2], [0, 1], [0, 0]], I32),)
    ),
    Case("SPACE_TO_DEPTH", (IMAGE,), space_to_depth, "SpaceToDepthOptions", {"BlockSize": 2}),
    Case("DEPTH_TO_SPACE", ((2, 3, 4, 8),), depth_to_space, "DepthToSpaceOptions", {"BlockSize": 2}),
    Case(
        "SPACE_TO_BATCH_ND",
        (IMAGE,),
        lambda x, *_: space_to_batch(x),
        "SpaceToBatchNDOptions",
        {},
        (ints(2, 3), np.array([[2, 0], [0, 0]], I32)),
    ),
    Case(
        "BATCH_TO_SPACE_ND",
        ((8, 2, 3, 1),),
        lambda x, *_: batch_to_space(x),
        "BatchToSpaceNDOptions",
        {},
        (ints(2, 2), np.array([[1, 0], [0, 0]], I32)),
    ),
    Case("GATHER", ((5, 4),), lambda x, i: x[:, i], "GatherOptions", {"Axis": 1}, (ints(3, 0, 0),)),
    Case(
        "GATHER_ND",
        ((5, 4),),
        lambda x, i: x[i[:, 0], i[:, 1]],
        "GatherNdOptions",
        {},
        (ints(3, 0, 4, 2).reshape(2, 2),),
    ),
    Case(
        "TOPK_V2", ((3, 7),), lambda x, _: -np.sort(-x)[:, :3], "TopKV2Options", {}, (ints(3)[0],), outs=2, codes=False
    ),
    Case(
        "BATCH_MATMUL", ((2, 3, 4), (2, 5, 4)), lambda a, b: a @ b.swapaxes(1, 2), "BatchMatMulOptions", {"AdjY": True}
    ),
    Case(
        "L2_POOL_2D",
        (IMAGE,),
        pooled,
        "Pool2DOptions",
        {"Padding": 1, "StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 2},
        codes=False,
    ),
    Case(
        "TRANSPOSE_CONV",
        (IMAGE,),
        lambda _, w, x: transposed(x, w),
        "TransposeConvOptions",
        {"Padding": 1, "StrideW": 2, "StrideH": 2},
        (ints(2, 9, 13, 5), WEIGHT),
        first=True,
        codes=False,
    ),
]


def built(case: Case, tmp_path: Path, *, scaled: bool) -> tuple[bytes, dict[str, Any], Any]:
    """Return a model of one operator, inputs for it, and the reals that it computes of them."""
    scale, zero = (case.high - case.low) / 200, int(-case.low / (case.high - case.low) * 200) - 110
    tensors: list[Tensor] = []
    inputs: dict[str, Any] = {}
    reals: list[Any] = []
    for number, shape in enumerate(case.shapes):
        name = f"x{number}"
        if scaled:
            codes = RNG.integers(-100, 81, shape).astype(np.int8)
            tensors.append(of(name, shape, np.int8, scale, zero))
            inputs[name] = codes
            reals.append(np.float64(np.float32(scale)) * (codes.astype(int) - zero))
            continue
        value = RNG.uniform(case.low, case.high, shape)
        inputs[name] = (
            (value > 0) if case.dtype is BOOL else np.asarray(value * (9 if case.dtype is I32 else 1), case.dtype)
        )
        tensors.append(of(name, shape, case.dtype))
        reals.append(inputs[name].astype(np.float64) if case.dtype is F32 else inputs[name])
    stored = [holds(f"s{number}", value) for number, value in enumerate(case.stored)]
    arguments = [*case.stored, *reals] if case.first else [*reals, *case.stored]
    order = [t.name for t in ([*stored, *tensors] if case.first else [*tensors, *stored])]
    expected = np.asarray(case.compute(*arguments))
    kind = expected.dtype if expected.dtype.kind in "ib" else np.dtype(F32)
    if scaled and kind == F32:
        moves = case.op in ON_CODES.split()
        span = float(expected.max() - expected.min()) or 1.0
        y_scale = span / 250
        y_zero = int(np.clip(np.rint(-125 - expected.min() / y_scale), -128, 127))
        y_scale, y_zero = case.out or ((scale, zero) if moves else (y_scale, y_zero))
        outs = [of(f"y{n}", expected.shape, np.int8, y_scale, y_zero) for n in range(case.outs)]
    else:
        outs = [of(f"y{n}", expected.shape, I32 if n and case.op == "TOPK_V2" else kind) for n in range(case.outs)]
    data = model(
        [*tensors, *stored, *outs],
        [op(case.op, " ".join(order), " ".join(t.name for t in outs), case.options, **case.fields)],
        " ".join(inputs),
        "y0",
    )
    return data, inputs, (expected, outs[0])


ON_CODES = """MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN CONCATENATION PACK UNPACK SPLIT SPLIT_V SLICE STRIDED_SLICE
TRANSPOSE EXPAND_DIMS SQUEEZE TILE BROADCAST_TO FILL REVERSE_V2 MIRROR_PAD PAD SPACE_TO_DEPTH DEPTH_TO_SPACE
SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND DYNAMIC_UPDATE_SLICE GATHER GATHER_ND RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR"""
"""Operators whose result has the scale of their input."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operators_compute_what_they_are_named_for(case: Case, tmp_path: Path) -> None:
    data, inputs, (expected, _) = built(case, tmp_path, scaled=False)
    found = run(imported(data, tmp_path), **inputs)[0]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    theirs = litert(saved(data, tmp_path), **inputs)[0]
    np.testing.assert_allclose(found, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("case", [case for case in CASES if case.codes], ids=str)
def test_codes_are_those_of_the_nearest_reals(case: Case, tmp_path: Path) -> None:
    data, inputs, (expected, out) = built(case, tmp_path, scaled=True)
    found = run(imported(data, tmp_path), **inputs)[0]
    theirs = litert(saved(data, tmp_path), **inputs)[0] if case.litert else found
    if out.values.dtype != np.int8:
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(found, theirs)
        return
    wanted = np.clip(np.rint(expected / out.scale) + out.zero, -128, 127)
    assert np.abs(found - wanted).max() <= 1
    assert np.abs(found.astype(int) - theirs.astype(int)).max() <= 1


def test_conversions_between_codes_and_reals(tmp_path: Path) -> None:
    x = RNG.uniform(-3, 3, 40).astype(F32)
    tensors = [of("x", [40]), of("q", [40], np.int8, 0.05, 3), of("r", [40], np.int8, 0.031, -9), of("y", [40])]
    operators = [
        op("QUANTIZE", "x", "q", "QuantizeOptions"),
        op("QUANTIZE", "q", "r", "QuantizeOptions"),
        op("DEQUANTIZE", "r", "y", "DequantizeOptions"),
    ]
    data = model(tensors, operators, "x", "y")
    first = np.clip(np.rint(x / F32(0.05)) + 3, -128, 127)
    # XNNPACK: the ratio of scales has 8 bits of fraction.
    second = np.clip(((first.astype(int) - 3) * round(256 * 0.05 / 0.031) - 9 * 256 + 128) >> 8, -128, 127)
    found = run(imported(data, tmp_path), x=x)[0]
    np.testing.assert_array_equal(found, (second.astype(F32) + 9) * F32(0.031))
    np.testing.assert_array_equal(found, litert(saved(data, tmp_path), x=x)[0])


def test_weights_of_16_bits_are_dequantised_at_import(tmp_path: Path) -> None:
    w = RNG.standard_normal((3, 4)).astype(np.float16)
    tensors = [of("x", [2, 4]), holds("w16", w), of("w", [3, 4]), of("y", [2, 3])]
    operators = [op("DEQUANTIZE", "w16", "w"), op("FULLY_CONNECTED", "x w -", "y", "FullyConnectedOptions")]
    program = imported(model(tensors, operators, "x", "y"), tmp_path)
    x = RNG.standard_normal((2, 4)).astype(F32)
    assert "f16" not in program.text
    np.testing.assert_allclose(run(program, x=x)[0], x @ w.astype(F32).T, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "to"), [(F32, I32), (I32, F32), (F32, BOOL), (I32, np.int8), (I32, np.int64)])
def test_casts(dtype: Any, to: Any, tmp_path: Path) -> None:
    x = (RNG.uniform(-300, 300, 40) * (RNG.random(40) > 0.2)).astype(dtype)
    data = model([of("x", [40], dtype), of("y", [40], to)], [op("CAST", "x", "y", "CastOptions")], "x", "y")
    found = run(imported(data, tmp_path), x=x)[0]
    np.testing.assert_array_equal(found, x.astype(to))
    np.testing.assert_array_equal(found, litert(saved(data, tmp_path), x=x)[0])


def test_choices_and_places_that_are_data(tmp_path: Path) -> None:
    tensors = [
        of("c", [3], BOOL),
        of("a", [3, 4]),
        of("b", [3, 4]),
        of("i", [2], I32),
        holds("depth", ints(4)[0]),
        holds("on", F32(2)),
        holds("off", F32(-1)),
        *(of(name, [3, 4]) for name in ("s", "t")),
        of("c2", [3, 1], BOOL),
        of("h", [2, 4]),
        of("e", [2, 4]),
    ]
    operators = [
        op("SELECT", "c a b", "s", "SelectOptions"),
        op("SELECT_V2", "c2 a b", "t", "SelectV2Options"),
        op("ONE_HOT", "i depth on off", "h", "OneHotOptions", Axis=-1),
        op("EMBEDDING_LOOKUP", "i a", "e"),
    ]
    data = model(tensors, operators, "c a b i c2", "s t h e")
    inputs = {
        "c": np.array([True, False, True]),
        "a": RNG.standard_normal((3, 4)).astype(F32),
        "b": RNG.standard_normal((3, 4)).astype(F32),
        "i": ints(2, 0),
        "c2": np.array([[False], [True], [True]]),
    }
    found = run(imported(data, tmp_path), **inputs)
    a, b = inputs["a"], inputs["b"]
    hot = np.where(np.arange(4) == inputs["i"][:, None], 2, -1)
    expected = [np.where(inputs["c"][:, None], a, b), np.where(inputs["c2"], a, b), hot, a[inputs["i"]]]
    theirs = litert(saved(data, tmp_path), **inputs)
    for ours, wanted, other in zip(found, expected, theirs, strict=True):
        np.testing.assert_array_equal(ours, wanted)
        np.testing.assert_array_equal(ours, other)


def test_a_margin_may_hold_any_number(tmp_path: Path) -> None:
    tensors = [of("x", [2, 3]), holds("p", ints(1, 0, 0, 2).reshape(2, 2)), holds("v", F32(7)), of("y", [3, 5])]
    data = model(tensors, [op("PADV2", "x p v", "y", "PadV2Options")], "x", "y")
    x = RNG.standard_normal((2, 3)).astype(F32)
    found = run(imported(data, tmp_path), x=x)[0]
    np.testing.assert_array_equal(found, np.pad(x, ((1, 0), (0, 2)), constant_values=7))
    np.testing.assert_array_equal(found, litert(saved(data, tmp_path), x=x)[0])


def test_shapes_that_depend_on_sizes_are_computed_at_import(tmp_path: Path) -> None:
    tensors = [
        of("x", [1, 2, 3], signature=[-1, -1, 3]),
        of("shape", [3], I32),
        *(holds(name, ints(number)) for name, number in (("0", 0), ("1", 1), ("2", 2))),
        *(of(name, [], I32) for name in "ab"),
        of("n", [], I32),
        holds("three", ints(3)[0]),
        of("to", [2], I32),
        of("y", [2, 3], signature=[-1, 3]),
    ]
    operators = [
        op("SHAPE", "x", "shape", "ShapeOptions", OutType=2),
        op("STRIDED_SLICE", "shape 0 1 1", "a", "StridedSliceOptions", ShrinkAxisMask=1),
        op("STRIDED_SLICE", "shape 1 2 1", "b", "StridedSliceOptions", ShrinkAxisMask=1),
        op("MUL", "a b", "n", "MulOptions"),
        op("PACK", "n three", "to", "PackOptions", ValuesCount=2),
        op("RESHAPE", "x to", "y"),
    ]
    program = imported(model(tensors, operators, "x", "y"), tmp_path)
    assert "op reshape(x, shape=[batch*x_1, 3]) >> y;" in program.text
    x = RNG.standard_normal((4, 5, 3)).astype(F32)
    np.testing.assert_array_equal(run(program, x=x)[0], x.reshape(20, 3))


def test_ends_of_slices_may_be_distances_from_their_starts(tmp_path: Path) -> None:
    stored = [holds("s", ints(1, -3)), holds("e", ints(1, 2)), holds("m", ints(1, 1))]
    tensors = [of("x", [3, 4]), *stored, of("y", [1, 2])]
    data = model(tensors, [op("STRIDED_SLICE", "x s e m", "y", "StridedSliceOptions", Offset=True)], "x", "y")
    x = RNG.standard_normal((3, 4)).astype(F32)
    np.testing.assert_array_equal(run(imported(data, tmp_path), x=x)[0], x[1:2, 1:3])


@pytest.mark.parametrize(
    ("start", "length", "step", "mask", "wanted"),
    [
        (-1, 1, 1, 0, slice(3, 4)),
        (-3, 3, 1, 0, slice(1, 4)),
        (-9, 6, 1, 0, slice(0, 1)),
        (-9, 2, 1, 0, slice(0, 0)),
        (2, 3, 1, 1, slice(0, 3)),
        (-1, -3, -1, 0, slice(3, 0, -1)),
        (1, -2, -1, 1, slice(3, 1, -1)),
    ],
)
def test_distances_count_from_starts_within_a_dim(
    start: int, length: int, step: int, mask: int, wanted: slice, tmp_path: Path
) -> None:
    stored = [holds("s", ints(start)), holds("e", ints(length)), holds("m", ints(step))]
    x = RNG.standard_normal(4).astype(F32)
    tensors = [of("x", [4]), *stored, of("y", x[wanted].shape)]
    layer = op("STRIDED_SLICE", "x s e m", "y", "StridedSliceOptions", Offset=True, BeginMask=mask)
    data = model(tensors, [layer], "x", "y")
    np.testing.assert_array_equal(run(imported(data, tmp_path), x=x)[0], x[wanted])
    np.testing.assert_array_equal(litert(saved(data, tmp_path), x=x)[0], x[wanted])


@pytest.mark.parametrize("index", [4, -5])
def test_an_index_beyond_a_batch_is_an_error(index: int, tmp_path: Path) -> None:
    tensors = [of("x", [3, 4]), of("i", [3, 1], I32), of("y", [3, 1])]
    data = model(tensors, [op("GATHER", "x i", "y", "GatherOptions", Axis=1, BatchDims=1)], "x i", "y")
    with pytest.raises(ExecutionError) as caught:
        run(imported(data, tmp_path), x=np.zeros((3, 4), F32), i=np.array([[0], [index], [0]], I32))
    assert caught.value.code == "out-of-range"


def test_updates_of_one_place_are_added(tmp_path: Path) -> None:
    stored = [holds("i", ints(3, 0, 3).reshape(3, 1)), holds("s", ints(5, 4))]
    tensors = [*stored, of("x", [3, 4]), of("y", [5, 4])]
    data = model(tensors, [op("SCATTER_ND", "i x s", "y", "ScatterNdOptions")], "x", "y")
    x = RNG.standard_normal((3, 4)).astype(F32)
    expected = np.zeros((5, 4), F32)
    np.add.at(expected, [3, 0, 3], x)
    found = run(imported(data, tmp_path), x=x)[0]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, litert(saved(data, tmp_path), x=x)[0])


def test_shapes_broadcast_to_a_shape(tmp_path: Path) -> None:
    stored = [holds("a", ints(4, 1, 3)), holds("b", ints(2, 1))]
    tensors = [of("x", [2, 3]), *stored, of("s", [3], I32), of("y", [4, 2, 3])]
    operators = [op("BROADCAST_ARGS", "a b", "s"), op("BROADCAST_TO", "x s", "y")]
    data = model(tensors, operators, "x", "y")
    x = RNG.standard_normal((2, 3)).astype(F32)
    found = run(imported(data, tmp_path), x=x)[0]
    np.testing.assert_array_equal(found, np.broadcast_to(x, (4, 2, 3)))
    np.testing.assert_array_equal(found, litert(saved(data, tmp_path), x=x)[0])


def test_the_rank_is_a_number(tmp_path: Path) -> None:
    data = model([of("x", IMAGE), of("y", [], I32)], [op("RANK", "x", "y", "RankOptions")], "x", "y")
    assert run(imported(data, tmp_path), x=np.zeros(IMAGE, F32))[0] == 4


def test_every_translator_is_tried() -> None:
    here = {case.op for case in CASES}
    folder = Path(__file__).parent
    texts = "".join(path.read_text(encoding="utf-8") for path in folder.glob("test_tflite_*.py"))
    assert not [name for name in translators() if name not in here and f'"{name}"' not in texts]
