"""Calls written out as C give what the simulator gives: compiled without a warning, run under sanitizers.

Cases that differ in a call only share a program, which is compiled once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from generated_c import SANITISED, assert_agree, both, needs_gcc, noise

from openinfer_synth_c import compiler_flags

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = needs_gcc

Call = tuple[str, list[tuple[int, ...]], str]
"""The text of a call on inputs a, b and c, their shapes, and the type of its result."""


def whole(*shape, dtype=np.int32, seed=0, low=-100, high=100):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def calls(cases: Mapping[str, Call], dtypes: Mapping[str, str] | str = "f32") -> str:
    """Return a program that carries out every call, with inputs and a result that have the case in their names."""
    dynamic, volatile, statements, results = "", "", "", []
    for case, (call, shapes, out) in cases.items():
        name = identifier(case)
        dtype = dtypes if isinstance(dtypes, str) else dtypes[case]
        for letter, shape in zip("abc", shapes, strict=False):
            dynamic += f"{letter}_{name}: {dtype}[{', '.join(map(str, shape))}]; "
        volatile += f"y_{name}: {out}; "
        named = re.sub(r"\b([abc])\b", rf"\1_{name}", call)
        statements += f"op {named} >> y_{name}; "
        results.append(f"y_{name}")
    returned = f"return {', '.join(results)};"
    return f"dynamic {{ {dynamic} }} volatile {{ {volatile} }} block entry {{ {statements} {returned} }}"


def identifier(case: str) -> str:
    return re.sub(r"\W+", "_", case)


def drawn(cases: Mapping[str, Call], dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """Return random inputs for every call."""
    return {
        f"{letter}_{identifier(case)}": noise(*shape, dtype=dtype, seed=seed)
        for case, (_, shapes, _) in cases.items()
        for seed, (letter, shape) in enumerate(zip("abc", shapes, strict=False))
    }


def one_op(call: str, shapes: Sequence[tuple[int, ...]], out: str, dtype: str = "f32") -> str:
    """Return a program with one operator on dynamic inputs a, b, c."""
    names = "abc"
    dynamic = " ".join(f"{names[n]}: {dtype}[{', '.join(map(str, shape))}];" for n, shape in enumerate(shapes))
    return f"dynamic {{ {dynamic} }} volatile {{ y: {out}; }} block entry {{ op {call} >> y; return y; }}"


MATMULS = {
    "small": ("matmul(a, b)", [(3, 4), (4, 5)], "[3, 5]"),
    "tiles and rest": ("matmul(a, b)", [(2, 7), (7, 37)], "[2, 37]"),
    "batched": ("matmul(a, b)", [(2, 1, 3, 4), (5, 4, 18)], "[2, 5, 3, 18]"),
    "one row": ("matmul(a, b)", [(4,), (4, 17)], "[17]"),
    "one column": ("matmul(a, b)", [(6, 4), (4,)], "[6]"),
    "dot product": ("matmul(a, b)", [(9,), (9,)], "[]"),
    "vector and batch": ("matmul(a, b)", [(4,), (3, 4, 5)], "[3, 5]"),
    "transposed left": ("matmul(a, b, trans_a=true)", [(4, 3), (4, 16)], "[3, 16]"),
    "transposed right": ("matmul(a, b, trans_b=true)", [(3, 4), (20, 4)], "[3, 20]"),
    "nothing to sum": ("matmul(a, b)", [(3, 0), (0, 5)], "[3, 5]"),
    "no rows": ("matmul(a, b)", [(0, 3), (3, 5)], "[0, 5]"),
    "linear": ("linear(a, b, bias=c)", [(2, 3, 4), (4, 16), (16,)], "[2, 3, 16]"),
    "linear transposed": ("linear(a, b, trans_w=true)", [(3, 4), (6, 4)], "[3, 6]"),
}


@pytest.mark.parametrize(("dtype", "kind"), [("f32", np.float32), ("f64", np.float64)])
def test_products(dtype, kind):
    cases = {case: (call, shapes, f"{dtype}{out}") for case, (call, shapes, out) in MATMULS.items()}

    assert_agree(calls(cases, dtype), **drawn(cases, kind))


@pytest.mark.parametrize(("dtype", "kind"), [("i32", np.int32), ("i8", np.int8), ("u64", np.uint64)])
def test_integer_products_wrap(dtype, kind):
    info = np.iinfo(kind)
    a, b = (np.random.default_rng(n).integers(info.min, info.max, (3, 18), dtype=kind, endpoint=True) for n in (0, 1))

    assert_agree(one_op("matmul(a, b, trans_b=true)", [(3, 18), (3, 18)], f"{dtype}[3, 3]", dtype), a=a, b=b)


def test_bool_product_is_or_of_ands():
    a, b = whole(4, 5, low=0, high=2).astype(bool), whole(5, 20, low=0, high=2, seed=1).astype(bool)

    assert_agree(one_op("matmul(a, b)", [(4, 5), (5, 20)], "bool[4, 20]", "bool"), a=a, b=b)


def test_product_in_a_wider_accumulator():
    a, b = whole(3, 40, dtype=np.int8, low=-128, high=128), whole(40, 16, dtype=np.int8, low=-128, high=128, seed=1)

    assert_agree(one_op("matmul(a, b, acc=i32)", [(3, 40), (40, 16)], "i32[3, 16]", "i8"), a=a, b=b)


CONVERTED_ONCE = {
    "mul": ("mul(a, b, acc=[i32, i8])", [(1,), (1,)], "i8[1]", "i8", 100, [127]),
    "add, below": ("add(a, b, acc=[i32, u8])", [(1,), (1,)], "u8[1]", "i8", -1, [0]),
    "abs": ("abs(a, acc=[i32, i8])", [(1,)], "i8[1]", "i8", -128, [127]),
    "matmul": ("matmul(a, b, acc=[i32, i8])", [(1, 4), (4, 1)], "i8[1, 1]", "i8", 100, [[127]]),
    "matmul to float": ("matmul(a, b, acc=[i32, f32])", [(1, 4), (4, 1)], "f32[1, 1]", "i8", 100, [[40000.0]]),
    "conv2d": ("conv2d(a, b, acc=[i32, i8])", [(1, 1, 2, 2), (1, 1, 2, 2)], "i8[1, 1, 1, 1]", "i8", 100, [[[[127]]]]),
    "sum_axis": ("sum_axis(a, axes=0, acc=[u32, u8])", [(4,)], "u8", "u8", 100, 255),
    "prod_axis": ("prod_axis(a, axes=0, acc=[u32, u8])", [(4,)], "u8", "u8", 30, 255),
    "sum_axis to float": ("sum_axis(a, axes=0, acc=[u32, f32])", [(4,)], "f32", "u8", 100, 400.0),
}


def test_an_accumulator_is_converted_once_by_the_rules_of_cast():
    cases = {case: (call, shapes, out) for case, (call, shapes, out, *_) in CONVERTED_ONCE.items()}
    dtypes = {case: dtype for case, (_, _, _, dtype, *_) in CONVERTED_ONCE.items()}
    inputs = {
        f"{letter}_{identifier(case)}": np.full(shape, value, {"i8": np.int8, "u8": np.uint8}[dtype])
        for case, (_, shapes, _, dtype, value, _) in CONVERTED_ONCE.items()
        for letter, shape in zip("ab", shapes, strict=False)
    }

    expected, found, _ = both(calls(cases, dtypes), **inputs)

    wanted = {f"y_{identifier(case)}": result for case, (*_, result) in CONVERTED_ONCE.items()}
    assert {name: array.tolist() for name, array in expected.items()} == wanted
    assert {name: array.tolist() for name, array in found.items()} == wanted


CONVOLUTIONS = {
    "no images": ("conv2d(a, b, padding=1)", [(0, 1, 4, 4), (2, 1, 3, 3)], "[0, 2, 4, 4]"),
    "no channels": ("conv2d(a, b, bias=c)", [(1, 0, 4, 4), (2, 0, 3, 3), (2,)], "[1, 2, 2, 2]"),
    "no kernels": ("conv2d(a, b)", [(1, 1, 4, 4), (0, 1, 3, 3)], "[1, 0, 2, 2]"),
    "plain": ("conv2d(a, b)", [(2, 3, 6, 7), (4, 3, 3, 3)], "[2, 4, 4, 5]"),
    "padded with bias": ("conv2d(a, b, bias=c, padding=1)", [(1, 3, 5, 5), (17, 3, 3, 3), (17,)], "[1, 17, 5, 5]"),
    "strided": ("conv2d(a, b, stride=2, padding=1)", [(1, 2, 9, 8), (3, 2, 3, 3)], "[1, 3, 5, 4]"),
    "strides apart": ("conv2d(a, b, stride=[3, 1])", [(1, 1, 8, 8), (1, 1, 2, 5)], "[1, 1, 3, 4]"),
    "dilated": ("conv2d(a, b, dilation=2, padding=[1, 2])", [(1, 2, 7, 7), (2, 2, 3, 3)], "[1, 2, 5, 7]"),
    "uneven padding": ("conv2d(a, b, padding=[0, 1, 2, 0])", [(1, 1, 5, 5), (2, 1, 3, 3)], "[1, 2, 5, 4]"),
    "same": ('conv2d(a, b, padding="same_upper", stride=2)', [(1, 1, 5, 6), (1, 1, 3, 3)], "[1, 1, 3, 3]"),
    "groups": ("conv2d(a, b, groups=2, padding=1)", [(1, 4, 5, 5), (6, 2, 3, 3)], "[1, 6, 5, 5]"),
    "depthwise": ("conv2d(a, b, groups=4)", [(1, 4, 5, 5), (4, 1, 3, 3)], "[1, 4, 3, 3]"),
    "pointwise": ("conv2d(a, b)", [(1, 5, 3, 40), (18, 5, 1, 1)], "[1, 18, 3, 40]"),
}


def test_convolutions():
    cases = {case: (call, shapes, f"f32{out}") for case, (call, shapes, out) in CONVOLUTIONS.items()}

    assert_agree(calls(cases), **drawn(cases))


def test_integer_convolution_in_a_wider_accumulator():
    a, b = whole(1, 3, 6, 6, dtype=np.int8, low=-128, high=128), whole(5, 3, 3, 3, dtype=np.int8, low=-128, seed=1)

    assert_agree(
        one_op("conv2d(a, b, acc=i32, padding=1)", [(1, 3, 6, 6), (5, 3, 3, 3)], "i32[1, 5, 6, 6]", "i8"), a=a, b=b
    )


POOLS = {
    "max": ("max_pool2d(a, kernel=2, stride=2)", (1, 3, 6, 6), "[1, 3, 3, 3]"),
    "max padded": ("max_pool2d(a, kernel=3, stride=2, padding=1)", (2, 1, 6, 5), "[2, 1, 3, 3]"),
    "max ceil": ("max_pool2d(a, kernel=2, stride=2, ceil_mode=true)", (1, 1, 5, 5), "[1, 1, 3, 3]"),
    "max dilated": ("max_pool2d(a, kernel=2, dilation=2)", (1, 1, 5, 5), "[1, 1, 3, 3]"),
    "mean": ("avg_pool2d(a, kernel=[2, 3], stride=1)", (1, 2, 5, 5), "[1, 2, 4, 3]"),
    "mean padded": ("avg_pool2d(a, kernel=3, padding=1)", (1, 2, 5, 5), "[1, 2, 5, 5]"),
    "mean with padding": ("avg_pool2d(a, kernel=3, padding=1, count_include_pad=true)", (1, 2, 5, 5), "[1, 2, 5, 5]"),
    "mean ceil with padding": (
        "avg_pool2d(a, kernel=3, stride=2, padding=1, ceil_mode=true, count_include_pad=true)",
        (1, 1, 6, 6),
        "[1, 1, 4, 4]",
    ),
    "global mean": ("global_avg_pool(a)", (2, 3, 4, 5), "[2, 3, 1, 1]"),
}


def test_pools():
    cases: dict[str, Call] = {case: (call, [shape], f"f32{out}") for case, (call, shape, out) in POOLS.items()}

    assert_agree(calls(cases), **drawn(cases))


def test_max_pool_passes_a_nan_over():
    a = noise(1, 1, 4, 4)
    a[0, 0, 0, 1] = a[0, 0, 3, 3] = np.nan
    a[0, 0, 0:2, 2:4] = np.nan

    assert_agree(one_op("max_pool2d(a, kernel=2, stride=2)", [(1, 1, 4, 4)], "f32[1, 1, 2, 2]"), a=a)


OTHERS = {
    "reshape": ("reshape(a, shape=[3, -1])", "f32[3, 8]"),
    "transpose": ("transpose(a, perm=[2, 0, 1])", "f32[4, 2, 3]"),
    "transpose all": ("transpose(a)", "f32[4, 3, 2]"),
    "softmax": ("softmax(a, axis=1)", "f32[2, 3, 4]"),
    "softmax last": ("softmax(a)", "f32[2, 3, 4]"),
    "sum": ("sum_axis(a, axes=[0, 2])", "f32[3]"),
    "sum kept": ("sum_axis(a, axes=1, keepdims=true)", "f32[2, 1, 4]"),
    "sum of all": ("sum_axis(a)", "f32[]"),
    "max": ("max_axis(a, axes=[1])", "f32[2, 4]"),
    "max kept": ("max_axis(a, axes=[0, 2], keepdims=true)", "f32[1, 3, 1]"),
    "argmax": ("argmax_axis(a, axis=1)", "i64[2, 4]"),
    "argmax kept": ("argmax_axis(a, axis=-1, keepdims=true)", "i64[2, 3, 1]"),
    "is finite": ("is_finite(a)", "bool[]"),
    "clamp": ("clamp(a, min=-0.5, max=0.25)", "f32[2, 3, 4]"),
    "relu": ("relu(a, negative_slope=0.1)", "f32[2, 3, 4]"),
    "exp": ("exp(a)", "f32[2, 3, 4]"),
}


def test_other_operators():
    cases: dict[str, Call] = {case: (call, [(2, 3, 4)], out) for case, (call, out) in OTHERS.items()}

    assert_agree(calls(cases), **drawn(cases))


@pytest.mark.parametrize("setting", ["", ", select_first=false"])
def test_argmax_of_ties_and_nans(setting):
    nan = np.nan
    a = np.array([[1, 3, 3, 2], [nan, 1, 2, 2], [1, nan, 5, nan], [nan, nan, nan, nan]], np.float32)

    assert_agree(one_op(f"argmax_axis(a, axis=1{setting})", [(4, 4)], "i64[4]"), a=a)


ARITHMETIC = ["add", "sub", "mul", "div"]


def special_values(kind):
    """Return every pair of values at which arithmetic has rules of its own."""
    if np.dtype(kind).kind == "f":
        tiny = np.finfo(kind).smallest_subnormal
        special = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, tiny, np.finfo(kind).max]
    else:
        special = [0, 1, 3, np.iinfo(kind).max, np.iinfo(kind).min, np.iinfo(kind).max - 1]
    return [axis.reshape(-1) for axis in np.meshgrid(np.array(special, kind), np.array(special, kind))]


@pytest.mark.parametrize("flags", [SANITISED, compiler_flags.FLAGS], ids=["sanitised", "optimised"])
def test_arithmetic_on_special_values_is_equal_bit_for_bit(flags):
    kinds = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u8": np.uint8}
    pairs = {dtype: special_values(kind) for dtype, kind in kinds.items()}
    cases: dict[str, Call] = {
        f"{op} {dtype}": (f"{op}(a, b)", [a.shape, b.shape], f"{dtype}[{a.size}]")
        for op in ARITHMETIC
        for dtype, (a, b) in pairs.items()
    }
    inputs = {
        f"{letter}_{op}_{dtype}": array
        for op in ARITHMETIC
        for dtype, pair in pairs.items()
        for letter, array in zip("ab", pair, strict=True)
    }

    expected, found, _ = both(calls(cases, {case: case.split()[1] for case in cases}), flags=flags, **inputs)

    for name, array in found.items():
        bits = f"u{array.itemsize}"
        plain = ~np.isnan(expected[name]) if array.dtype.kind == "f" else slice(None)
        np.testing.assert_array_equal(np.isnan(array), np.isnan(expected[name]), err_msg=name)
        np.testing.assert_array_equal(array.view(bits)[plain], expected[name].view(bits)[plain], err_msg=name)


def test_broadcasting():
    text = one_op("add(a, b)", [(2, 1, 3), (4, 1)], "f32[2, 4, 3]")

    assert_agree(text, a=noise(2, 1, 3), b=noise(4, 1, seed=1))
