"""The hand-written kernels, compared with loops and the ONNX reference evaluator."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openinfer.array_types import dtype_of_array, storage_dtype
from openinfer.dtypes import BOOL, F16, F32, F64, I4, I8, I32, I64, T1, U8, dtype_named
from openinfer.errors import OpenInferError
from openinfer.ir.types import TensorType
from openinfer.ops.calls import OpCall
from openinfer.packing import pack, unpack
from openinfer_backend_cpu.backend import CpuBackend
from openinfer_backend_cpu.kernels import convolution
from openinfer_backend_cpu.plugin import openinfer_kernels


def typed(array: np.ndarray) -> TensorType:
    dtype = dtype_of_array(array)
    assert dtype is not None
    return TensorType(dtype, array.shape)


def run(op: str, inputs: list[np.ndarray | None], out: TensorType, **settings: Any) -> np.ndarray:
    """Run the kernel of an operator twice, so that state left over from a call would show."""
    backend = CpuBackend()
    kinds = tuple(None if array is None else typed(array) for array in inputs)
    call = OpCall(op=op, inputs=kinds, outputs=(out,), settings=settings)
    (spec,) = (s for s in openinfer_kernels("cpu") if s.op == op)
    assert spec.supports is None or spec.supports(call)
    buffers = [None if a is None else backend.upload(typed(a), np.ascontiguousarray(a)) for a in inputs]
    target = backend.allocate(out)
    bound = backend.bind_kernel(spec, call, buffers, [target])
    with np.errstate(all="ignore"):
        bound()
        bound()
    return backend.read(target)


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("op", sorted({spec.op for spec in openinfer_kernels("cpu")}))
def test_each_operator_has_one_kernel(op: str) -> None:
    assert len([spec for spec in openinfer_kernels("cpu") if spec.op == op]) == 1


def test_matmul_broadcasts_leading_dimensions() -> None:
    a, b = floats(2, 1, 3, 4), floats(5, 4, 6, seed=1)
    expected = np.einsum("bxik,ykj->byij", a.astype(np.float64), b.astype(np.float64))
    assert run("matmul", [a, b], TensorType(F32, (2, 5, 3, 6))) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("trans_a", "trans_b"), list(itertools.product((False, True), repeat=2)))
def test_matmul_swaps_dimensions_on_request(trans_a: bool, trans_b: bool) -> None:
    a, b = floats(3, 4), floats(4, 2, seed=1)
    given = [a.T if trans_a else a, b.T if trans_b else b]
    found = run("matmul", given, TensorType(F32, (3, 2)), trans_a=trans_a, trans_b=trans_b)
    assert found == pytest.approx(a @ b, abs=1e-6)


def test_matmul_of_no_terms_is_zero() -> None:
    empty = np.ones((2, 0), np.float32)
    assert run("matmul", [empty, empty.T], TensorType(F32, (2, 2))).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_matmul_takes_vectors() -> None:
    a = np.array([1.0, 2.0], np.float64)
    assert run("matmul", [a, a], TensorType(F64, ())) == 5.0


@pytest.mark.parametrize("name", ["i8", "u8", "i32", "u32", "i64"])
def test_integer_matmul_wraps(name: str) -> None:
    dtype = dtype_named(name)
    low, high = dtype.minimum or 0, dtype.maximum or 0
    a = np.array([[high, low, high], [1, 2, high]], dtype.storage)
    b = np.array([[high], [3], [low]], dtype.storage)
    exact = [[sum(int(x) * int(y) for x, y in zip(row, b[:, 0], strict=True))] for row in a]
    wrapped = [[(v[0] - low) % (1 << dtype.bits) + low] for v in exact]
    assert run("matmul", [a, b], TensorType(dtype, (2, 1))).tolist() == wrapped


def test_matmul_accumulates_in_the_requested_type() -> None:
    a = np.full((1, 4), 100, np.int8)
    assert run("matmul", [a, a.T], TensorType(I32, (1, 1)), acc=(I32,)).tolist() == [[40000]]


def test_matmul_clips_once_into_a_narrower_output() -> None:
    a = np.full((1, 4), 100, np.int8)
    assert run("matmul", [a, a.T], TensorType(I8, (1, 1)), acc=(I32, I8)).tolist() == [[127]]


@pytest.mark.rule("dtypes.accumulators.2")
@pytest.mark.parametrize(
    ("op", "name", "rows", "acc", "expected"),
    [
        ("matmul", "i8", [[100] * 4, [100] * 4], "i32 i8", 127),
        ("matmul", "i8", [[100] * 4, [-100] * 4], "i32 u8", 0),
        ("matmul", "i8", [[100] * 4, [100] * 4], "i32 f32", 40000.0),
        ("matmul", "i8", [[100] * 4, [100] * 4], "i16 f32", 40000.0 - 2**16),
        ("matmul", "i8", [[100] * 4, [-100] * 4], "i32 bool", True),
        ("matmul", "i4", [[7] * 4, [7] * 4], "i32 i4", 7),
        ("matmul", "i4", [[7] * 4, [7] * 4], "i32 i8", 127),
        ("matmul", "i4", [[7] * 4, [7] * 4], "i32 f16", 196.0),
        ("matmul", "i4", [[7] * 4, [7] * 4], None, 4),
        ("matmul", "f16", [[300.0] * 4, [300.0] * 4], "f32 i16", 2**15 - 1),
        ("sum_axis", "u4", [[15] * 4], "u8 u4", 15),
        ("sum_axis", "u8", [[255] * 4], "u32 u8", 255),
        ("sum_axis", "u8", [[255] * 4], "u32 f32", 1020.0),
        ("sum_axis", "u8", [[255] * 4], None, 1020 % 256),
    ],
)
def test_an_accumulator_is_converted_once_by_the_rules_of_cast(
    op: str, name: str, rows: list[list[float]], acc: str | None, expected: float
) -> None:
    element = dtype_named(name)
    listed = tuple(dtype_named(word) for word in (acc or "").split())
    kinds = tuple(TensorType(element, shape) for shape in [(1, 4), (4, 1)][: len(rows)])
    out = TensorType(listed[-1] if listed else element, (1, 1) if op == "matmul" else (1,))
    settings: dict[str, Any] = {"acc": listed or None} | ({"axes": (1,)} if op == "sum_axis" else {})
    arrays = [np.array(r).astype(storage_dtype(element)).reshape(k.shape) for r, k in zip(rows, kinds, strict=True)]
    stored = [pack(array, element) if element.is_packed else array for array in arrays]
    backend = CpuBackend()
    buffers = [backend.upload(kind, array) for kind, array in zip(kinds, stored, strict=True)]
    (spec,) = (s for s in openinfer_kernels("cpu") if s.op == op)
    target = backend.allocate(out)
    call = OpCall(op=op, inputs=kinds, outputs=(out,), settings=settings)
    backend.bind_kernel(spec, call, buffers, [target])()
    found = backend.read(target)
    assert (unpack(found, out.dtype, out.shape) if out.dtype.is_packed else found).item() == expected


@pytest.mark.rule("dtypes.computing.5")
def test_bool_matmul_is_or_of_ands() -> None:
    a = np.array([[True, True], [False, True], [False, False]])
    b = np.array([[True], [True]])
    assert run("matmul", [a, b], TensorType(BOOL, (3, 1))).tolist() == [[True], [True], [False]]


@pytest.mark.rule("dtypes.computing.3")
def test_low_float_matmul_rounds_once() -> None:
    a = np.full((1, 4096), 1.0, ml_dtypes.bfloat16)
    found = run("matmul", [a, a.T], TensorType(dtype_named("bf16"), (1, 1)))
    assert float(found[0, 0]) == 4096.0


def test_packed_matmul_wraps_at_its_width() -> None:
    backend = CpuBackend()
    spec = next(s for s in openinfer_kernels("cpu") if s.op == "matmul")
    row, column, out = TensorType(I4, (1, 3)), TensorType(I4, (3, 1)), TensorType(I4, (1, 1))
    call = OpCall(op="matmul", inputs=(row, column), outputs=(out,), settings={})
    left = backend.upload(row, np.array([0x85, 0x07], np.uint8))  # 5, -8, 7
    right = backend.upload(column, np.array([0x23, 0x06], np.uint8))  # 3, 2, 6
    target = backend.allocate(out)
    backend.bind_kernel(spec, call, [left, right], [target])()
    assert backend.read(target).tolist() == [(5 * 3 - 8 * 2 + 7 * 6) % 16]


@pytest.mark.parametrize("trans_w", [False, True])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4)])
def test_linear_is_product_plus_bias(shape: tuple[int, ...], trans_w: bool) -> None:
    x, w, b = floats(*shape), floats(4, 5, seed=1), floats(5, seed=2)
    given = [x, np.ascontiguousarray(w.T) if trans_w else w, b]
    found = run("linear", given, TensorType(F32, (*shape[:-1], 5)), trans_w=trans_w)
    assert found == pytest.approx(np.tensordot(x, w, 1) + b, abs=1e-5)


def test_linear_without_bias_computes_in_the_widest_type() -> None:
    x, w = floats(2, 3), floats(3, 2, seed=1, dtype=np.float64)
    expected = (x.astype(np.float64) @ w).astype(np.float32)
    assert np.array_equal(run("linear", [x, w, None], TensorType(F32, (2, 2))), expected)


def naive_conv2d(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, stride: int, pad: int, dilation: int, groups: int
) -> np.ndarray:
    images, _, height, width = x.shape
    outputs, depth, kh, kw = w.shape
    rows = (height + 2 * pad - dilation * (kh - 1) - 1) // stride + 1
    columns = (width + 2 * pad - dilation * (kw - 1) - 1) // stride + 1
    out = np.zeros((images, outputs, rows, columns), np.float64)
    for n, o, r, c in np.ndindex(*out.shape):
        first = o // (outputs // groups) * depth
        for d, i, j in np.ndindex(depth, kh, kw):
            y0, x0 = r * stride + i * dilation - pad, c * stride + j * dilation - pad
            if 0 <= y0 < height and 0 <= x0 < width:
                out[n, o, r, c] += float(x[n, first + d, y0, x0]) * float(w[o, d, i, j])
        out[n, o, r, c] += 0.0 if bias is None else float(bias[o])
    return out


@pytest.mark.rule("operators.windows.3", "operators.windows.4")
@pytest.mark.parametrize("small_workspace", [False, True])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups", "kernel"),
    [
        (1, 0, 1, 1, (3, 3)),
        (1, 1, 1, 1, (3, 3)),
        (2, 1, 1, 2, (3, 2)),
        (1, 2, 2, 4, (3, 3)),
        (3, 0, 1, 1, (1, 1)),
        (1, 0, 1, 2, (1, 1)),
    ],
)
def test_conv2d_is_cross_correlation(
    monkeypatch: pytest.MonkeyPatch,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    kernel: tuple[int, int],
    small_workspace: bool,
) -> None:
    if small_workspace:
        monkeypatch.setattr(convolution, "WORKSPACE", 600)
    x, w, bias = floats(3, 4, 7, 6), floats(8, 4 // groups, *kernel, seed=1), floats(8, seed=2)
    expected = naive_conv2d(x, w, bias, stride, padding, dilation, groups)
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    found = run("conv2d", [x, w, bias], TensorType(F32, expected.shape), **settings)
    assert found == pytest.approx(expected, abs=1e-4)


def test_conv2d_accumulates_integers_wide() -> None:
    x = np.full((1, 1, 3, 3), 127, np.int8)
    w = np.full((1, 1, 3, 3), -128, np.int8)
    found = run("conv2d", [x, w, None], TensorType(I32, (1, 1, 1, 1)), acc=(I32,))
    assert found.tolist() == [[[[9 * 127 * -128]]]]


def onnx_pool(op: str, x: np.ndarray, **attributes: Any) -> np.ndarray:
    onnx, helper, reference = (
        pytest.importorskip(name, reason="the ONNX reference evaluator is the oracle")
        for name in ("onnx", "onnx.helper", "onnx.reference")
    )
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    kind = onnx.TensorProto.FLOAT
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [value("x", kind, x.shape)], [value("y", kind, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    return reference.ReferenceEvaluator(model).run(None, {"x": x})[0]


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "ceil"),
    [(2, 2, 0, 1, False), (3, 1, 1, 1, False), (3, 2, 1, 1, True), (2, 1, 0, 2, False)],
)
def test_max_pool2d_agrees_with_onnx(kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> None:
    x = floats(2, 3, 7, 6)
    expected = onnx_pool(
        "MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4,
        dilations=[dilation] * 2, ceil_mode=int(ceil),
    )  # fmt: skip
    settings = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil}
    assert np.array_equal(run("max_pool2d", [x], TensorType(F32, expected.shape), **settings), expected)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1)])
def test_avg_pool2d_agrees_with_onnx(kernel: int, stride: int, padding: int, include: bool) -> None:
    x = floats(2, 3, 7, 6)
    expected = onnx_pool(
        "AveragePool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4,
        count_include_pad=int(include),
    )  # fmt: skip
    settings = {"kernel": kernel, "stride": stride, "padding": padding, "count_include_pad": include}
    assert run("avg_pool2d", [x], TensorType(F32, expected.shape), **settings) == pytest.approx(expected, abs=1e-6)


@pytest.mark.rule("operators.windows.3")
def test_padding_never_wins_a_maximum() -> None:
    x = np.full((1, 1, 2, 2), -5, np.int32)
    found = run("max_pool2d", [x], TensorType(I32, (1, 1, 3, 3)), kernel=2, padding=1)
    assert np.unique(found).tolist() == [-5]


def test_a_pool_skips_nan_unless_there_is_nothing_else() -> None:
    x = np.array([[[[math.nan, 1.0, math.nan]]]], np.float32)
    found = run("max_pool2d", [x], TensorType(F32, (1, 1, 1, 4)), kernel=(1, 2), padding=(0, 1))
    assert found[0, 0, 0, 1:3].tolist() == [1.0, 1.0]
    assert np.isnan(found[0, 0, 0, [0, 3]]).all()


@pytest.mark.rule("operators.windows.1")
def test_same_padding_puts_the_odd_unit_at_the_end_or_the_start() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    out = TensorType(F32, (1, 1, 1, 4))
    upper = run("max_pool2d", [x], out, kernel=(1, 2), padding="same_upper")
    lower = run("max_pool2d", [x], out, kernel=(1, 2), padding="same_lower")
    assert upper.ravel().tolist() == [1.0, 2.0, 3.0, 3.0]
    assert lower.ravel().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_global_avg_pool_is_the_mean_of_each_map() -> None:
    x = floats(2, 3, 4, 5)
    expected = [[[[math.fsum(m.ravel()) / 20]] for m in image] for image in x]
    assert run("global_avg_pool", [x], TensorType(F32, (2, 3, 1, 1))) == pytest.approx(np.array(expected), abs=1e-6)


def test_reshape_keeps_row_major_order_and_transpose_moves_dimensions() -> None:
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert run("reshape", [x], TensorType(U8, (3, 2))).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert run("flatten", [x], TensorType(U8, (1, 6)), axis=0).tolist() == [[0, 1, 2, 3, 4, 5]]
    assert run("identity", [x], TensorType(U8, (2, 3))).tolist() == x.tolist()
    assert run("transpose", [x], TensorType(U8, (3, 2)), perm=None).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert run("transpose", [x], TensorType(U8, (2, 3)), perm=(0, 1)).tolist() == x.tolist()


def test_sum_axis_wraps_integers_and_widens_low_floats() -> None:
    assert run("sum_axis", [np.full((2, 3), 100, np.uint8)], TensorType(U8, (2,)), axes=(1,)).tolist() == [44, 44]
    ones = np.ones(4096, np.float16)
    assert run("sum_axis", [ones], TensorType(F16, ()), axes=None) == 4096.0
    wide = run("sum_axis", [np.full(3, 200, np.uint8)], TensorType(I64, (1,)), axes=(0,), acc=(I64,))
    assert wide.tolist() == [600]


@pytest.mark.rule("operators.numbers.5")
@pytest.mark.parametrize(
    ("row", "maximum", "index", "last"),
    [
        ([1.0, 3.0, 3.0], 3.0, 1, 2),
        ([math.nan, 3.0, 5.0], math.nan, 0, 0),
        ([1.0, math.nan, -2.0], 1.0, 0, 0),
        ([-math.inf, math.nan, -math.inf], -math.inf, 0, 2),
    ],
)
def test_a_nan_sticks_in_first_place_only(row: list[float], maximum: float, index: int, last: int) -> None:
    x = np.array([row], np.float32)
    assert run("max_axis", [x], TensorType(F32, (1,)), axes=(1,)).tolist() == pytest.approx([maximum], nan_ok=True)
    out = TensorType(I64, (1, 1))
    assert run("argmax_axis", [x], out, axis=1, keepdims=True).tolist() == [[index]]
    assert run("argmax_axis", [x], out, axis=-1, keepdims=True, select_first=False).tolist() == [[last]]


def extremum(op: str, row: list[float]) -> float:
    """The first element until a strictly better one comes, spelt out."""
    best = row[0]
    for value in row[1:]:
        if value > best if op == "max_axis" else value < best:
            best = value
    return best


@pytest.mark.parametrize("op", ["max_axis", "min_axis"])
@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16", "f8"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_an_extremum_over_all_axes_is_that_of_each_run(op: str, name: str, keepdims: bool) -> None:
    dtype = dtype_named(name)
    kind, out = TensorType(dtype, (1, 3)), TensorType(dtype, (1, 1) if keepdims else ())
    backend = CpuBackend()
    source, target = backend.allocate(kind), backend.allocate(out)
    (spec,) = (s for s in openinfer_kernels("cpu") if s.op == op)
    call = OpCall(op=op, inputs=(kind,), outputs=(out,), settings={"axes": None, "keepdims": keepdims})
    bound = backend.bind_kernel(spec, call, [source], [target])
    for row in ([1.0, 2.0, 4.0], [math.nan, 2.0, 4.0], [-3.0, math.nan, 8.0], [5.0, -6.0, 0.0]):
        backend.write(source, np.array([row]).astype(storage_dtype(dtype)))
        bound()
        assert float(backend.read(target).reshape(())) == pytest.approx(extremum(op, row), nan_ok=True)


def test_a_nan_wins_when_it_propagates() -> None:
    x = np.array([[1.0, math.nan, 7.0, math.nan]], np.float32)
    assert np.isnan(run("max_axis", [x], TensorType(F32, (1,)), axes=1, nan="propagate")).all()
    assert run("argmax_axis", [x], TensorType(I64, (1,)), axis=1, nan="propagate").tolist() == [1]


def test_is_finite_answers_for_the_whole_tensor() -> None:
    out = TensorType(BOOL, ())
    assert run("is_finite", [floats(2, 3)], out)
    assert not run("is_finite", [np.array([1.0, math.inf], np.float32)], out)
    assert run("is_finite", [np.zeros((0, 3), np.float32)], out)


@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16", "i32"])
def test_long_integer_products_are_exact(name: str) -> None:
    dtype = dtype_named(name)
    low, high = dtype.minimum or 0, dtype.maximum or 0
    drawn = np.random.default_rng(1).integers(low, high, (2, 2, 700), endpoint=True)
    a, b = drawn[0].astype(dtype.storage), drawn[1].T.astype(dtype.storage)
    exact = [[sum(int(x) * int(y) for x, y in zip(row, column, strict=True)) for column in b.T] for row in a]
    for out in (dtype, dtype_named("i64" if low else "u64")):
        least = out.minimum or 0
        wrapped = [[(value - least) % (1 << out.bits) + least for value in row] for row in exact]
        assert run("matmul", [a, b], TensorType(out, (2, 2)), acc=None if out is dtype else (out,)).tolist() == wrapped


def test_an_integer_convolution_wraps_at_its_accumulator_and_adds_the_bias_there() -> None:
    x = np.full((1, 64, 3, 3), 127, np.int8)
    w = np.full((2, 64, 3, 3), 127, np.int8)
    bias = np.array([1, -32768], np.int16)
    exact = 64 * 9 * 127 * 127
    wrapped = [(exact + b + 2**15) % 2**16 - 2**15 for b in (1, -32768)]
    found = run("conv2d", [x, w, bias], TensorType(dtype_named("i16"), (1, 2, 1, 1)), acc=(dtype_named("i16"),))
    assert found.ravel().tolist() == wrapped


@pytest.mark.rule("operators.shapes.5")
def test_an_empty_input_yields_an_empty_output_or_the_bias() -> None:
    empty = np.zeros((0, 1, 4, 4), np.float32)
    kernels = np.zeros((2, 1, 3, 3), np.float32)
    assert run("conv2d", [empty, kernels, None], TensorType(F32, (0, 2, 2, 2))).shape == (0, 2, 2, 2)
    no_channels = [np.zeros((1, 0, 3, 3), np.float32), np.zeros((2, 0, 3, 3), np.float32), np.array([1, 2], np.float32)]
    no_kernels = [np.zeros((1, 1, 3, 3), np.float32), np.zeros((0, 1, 3, 3), np.float32), None]
    assert run("conv2d", no_kernels, TensorType(F32, (1, 0, 1, 1))).shape == (1, 0, 1, 1)
    neither = [np.zeros((0, 0, 3, 3), np.float32), np.zeros((0, 0, 3, 3), np.float32), np.zeros(0, np.float32)]
    assert run("conv2d", neither, TensorType(F32, (0, 0, 1, 1))).shape == (0, 0, 1, 1)
    assert run("conv2d", no_channels, TensorType(F32, (1, 2, 1, 1))).ravel().tolist() == [1.0, 2.0]
    assert run("max_pool2d", [empty], TensorType(F32, (0, 1, 3, 3)), kernel=2).size == 0
    no_terms = [np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32), np.array([1, 2], np.float32)]
    assert run("linear", no_terms, TensorType(F32, (3, 2))).tolist() == [[1.0, 2.0]] * 3
    assert run("argmax_axis", [np.zeros((0, 3), np.float32)], TensorType(I64, (0,)), axis=1).size == 0


def test_an_operator_that_refuses_elements_runs_from_its_stage_where_it_has_no_kernel(run_operator: Any) -> None:
    x = np.array([2, -3], np.int8)

    (found,) = run_operator("cast", [x], to=T1, saturate=False)

    assert unpack(found, T1, (2,)).tolist() == [1, -1]
    (found,) = run_operator("cast", [x], without_kernels=["cast"], to=T1, saturate=False)
    assert unpack(found, T1, (2,)).tolist() == [1, -1]
    with pytest.raises(OpenInferError, match="t1 is -1 or 1") as raised:
        run_operator("cast", [np.array([2, 0], np.int8)], without_kernels=["cast"], to=T1, saturate=False)
    assert raised.value.code == "out-of-range"
