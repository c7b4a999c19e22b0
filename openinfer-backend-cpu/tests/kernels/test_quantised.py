"""Quantisation on cpu, compared with the ONNX reference evaluator, exact sums and the decompositions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.array_types import dtype_of_array, storage_dtype
from openinfer.dsl import graph
from openinfer.dtypes import BY_NAME
from openinfer.errors import ValidationError
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.schema import OpTypeError
from openinfer.packing import pack
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import HandWritten, kernel_table, select
from openinfer.simulate import Simulator
from openinfer_backend_cpu.backend import CpuBackend
from openinfer_backend_cpu.kernels import quantised

Inputs = Mapping[str, tuple[str, np.ndarray]]
RANDOM = np.random.default_rng(5)


def computed(op: str, inputs: Inputs, *outputs: str, **settings: Any) -> list[np.ndarray]:
    """Run one operator; inputs are types and values by input name, outputs types with shapes."""
    declared = [f"{name}: {dtype}{list(array.shape) if array.ndim else ''};" for name, (dtype, array) in inputs.items()]
    given = ", ".join([*(f"{n}={n}" for n in inputs), *(f"{n}={v}" for n, v in settings.items())])
    results = [f"out{number}" for number in range(len(outputs))]
    text = f"""
        dynamic {{ {" ".join(declared)} }}
        volatile {{ {" ".join(f"{n}: {t};" for n, t in zip(results, outputs, strict=True))} }}
        block entry {{ op {op}({given}) >> {", ".join(results)}; return; }}
    """
    executor = Simulator(oi.Model.from_arrays({}), graph(text)).make_executor()
    executor.step(**{name: array for name, (_, array) in inputs.items()})
    return [np.asarray(executor.fetch(name)) for name in results]


def from_onnx(op: str, inputs: Mapping[str, np.ndarray], outputs: int = 1, **attributes: Any) -> list[np.ndarray]:
    onnx = pytest.importorskip("onnx", reason="the ONNX reference evaluator is the oracle")
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(op, [*inputs], names, **attributes)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    out = [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in names]
    made = helper.make_graph([node], "g", values, out)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)])
    return [np.asarray(found) for found in ReferenceEvaluator(model).run(None, dict(inputs))]


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def integers(dtype: str, *shape: int) -> np.ndarray:
    kind = BY_NAME[dtype]
    low, high = kind.minimum or 0, kind.maximum or 0
    drawn = RANDOM.integers(low, high, shape, endpoint=True)
    return (np.where(drawn == 0, 1, drawn) if dtype == "t1" else drawn).astype(storage_dtype(kind))


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantize_linear_agrees_with_onnx(dtype: str, axis: int | None) -> None:
    x, shape = floats(6, 9) * 40, () if axis is None else ((6, 9)[axis],)
    scale, zero = np.float32(0.3) + RANDOM.random(shape, np.float32), integers(dtype, *shape)
    expected = from_onnx("QuantizeLinear", {"x": x, "s": scale, "z": zero}, axis=1 if axis is None else axis)
    given = {"x": ("f32", x), "scale": ("f32", scale), "zero_point": (dtype, zero)}
    found = computed("quantize_linear", given, f"{dtype}[6,9]", axis=1 if axis is None else axis)
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.rule("operators.quantisation.1")
def test_quantize_linear_rounds_half_to_even_and_clips() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf, -np.inf], np.float32)
    given = {"x": ("f32", x), "scale": ("f32", np.float32(1))}
    assert computed("quantize_linear", given, "i4[9]")[0].tolist() == [0, 2, 2, 0, -2, 7, -8, 7, -8]
    found = computed("quantize_linear", given, "f8[9]")[0].astype(np.float32)
    assert found.tolist() == [0.5, 1.5, 2.5, -0.5, -1.5, 57344, -57344, 57344, -57344]


@pytest.mark.rule("operators.quantisation.1")
def test_dequantize_linear_agrees_with_onnx_in_blocks() -> None:
    x, scale, zero = integers("i8", 4, 6), RANDOM.random((4, 3), np.float32), integers("i8", 4, 3)
    expected = from_onnx("DequantizeLinear", {"x": x, "s": scale, "z": zero}, axis=1, block_size=2)
    given = {"x": ("i8", x), "scale": ("f32", scale), "zero_point": ("i8", zero)}
    found = computed("dequantize_linear", given, "f32[4,6]", axis=1, block_size=2)
    np.testing.assert_array_equal(found[0], expected[0])


def test_dequantize_linear_subtracts_wide_integers_exactly() -> None:
    x, zero = np.array([2**31 - 1, -(2**31)], np.int32), np.array(2**31 - 2, np.int32)
    given = {"x": ("i32", x), "scale": ("f32", np.float32(1)), "zero_point": ("i32", zero)}
    assert computed("dequantize_linear", given, "f32[2]")[0].tolist() == [1.0, float(np.float32(-(2**32) + 2))]


@pytest.mark.parametrize("x", [floats(3, 7), -np.abs(floats(5)), np.abs(floats(5)) + 3, np.zeros(4, np.float32)])
def test_dynamic_quantize_linear_follows_its_formula(x: np.ndarray) -> None:
    y, scale, zero = computed("dynamic_quantize_linear", {"x": ("f32", x)}, f"u8{list(x.shape)}", "f32", "u8")
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    assert scale == (np.float32(high - low) / np.float32(255) if x.any() else 1)
    assert zero == np.rint(-low / scale)
    np.testing.assert_array_equal(y, np.clip(np.rint(x / scale) + zero, 0, 255))
    if x.any():
        for found, expected in zip((y, scale, zero), from_onnx("DynamicQuantizeLinear", {"x": x}, 3), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("x", list(itertools.permutations((np.nan, np.inf, -1.0))))
def test_the_scale_of_dynamic_quantize_linear_is_nan_where_its_range_is(x: tuple[float, ...]) -> None:
    inputs = {"x": ("f32", np.array(x, np.float32))}
    y, scale, zero = computed("dynamic_quantize_linear", inputs, "u8[3]", "f32", "u8")
    assert np.isnan(scale)
    assert (y.tolist(), zero) == ([0, 0, 0], 0)


def test_trailing_outputs_of_dynamic_quantize_linear_may_be_dropped() -> None:
    found = computed("dynamic_quantize_linear", {"x": ("f32", np.array([0, 255], np.float32))}, "u8[2]")
    assert found[0].tolist() == [0, 255]


@pytest.mark.parametrize(("a", "b"), [("u8", "i8"), ("i8", "i8"), ("u8", "u8")])
def test_matmul_integer_agrees_with_onnx(a: str, b: str) -> None:
    left, right, left_zero, right_zero = integers(a, 4, 9), integers(b, 9, 5), integers(a), integers(b, 5)
    expected = from_onnx("MatMulInteger", {"a": left, "b": right, "az": left_zero, "bz": right_zero})
    given = {"a": (a, left), "b": (b, right), "a_zero": (a, left_zero), "b_zero": (b, right_zero)}
    np.testing.assert_array_equal(computed("matmul_integer", given, "i32[4,5]")[0], expected[0])


@pytest.mark.rule("operators.quantisation.2")
def test_matmul_integer_is_exact_over_long_sums() -> None:
    a, b = np.full((1, 70_000), 255, np.uint8), np.full((70_000, 1), 255, np.uint8)
    found = computed("matmul_integer", {"a": ("u8", a), "b": ("u8", b)}, "i32[1,1]")[0]
    assert found.item() == (70_000 * 255 * 255 + 2**31) % 2**32 - 2**31


def test_conv_integer_agrees_with_onnx() -> None:
    x, w, zero = integers("u8", 2, 3, 6, 5), integers("u8", 4, 3, 3, 2), integers("u8")
    expected = from_onnx("ConvInteger", {"x": x, "w": w, "z": zero}, strides=[2, 1])
    given = {"x": ("u8", x), "w": ("u8", w), "x_zero": ("u8", zero)}
    shape = list(expected[0].shape)
    np.testing.assert_array_equal(computed("conv_integer", given, f"i32{shape}", stride=[2, 1])[0], expected[0])


@pytest.mark.rule("operators.windows.3")
def test_padding_of_conv_integer_is_the_zero_point() -> None:
    x, w, zero = np.full((1, 1, 1, 1), 7, np.int8), np.ones((1, 1, 3, 3), np.int8), np.array(5, np.int8)
    given = {"x": ("i8", x), "w": ("i8", w), "x_zero": ("i8", zero)}
    assert computed("conv_integer", given, "i32[1,1,1,1]", padding=1)[0].tolist() == [[[[2]]]]


@pytest.mark.rule("operators.quantisation.2")
def test_qlinear_matmul_agrees_with_onnx() -> None:
    a, b = integers("u8", 4, 9), integers("u8", 9, 5)
    given = {
        "a": a, "a_scale": np.float32(0.02), "a_zero": np.uint8(120),
        "b": b, "b_scale": np.float32(0.03), "b_zero": np.uint8(130),
        "y_scale": np.float32(0.4), "y_zero": np.uint8(128),
    }  # fmt: skip
    arrays = {name: np.asarray(value) for name, value in given.items()}
    expected = from_onnx("QLinearMatMul", arrays)
    typed = {name: (str(dtype_of_array(value)), value) for name, value in arrays.items()}
    np.testing.assert_array_equal(computed("qlinear_matmul", typed, "u8[4,5]")[0], expected[0])


def qmatmul(
    rows: int, shape: tuple[int, int], dtype: str, group: int, *, trans: bool, zero: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the kernel computes, twice in a row, and the product of the dequantised matrix in f64."""
    inner, columns = reversed(shape) if trans else shape
    x, bias, w = floats(rows, inner), floats(columns), integers(dtype, *shape)
    table = (columns,) if not group else (columns, inner // group) if trans else (inner // group, columns)
    scale, zeros = RANDOM.random(table, np.float32), integers(dtype, *table)
    kinds = [TensorType(BY_NAME[d], a.shape) for d, a in [("f32", x), (dtype, w), ("f32", scale), (dtype, zeros)]]
    inputs = [*kinds[:3], kinds[3] if zero else None, TensorType(BY_NAME["f32"], bias.shape)]
    environment, backend = Environment.default(), CpuBackend()
    call = call_of(environment.op("qmatmul"), inputs, {"group_size": group, "trans_w": trans})
    chosen = select(environment, kernel_table(environment, environment.devices["cpu"]), call)
    assert isinstance(chosen, HandWritten)
    arrays = [x, w, scale, zeros, bias]
    buffers = [
        None if kind is None else backend.upload(kind, pack(a, kind.dtype) if kind.dtype.is_packed else a)
        for kind, a in zip(inputs, arrays, strict=True)
    ]
    out = backend.allocate(call.outputs[0])
    bound = backend.bind_kernel(chosen.kernel, call, buffers, [out])
    bound()
    bound()
    wide = w.astype(np.float64)
    axis = 1 if trans else 0
    factor, offset = (np.repeat(t, group, axis) if group else t[:, None] if trans else t for t in (scale, zeros))
    real = (wide - (offset.astype(np.float64) if zero else 0)) * factor
    return backend.read(out), x.astype(np.float64) @ (real.T if trans else real) + bias


@pytest.mark.parametrize("dtype", ["i8", "u8", "i4", "u4", "i2", "u2", "t2", "t1"])
@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize(
    ("shape", "group", "trans"),
    [
        ((64, 40), 32, False),  # lanes, sums over groups
        ((64, 40), 0, False),
        ((60, 40), 5, False),  # groups too short to scale sums
        ((64, 37), 16, False),  # rows that do not begin with a byte
        ((37, 40), 0, False),
        ((40, 64), 16, True),
        ((37, 33), 11, True),
        ((40, 64), 0, True),
        ((1, 1), 1, False),
    ],
)
def test_qmatmul_is_the_product_with_the_dequantised_matrix(
    dtype: str, rows: int, shape: tuple[int, int], group: int, trans: bool
) -> None:
    for zero in (False, True):
        found, expected = qmatmul(rows, shape, dtype, group, trans=trans, zero=zero)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-4 * (1 + abs(expected).max()) / 100)


@pytest.mark.parametrize("dtype", ["i8", "i4", "u2", "t1"])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("rows", [1, 20])
def test_one_scale_and_zero_point_apply_to_all_weights(dtype: str, trans: bool, rows: int) -> None:
    x, w, zero = floats(rows, 32), integers(dtype, 32, 32), integers(dtype)
    given = {
        "x": ("f32", x), "w": (dtype, w), "scale": ("f32", np.asarray(np.float32(0.5))), "zero_point": (dtype, zero)
    }  # fmt: skip
    found = computed("qmatmul", given, f"f32[{rows},32]", trans_w=str(trans).lower())[0]
    real = (w.astype(np.float64) - float(zero)) * 0.5
    np.testing.assert_allclose(found, x @ (real.T if trans else real), rtol=1e-4, atol=1e-3)


def test_qmatmul_works_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised, "BLOCK", 1 << 10)
    monkeypatch.setattr(quantised, "CHUNK", 1 << 12)
    for rows, group, trans in [(1, 32, False), (20, 32, False), (20, 96, False), (20, 0, False), (3, 32, True)]:
        found, expected = qmatmul(rows, (96, 96), "i4", group, trans=trans, zero=True)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4 * (1 + abs(expected).max()))


@pytest.mark.parametrize("dtype", ["i8", "i4", "u2", "t1"])
@pytest.mark.parametrize("group", [0, 24, 32])
def test_pieces_end_with_groups_and_begin_within_bytes(monkeypatch: pytest.MonkeyPatch, dtype: str, group: int) -> None:
    monkeypatch.setattr(quantised, "CHUNK", 31 * 33 * 4)  # 31 rows of 33 columns
    found, expected = qmatmul(20, (96, 33), dtype, group, trans=False, zero=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4 * (1 + abs(expected).max()))


@pytest.mark.parametrize("dtype", ["i8", "i4"])
@pytest.mark.parametrize(("inner", "columns"), [(0, 4), (0, 0), (4, 0)])
def test_a_product_of_nothing_is_zero(dtype: str, inner: int, columns: int) -> None:
    given = {
        "x": ("f16", np.ones((2, inner), np.float16)),
        "w": (dtype, np.ones((inner, columns), np.int8)),
        "scale": ("f16", np.ones(columns, np.float16)),
    }
    found = computed("qmatmul", given, f"f16[2,{columns}]")[0]
    assert found.tolist() == np.zeros((2, columns)).tolist()


def test_an_infinite_scale_reaches_every_product() -> None:
    x, w = np.ones((1, 32), np.float32), np.zeros((32, 2), np.int8)
    w[0, 1] = 1
    given = {"x": ("f32", x), "w": ("i8", w), "scale": ("f32", np.array([1, np.inf], np.float32))}
    assert str(computed("qmatmul", given, "f32[1,2]")[0].tolist()) == "[[0.0, nan]]"


def test_qmatmul_computes_in_f64_where_an_input_is() -> None:
    x, w = np.array([[1.0, 2.0**-40]]), np.ones((2, 1), np.int8)
    given = {"x": ("f64", x), "w": ("i8", w), "scale": ("f32", np.float32(1))}
    assert computed("qmatmul", given, "f64[1,1]")[0].item() == 1 + 2.0**-40


F32_23, I4_34 = TensorType(BY_NAME["f32"], (2, 3)), TensorType(BY_NAME["i4"], (3, 4))


@pytest.mark.parametrize(
    ("shapes", "settings", "reported"),
    [
        ([(3, 4)], {"group_size": 2}, "group_size is 2: it divides the 3 rows of w"),
        ([(3,)], {}, r"scale is f32\[3\]; for i4\[3,4\] along axis 1 it has shape \[4\], or \[\]"),
        ([(1, 3)], {"group_size": 3}, r"along axis 0 in blocks of 3 it has shape \[1,4\]"),
    ],
)
def test_scales_that_do_not_fit_are_named(
    shapes: list[tuple[int, ...]], settings: Mapping[str, Any], reported: str
) -> None:
    scale = TensorType(BY_NAME["f32"], shapes[0])
    with pytest.raises(OpTypeError, match=reported):
        call_of(Environment.default().op("qmatmul"), [F32_23, I4_34, scale], settings)


def test_a_zero_point_of_another_type_is_named() -> None:
    scale, zero = TensorType(BY_NAME["f32"], (4,)), TensorType(BY_NAME["i8"], (4,))
    with pytest.raises(OpTypeError, match=r"zero_point is i8\[4\], expected the quantised type i4"):
        call_of(Environment.default().op("qmatmul"), [F32_23, I4_34, scale, zero], {})


def test_quantize_linear_to_what_holds_no_codes_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"quantize_linear\(x: f32\[3\], scale: f32\[\]\) yields no i32"):
        computed("quantize_linear", {"x": ("f32", floats(3)), "scale": ("f32", np.float32(1))}, "i32[3]")
