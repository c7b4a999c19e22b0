"""Matrix products against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.dtypes import F32, F64, I32, DType
from openinfer.ir.types import TensorType
from openinfer.ops.calls import OpCall
from openinfer_backend_vulkan.registration import kernel_specs

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]


def normal(*shape: int) -> Array:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 1), (1, 1)),
        ((5, 7), (7, 3)),
        ((65, 33), (33, 129)),
        ((4, 5, 7), (4, 7, 3)),
        ((3, 1, 5, 7), (4, 7, 2)),
        ((2, 1, 3, 1, 2, 3), (1, 4, 1, 5, 3, 2)),
        ((5, 7), (6, 7, 3)),
        ((7,), (7, 3)),
        ((5, 7), (7,)),
        ((7,), (7,)),
        ((4, 5, 7), (7,)),
        ((3, 0), (0, 2)),
        ((0, 3), (3, 2)),
    ],
)
def test_matmul_is_numpys(carry_out: CarryOut, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = normal(*left), normal(*right)
    expected = a.astype(np.float64) @ b.astype(np.float64)

    found = carry_out("matmul", a, b)

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_integer_products_wrap(carry_out: CarryOut, dtype: type[np.int32 | np.uint32]) -> None:
    limits = np.iinfo(dtype)
    a = np.random.default_rng(4).integers(limits.min, limits.max, (6, 9), dtype=dtype, endpoint=True)
    exact = a.astype(object) @ a.T.astype(object)

    found = carry_out("matmul", a, np.ascontiguousarray(a.T))

    assert ((found.astype(object) - exact) % (1 << 32) == 0).all()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("leading", [(), (1,), (6,), (2, 3)])
def test_linear_is_a_product_and_a_bias(
    carry_out: CarryOut, leading: tuple[int, ...], transposed: bool, bias: bool
) -> None:
    x, w, b = normal(*leading, 7), normal(7, 4), normal(4)
    expected = x.astype(np.float64) @ w.astype(np.float64) + (b.astype(np.float64) if bias else 0.0)
    given = np.ascontiguousarray(w.T) if transposed else w

    found = carry_out("linear", x, given, b if bias else None, trans_w=transposed)

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_infinity_and_nan_reach_their_row_only(carry_out: CarryOut) -> None:
    a = normal(3, 4)
    a[0, 1], a[1, 2] = np.inf, np.nan

    found = carry_out("matmul", a, np.ones((4, 2), np.float32))

    assert np.isinf(found[0]).all()
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[2]).all()


@pytest.mark.parametrize(("inputs", "output"), [((F32, I32), F32), ((I32, I32), F32)])
def test_operands_of_several_types_are_left_to_others(inputs: tuple[DType, DType], output: DType) -> None:
    call = OpCall(
        op="matmul",
        inputs=tuple(TensorType(dtype, (2, 2)) for dtype in inputs),
        outputs=(TensorType(output, (2, 2)),),
        settings={},
    )
    (spec,) = (spec for spec in kernel_specs() if spec.op == "matmul")

    assert spec.supports is not None
    assert not spec.supports(call)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_operands_may_be_stored_transposed(carry_out: CarryOut, trans_a: bool, trans_b: bool) -> None:
    a, b = normal(2, 5, 7), normal(7, 3)
    stored_a = np.ascontiguousarray(a.swapaxes(-1, -2)) if trans_a else a
    stored_b = np.ascontiguousarray(b.T) if trans_b else b

    found = carry_out("matmul", stored_a, stored_b, trans_a=trans_a, trans_b=trans_b)

    np.testing.assert_allclose(found, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_sums_in_a_wider_type_are_left_to_others() -> None:
    types = (TensorType(F32, (2, 2)),) * 2
    (spec,) = (spec for spec in kernel_specs() if spec.op == "matmul")

    assert spec.supports is not None
    assert not spec.supports(OpCall(op="matmul", inputs=types, outputs=types[:1], settings={"acc": (F64, F32)}))
