"""Corners in which ONNX's operators and those of the catalogue differ: imports compute what ONNX says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runtime_models
from onnx_models import INT64, agrees, expected, info, model, node, onnx, run, saved, weights

from openinfer import OpenInferError
from openinfer.importers import load, verify
from openinfer.importers.verification import step_inputs
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")


def f32(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


def test_the_sign_of_nan_is_nan(tmp_path: Path) -> None:
    proto = model([node("Sign", "x", "y")], [info("x", [4])], [info("y", None)])
    agrees(proto, load(saved(proto, tmp_path)), {"x": f32(-3, 0, np.nan, np.inf)})


@pytest.mark.parametrize(
    ("op", "numbers", "exact"),
    [
        ("Sinh", (1e-8, -1e-6, 1e-4, 89.3), np.sinh),
        ("Cosh", (1e-4, -2.0, 89.3), np.cosh),
        ("Asinh", (1e-8, -1e-6, 1e-4, 1e20, -1e38), np.arcsinh),
        ("Acosh", (1.0, 1.0001, 1e20), np.arccosh),
        ("Atanh", (1e-8, -1e-6, 1e-4, 0.999), np.arctanh),
    ],
)
def test_hyperbolic_functions_neither_cancel_nor_overflow(
    op: str, numbers: tuple[float, ...], exact: Any, tmp_path: Path
) -> None:
    x = f32(*numbers)
    proto = model([node(op, "x", "y")], [info("x", x.shape)], [info("y", None)])
    found = run(load(saved(proto, tmp_path)), {"x": x})[0]
    np.testing.assert_allclose(found, exact(x.astype(np.float64)), rtol=4 * 2.0**-23)


def test_the_last_of_uneven_parts_is_what_is_left(tmp_path: Path) -> None:
    proto = model(
        [node("Split", "x", "a b c", num_outputs=3)], [info("x", [7])], [info(name, None) for name in "abc"], opset=18
    )
    imported = load(saved(proto, tmp_path))
    assert [part.shape for part in run(imported, {"x": np.arange(7, dtype=np.float32)})] == [(3,), (3,), (1,)]


def test_what_expands_to_a_size_keeps_its_number(tmp_path: Path) -> None:
    nodes = [node("Shape", "z", "n"), node("Expand", "x n", "y")]
    proto = model(nodes, [info("x", [3]), info("z", ["n"])], [info("y", None)])
    imported = load(saved(proto, tmp_path))
    for length in (1, 3):
        agrees(proto, imported, {"x": f32(1, 2, 3), "z": np.zeros(length, np.float32)})


@pytest.mark.parametrize("divisor", [2, -2, -3])
def test_quotients_of_sizes_are_rounded_toward_zero(divisor: int, tmp_path: Path) -> None:
    nodes = [node("Shape", "x", "n"), node("Div", "n d", "q"), node("Abs", "q", "y")]
    proto = model(nodes, [info("x", ["n"])], [info("y", None, INT64)], weights(d=np.array([divisor])))
    imported = load(saved(proto, tmp_path))
    for length in (4, 7):
        x = np.zeros(length, np.float32)
        assert np.asarray(run(imported, {"x": x})[0]).tolist() == expected(proto, {"x": x})[0].tolist()


def test_bounds_and_padding_of_the_running_program(tmp_path: Path) -> None:
    nodes = [node("Clip", "x low high", "c"), node("Pad", "c pads low", "y")]
    inputs = [info("x", ["n", 3]), info("low", []), info("high", [])]
    proto = model(nodes, inputs, [info("y", None)], weights(pads=np.array([1, 0, 0, 2])))
    imported = load(saved(proto, tmp_path))
    x = np.array([[-2, 0.5, 9], [np.nan, 1, -1]], np.float32)
    for low, high in ((-1, 2), (3, 2)):
        agrees(proto, imported, {"x": x, "low": np.float32(low), "high": np.float32(high)})


def test_verify_gives_each_size_another_extent(tmp_path: Path) -> None:
    """Where all were equal, a program that mixes up two of them would agree."""
    nodes = [node("Transpose", "x", "y", perm=[1, 0])]
    path = saved(model(nodes, [info("x", ["a", "b"])], [info("y", None)]), tmp_path)
    imported = load(path)

    for step in range(2):
        rows, columns = step_inputs(imported, {}, step, 0)["x"].shape
        assert rows != columns
    assert verify(path, imported).agrees


def test_rows_of_a_table_up_to_a_size_take_the_size(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape one two", "length"),
        node("Slice", "places zero length zero one", "rows"),
        node("Add", "x rows", "y"),
    ]
    table = np.arange(768, dtype=np.float32).reshape(256, 3)
    numbers = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "places": table}
    proto = model(nodes, [info("x", ["batch", "length", 3])], [info("y", None)], weights(**numbers))
    imported = load(saved(proto, tmp_path))
    assert "op narrow(places, axis=0, start=0, length=length)" in imported.text
    for length in (1, 7, 256):
        agrees(proto, imported, {"x": np.ones((2, length, 3), np.float32)})
    with pytest.raises(OpenInferError, match="narrow"):
        run(imported, {"x": np.ones((2, 257, 3), np.float32)})


IMAGE = np.array([-2, 1, 0.5, -1, 3, -0.25, 4, -3, 2, 1, -1, 0.75], np.float32)
CONSTANTS = {
    "log-softmax before 13": (node("LogSoftmax", "x", "y"), 12, {"x": IMAGE.reshape(2, 3, 2)}),
    "a maximum of one axis": (node("GlobalMaxPool", "x", "y"), 17, {"x": IMAGE.reshape(1, 4, 3)}),
    "a norm of magnitudes": (node("LpNormalization", "x", "y", p=1), 17, {"x": IMAGE.reshape(3, 4)}),
    "a batch norm of rows": (
        node("BatchNormalization", "x s b m v", "y"),
        14,
        {"x": IMAGE.reshape(6, 2), "s": f32(2, 1), "b": f32(1, 0), "m": f32(0.5, -1), "v": f32(4, 1)},
    ),
    "a sum over channels": (node("LRN", "x", "y", size=3, alpha=1.5), 17, {"x": IMAGE.reshape(1, 4, 3, 1)}),
    "infinities as integers": (node("QuantizeLinear", "x s", "y"), 17, {"x": f32(np.inf, -np.inf, 3), "s": f32(1)[0]}),
    "infinities that are chosen": (
        node("OneHot", "x d v", "y"),
        17,
        {"x": np.array([0, 2]), "d": np.array(3), "v": f32(-np.inf, 1)},
    ),
    "numbers that are chosen": (
        node("OneHot", "x d v", "y"),
        17,
        {"x": np.array([0, 2]), "d": np.array(3), "v": np.array([1, 0.0086136], np.float16)},
    ),
    "axes in any order": (node("Unsqueeze", "x", "y", axes=[1, 0]), 10, {"x": IMAGE}),
    "the logarithm of a sum of zeros": (
        node("ReduceLogSumExp", "x", "y", axes=[1]),
        13,
        {"x": f32(-np.inf, -np.inf, 1, 2).reshape(2, 2)},
    ),
    "an error function of f64": (node("Erf", "x", "y"), 13, {"x": np.array([0.1, -0.7, 2.5])}),
    "a function with constants, of f64": (node("Gelu", "x", "y", approximate="tanh"), 20, {"x": np.array([0.1, -0.7])}),
    "a quotient by 6, of f64": (node("HardSwish", "x", "y"), 14, {"x": np.array([0.1, -0.7])}),
    "deviations from 1000": (
        node("MeanVarianceNormalization", "x", "y", axes=[1]),
        13,
        {"x": IMAGE.reshape(2, 6) + 1000},
    ),
    "a mean whose sum overflows": (
        node("ReduceMean", "x", "y"),
        13,
        {"x": np.array([2**31 - 1, 2**31 - 1, 2**31 - 5], np.int32)},
    ),
    "a norm whose squares overflow": (node("ReduceL2", "x", "y"), 13, {"x": np.array([300, -400], np.float16)}),
    "integers that f32 rounds": (node("Shrink", "x", "y", bias=0.5), 9, {"x": np.array([179567219], np.int32)}),
    "a window with NaN": (
        node("MaxPool", "x", "y", kernel_shape=[1, 3]),
        17,
        {"x": np.where(IMAGE == 4, np.float32(np.nan), IMAGE).reshape(1, 1, 2, 6)},
    ),
}


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_are_what_the_program_computes_of_inputs(case: str, tmp_path: Path) -> None:
    made, opset, arrays = CONSTANTS[case]
    x, others = arrays["x"], weights(**{name: array for name, array in arrays.items() if name != "x"})
    given_x = info("x", x.shape, onnx.helper.np_dtype_to_tensor_dtype(x.dtype))
    result = onnx.helper.make_empty_tensor_value_info("y")
    running = load(saved(model([made], [given_x], [result], others, opset=opset), tmp_path))
    known = load(saved(model([made], [], [result], weights(**arrays), opset=opset), tmp_path))

    (expected_value,), (value,) = run(running, {"x": x}), run(known, {})

    assert (value.shape, value.dtype) == (expected_value.shape, expected_value.dtype)
    np.testing.assert_array_equal(value, expected_value)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_statistics_of_rows_are_f32_whatever_the_rows_are(dtype: Any, tmp_path: Path) -> None:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [node("LayerNormalization", "x s", "y mean deviation")]
    outputs = [info("y", None, kind), info("mean", None), info("deviation", None)]
    proto = model(nodes, [info("x", [2, 4], kind)], outputs, weights(s=np.ones(4, dtype)))
    x = np.array([[2048, 2049, 2050, 2052], [1, 2, 3, 4]], dtype)

    _, mean, deviation = run(load(saved(proto, tmp_path)), {"x": x})

    wide = x.astype(np.float64)
    assert mean.dtype == deviation.dtype == np.float32
    np.testing.assert_allclose(mean, wide.mean(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(deviation, 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5), rtol=1e-5)


def test_no_elements_are_shifted_by_no_bits(tmp_path: Path) -> None:
    empty = np.zeros((0, 3), np.uint8)
    kind = onnx.TensorProto.UINT8
    nodes = [node("BitShift", "x bits", "y", direction="RIGHT")]
    proto = model(nodes, [info("x", [0, 3], kind)], [info("y", None, kind)], weights(bits=empty))

    (value,) = run(load(saved(proto, tmp_path)), {"x": empty})

    assert (value.shape, value.dtype) == ((0, 3), np.uint8)


@pytest.mark.parametrize(
    ("shape", "of_bits"), [((), (1,)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((2, 3), (1, 1)), ((2, 0), (1,))]
)
def test_shifts_broadcast(shape: tuple[int, ...], of_bits: tuple[int, ...], tmp_path: Path) -> None:
    kind = onnx.TensorProto.UINT8
    nodes = [node("BitShift", "x bits", "y", direction="LEFT")]
    bits = np.full(of_bits, 2, np.uint8)
    proto = model(nodes, [info("x", shape, kind)], [info("y", None, kind)], weights(bits=bits))
    x = np.arange(np.prod(shape, dtype=int), dtype=np.uint8).reshape(shape)

    (value,) = run(load(saved(proto, tmp_path)), {"x": x})

    np.testing.assert_array_equal(value, x << bits, strict=True)


@pytest.mark.parametrize("shape", [(2, 3, 0), (0, 3, 4), (2, 3, 4, 0)])
def test_no_elements_are_normalised_to_none(shape: tuple[int, ...], tmp_path: Path) -> None:
    proto = model([node("LRN", "x", "y", size=3)], [info("x", shape)], [info("y", None)])

    (value,) = run(load(saved(proto, tmp_path)), {"x": np.zeros(shape, np.float32)})

    assert value.shape == shape


def test_squares_next_to_large_ones_are_added_up_and_onnxruntime_is_said_to_lose_them(tmp_path: Path) -> None:
    proto = model([node("LRN", "x", "y", size=3, alpha=1.5, bias=0.25)], [info("x", [1, 6])], [info("y", None)])
    x = np.array([[32768, 0.5, 0.25, 0.125, 0.5, 1]], np.float32)
    windows = [x[0, max(0, place - 1) : place + 2].astype(np.float64) for place in range(6)]
    exact = [value / (0.25 + 0.5 * np.sum(window**2)) ** 0.75 for value, window in zip(x[0], windows, strict=True)]

    imported = load(saved(proto, tmp_path))
    (value,) = run(imported, {"x": x})

    np.testing.assert_allclose(value[0], exact, rtol=1e-6)
    (note,) = imported.report.notes
    assert note.startswith("LRN: ONNX Runtime adds and subtracts squares as its window moves along the channels")


def test_columns_that_are_not_finite_stay_where_they_are_scattered_to(tmp_path: Path) -> None:
    nodes = [node("Col2Im", "x image block", "y", strides=[1, 2], pads=[0, 1, 0, 0], dilations=[1, 1])]
    image, block = (2, 4), (2, 3)
    proto = model(
        nodes,
        [info("x", [1, 12, 2])],
        [info("y", None)],
        weights(image=np.array(image), block=np.array(block)),
        opset=18,
    )
    x = np.arange(24, dtype=np.float32).reshape(1, 12, 2)
    x[0, 3], x[0, 8, 1] = np.nan, np.inf

    (value,) = run(load(saved(proto, tmp_path)), {"x": x})

    wanted = np.zeros((1, 2, 2, 5), np.float32)
    for channel, row, column, step in np.ndindex(2, *block, 2):
        wanted[0, channel, row, 2 * step + column] += x[0, channel * 6 + row * 3 + column, step]
    np.testing.assert_array_equal(value, wanted[..., 1:])


@pytest.mark.parametrize(
    ("made", "arrays", "wanted"),
    [
        (node("Elu", "x", "y", alpha=0.1), {}, lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x)),
        (
            node("Selu", "x", "y"),
            {},
            lambda x, _: (
                np.float64(np.float32(1.0507010)) * np.where(x < 0, np.float64(np.float32(1.6732632)) * np.expm1(x), x)
            ),
        ),
        (node("LeakyRelu", "x", "y", alpha=0.1), {}, lambda x, alpha: np.where(x < 0, alpha * x, x)),
        (node("Gemm", "x w", "y", alpha=0.1), {"w": np.eye(3)}, lambda x, alpha: alpha * x),
        (
            node("LayerNormalization", "x s", "y", epsilon=0.1),
            {"s": np.ones(3)},
            lambda x, alpha: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + alpha),
        ),
    ],
    ids=["Elu", "Selu", "LeakyRelu", "Gemm", "LayerNormalization"],
)
def test_attributes_are_f32_where_numbers_are_f64(made: Any, arrays: Any, wanted: Any, tmp_path: Path) -> None:
    kind = onnx.TensorProto.DOUBLE
    proto = model([made], [info("x", [2, 3], kind)], [info("y", None, kind)], weights(**arrays))
    x = np.array([[-1, 2, -3], [0.5, -0.25, 4]])

    (value,) = run(load(saved(proto, tmp_path)), {"x": x})

    np.testing.assert_allclose(value, wanted(x, float(np.float32(0.1))), rtol=1e-13)


@pytest.mark.parametrize(("opset", "dtype"), [(9, np.float32), (10, np.bool_)])
def test_masks_of_dropout_had_the_type_of_the_data(opset: int, dtype: Any, tmp_path: Path) -> None:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = model(
        [node("Dropout", "x", "y mask")], [info("x", [2])], [info("y", [2]), info("mask", [2], kind)], opset=opset
    )

    _, mask = run(load(saved(proto, tmp_path)), {"x": f32(0, 3)})

    assert (mask.dtype, mask.tolist()) == (dtype, [1, 1])


def test_integers_shrink_by_fractions(tmp_path: Path) -> None:
    kind = onnx.TensorProto.INT16
    nodes = [node("Shrink", "x", "y", lambd=-1.25, bias=0.75)]
    proto = model(nodes, [info("x", [5], kind)], [info("y", None, kind)])
    x = np.array([-7, 0, 1, 2, 7], np.int16)

    (value,) = run(load(saved(proto, tmp_path)), {"x": x})

    # Below 1.25 the bias is added, above it is subtracted; what is left of fractions is cut off.
    assert value.tolist() == [-6, 0, 1, 1, 6]


def test_a_constant_mean_of_no_elements_is_nan_without_a_warning(tmp_path: Path) -> None:
    nodes = [node("ReduceMean", "x", "y", axes=[0])]
    proto = model(nodes, [], [info("y", None)], weights(x=np.zeros((0, 2), np.float32)))

    (value,) = run(load(saved(proto, tmp_path)), {})

    assert np.isnan(value).all()


@pytest.mark.parametrize(("batch", "lengths"), [(0, [0, 5, 1, 3]), (1, [4, 0, 1, 3, 2])])
def test_sequences_are_reversed_up_to_their_lengths(batch: int, lengths: list[int], tmp_path: Path) -> None:
    made = runtime_models.node("ReverseSequence", "x lengths", "y", domain="", batch_axis=batch, time_axis=1 - batch)
    inputs = {"x": np.arange(120, dtype=np.float32).reshape(4, 5, 6), "lengths": np.array(lengths)}
    runtime_models.agrees(runtime_models.model([made], inputs, ["y"], {}), inputs, tmp_path)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8, np.uint64])
def test_each_element_is_shifted_by_bits_of_its_own(dtype: Any, direction: str, tmp_path: Path) -> None:
    limits = np.iinfo(dtype)
    bits = np.array([0, 1, limits.bits - 1, limits.bits, limits.bits + 1], dtype)
    x = np.random.default_rng(1).integers(limits.min, limits.max, (6, 5), dtype, endpoint=True)
    shift = np.left_shift if direction == "LEFT" else np.right_shift
    inside = shift(x, np.minimum(bits, limits.bits - 1))
    outside = 0 if direction == "LEFT" else -(x < 0).astype(np.int8).astype(dtype)
    made = runtime_models.node("BitShift", "x bits", "y", domain="", direction=direction)
    proto = runtime_models.model([made], {"x": x}, ["y"], {"bits": bits})

    runtime_models.agrees(proto, {"x": x}, tmp_path, right=[np.where(bits < limits.bits, inside, outside)])
