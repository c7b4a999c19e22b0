"""Elements that are errors after the work: indices out of range, by which nothing is read, exponents and zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.dtypes import T1
from openinfer.errors import ExecutionError
from openinfer.packing import unpack

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]

X = np.arange(15, dtype=np.float32).reshape(5, 3)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_negative_indices_count_from_the_end(carry_out: CarryOut, dtype: type[np.generic]) -> None:
    assert carry_out("gather", X, np.array([-5, 4, -1], dtype)).tolist() == X[[0, 4, 4]].tolist()


@pytest.mark.parametrize(
    ("dtype", "index", "legal"),
    [
        (np.int32, 5, "-5 to 4"),
        (np.int32, -6, "-5 to 4"),
        (np.int64, -(1 << 32), "-5 to 4"),
        (np.int64, 1 << 32, "-5 to 4"),
        (np.uint32, (1 << 32) - 1, "0 to 4"),
        (np.uint64, (1 << 64) - 1, "0 to 4"),
    ],
)
def test_an_index_out_of_range_is_named_by_its_place(
    carry_out: CarryOut, dtype: type[np.generic], index: int, legal: str
) -> None:
    indices = np.array([[0, 1], [2, index]], dtype)

    with pytest.raises(
        ExecutionError, match=rf"gather: .*\[2,2\]: the element at \[1, 1\] is out of .*{legal}"
    ) as caught:
        carry_out("gather", X, indices)

    assert caught.value.code == "out-of-range"
    assert carry_out("gather", X, np.array([1], dtype)).tolist() == X[[1]].tolist()


def test_ids_of_an_embedding_are_not_negative(carry_out: CarryOut) -> None:
    with pytest.raises(ExecutionError, match=r"embedding: .*0 to 4"):
        carry_out("embedding", np.array([0, -1]), X)


@pytest.mark.parametrize(
    ("op", "inputs", "settings"),
    [
        ("gather_elements", [np.array([[0, 1, 7]])], {}),
        ("gather_nd", [np.array([[0, 3]])], {}),
        ("scatter", [np.array([[0, 1, 7]]), X[:1]], {}),
        ("scatter", [np.array([[0, 1, 7]]), X[:1]], {"reduction": "add"}),
        ("scatter_nd", [np.array([[5]]), X[:1]], {}),
    ],
)
def test_every_operator_with_indices_tests_them(
    carry_out: CarryOut, op: str, inputs: list[Array], settings: dict[str, Any]
) -> None:
    with pytest.raises(ExecutionError, match=f"{op}: .* is out of range"):
        carry_out(op, X, *inputs, **settings)


def test_an_element_without_a_sign_is_named_by_its_place(carry_out: CarryOut) -> None:
    x = np.array([[2.5, -np.inf], [-0.5, np.nan]], np.float32)
    settings = {"to": T1, "saturate": False}
    said = r"cast: f32\[2,2\]: the element at \[1, 0\] is out of range \(t1 is -1 or 1"

    with pytest.raises(ExecutionError, match=said) as caught:
        carry_out("cast", x, **settings)

    assert caught.value.code == "out-of-range"
    assert unpack(carry_out("cast", x[0], **settings), T1, (2,)).tolist() == [1, -1]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_a_negative_exponent_is_named_by_its_place(carry_out: CarryOut, dtype: type[np.generic]) -> None:
    a, b = np.array([[2], [-3]], dtype), np.array([3, 0], dtype)
    said = r"pow: i\d+\[2\]: the element at \[1\] is out of range \(integers take exponents from 0 on\)"

    with pytest.raises(ExecutionError, match=said) as caught:
        carry_out("pow", a, np.array([3, -1], dtype))

    assert caught.value.code == "out-of-range"
    assert carry_out("pow", a, b).tolist() == [[8, 1], [-27, 1]]
