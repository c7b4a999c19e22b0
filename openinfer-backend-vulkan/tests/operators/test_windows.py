"""Convolution and pooling against sums and maxima over windows that the test cuts out itself."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]


def cut(
    x: Array, kernel: tuple[int, int], stride: int, padding: int, dilation: int
) -> Iterator[tuple[int, int, Array]]:
    """Yield row, column and window [N, C, h, w] of every position; what is outside the image is masked."""
    space = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.ma.masked_array(np.pad(x, space), np.pad(np.zeros(x.shape, bool), space, constant_values=True))
    extents = [dilation * (k - 1) + 1 for k in kernel]
    starts = [range(0, padded.shape[2 + n] - extents[n] + 1, stride) for n in range(2)]
    for (row, top), (column, left) in itertools.product(enumerate(starts[0]), enumerate(starts[1])):
        yield row, column, padded[:, :, top : top + extents[0] : dilation, left : left + extents[1] : dilation]


def pooled(x: Array, kernel: tuple[int, int], stride: int, padding: int, dilation: int, pool: Any) -> Array:
    found = {(r, c): pool(window) for r, c, window in cut(x, kernel, stride, padding, dilation)}
    rows, columns = (max(place[n] for place in found) + 1 for n in range(2))
    return np.stack([np.stack([found[r, c] for c in range(columns)], -1) for r in range(rows)], -2)


def normal(*shape: int) -> Array:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "groups"),
    [((3, 3), 1, 1, 1, 1), ((1, 1), 1, 0, 1, 1), ((2, 3), 2, 1, 1, 2), ((3, 2), 1, 2, 2, 4), ((3, 3), 3, 0, 1, 4)],
)
def test_conv2d_is_a_sum_over_windows(
    carry_out: CarryOut, kernel: tuple[int, int], stride: int, padding: int, dilation: int, groups: int, bias: bool
) -> None:
    x, w, b = normal(2, 4, 7, 6), normal(8, 4 // groups, *kernel), normal(8)

    def product(window: Array) -> Array:
        values = window.filled(0).astype(np.float64).reshape(2, groups, -1)
        weights = w.astype(np.float64).reshape(groups, 8 // groups, -1)
        return np.einsum("ngk,gok->ngo", values, weights).reshape(2, 8) + (b if bias else 0)

    expected = pooled(x, kernel, stride, padding, dilation, product)

    found = carry_out(
        "conv2d", x, w, b if bias else None, stride=stride, padding=padding, dilation=dilation, groups=groups
    )

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), [(2, 2, 0, 1), (3, 1, 1, 1), (2, 3, 1, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32])
def test_max_pool2d_is_the_greatest_element_of_each_window(
    carry_out: CarryOut, kernel: int, stride: int, padding: int, dilation: int, dtype: type[np.generic]
) -> None:
    x = (normal(2, 3, 7, 8) * 1000 - 3000).astype(np.int64).astype(dtype)
    expected = pooled(x, (kernel, kernel), stride, padding, dilation, lambda window: window.max((2, 3)).data)

    found = carry_out("max_pool2d", x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)

    assert found.tolist() == expected.tolist()


def test_max_pool2d_passes_a_nan_over_unless_nothing_else_is_there(carry_out: CarryOut) -> None:
    nan = np.nan
    x = np.array([[[[nan, 1.0, nan, nan], [2.0, nan, nan, nan]]]], np.float32)

    assert str(carry_out("max_pool2d", x, kernel=2, stride=2).tolist()) == "[[[[2.0, nan]]]]"


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1)])
def test_avg_pool2d_is_the_mean_of_each_window(
    carry_out: CarryOut, kernel: int, stride: int, padding: int, counted: bool
) -> None:
    x = normal(2, 3, 7, 8)

    def mean(window: Array) -> Array:
        return np.asarray(window.filled(0).mean((2, 3)) if counted else window.mean((2, 3)))

    expected = pooled(x.astype(np.float64), (kernel, kernel), stride, padding, 1, mean)

    found = carry_out("avg_pool2d", x, kernel=kernel, stride=stride, padding=padding, count_include_pad=counted)

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_window_beyond_the_padding_counts_what_is_inside(carry_out: CarryOut) -> None:
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)

    found = carry_out("avg_pool2d", x, kernel=2, stride=2, ceil_mode=True, count_include_pad=True)

    assert found.tolist() == [[[[2.0, 3.5], [6.5, 8.0]]]]


def spread_and_summed(x: Array, w: Array, stride: int, padding: int, dilation: int, groups: int) -> Array:
    """Return each element of x times the kernels of its group, added up at its window of the result."""
    (images, channels, *size), (_, kernels, *taps) = x.shape, w.shape
    whole = [stride * (n - 1) + dilation * (k - 1) + 1 for n, k in zip(size, taps, strict=True)]
    total = np.zeros((images, groups * kernels, *whole))
    depth = channels // groups
    for image, channel, row, column in np.ndindex(x.shape):
        first = channel // depth * kernels
        places = (
            slice(start * stride, start * stride + dilation * (k - 1) + 1, dilation)
            for start, k in zip((row, column), taps, strict=True)
        )
        total[image, first : first + kernels, *places] += x[image, channel, row, column].astype(np.float64) * w[channel]
    inside = (slice(padding, n - padding) for n in whole)
    return total[:, :, *inside]


TRANSPOSED = pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1), (3, 0, 1, 4), (2, 1, 2, 2)],
)


@TRANSPOSED
@pytest.mark.parametrize("bias", [False, True])
def test_conv_transpose2d_adds_up_what_each_element_gives(
    carry_out: CarryOut, stride: int, padding: int, dilation: int, groups: int, bias: bool
) -> None:
    x, w, b = normal(2, 4, 3, 5), normal(4, 3, 3, 2), normal(3 * groups)
    expected = spread_and_summed(x, w, stride, padding, dilation, groups) + (b[:, None, None] if bias else 0)
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    found = carry_out("conv_transpose2d", x, w, b if bias else None, **settings)

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_transposed_convolution_multiplies_nothing_between_elements(carry_out: CarryOut) -> None:
    x, w = np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 2, 2), np.float32)
    w[0, 0, 0, 1] = np.inf

    found = carry_out("conv_transpose2d", x, w, stride=2)

    assert found[0, 0].tolist() == [[1, np.inf, 1, np.inf], [1, 1, 1, 1]] * 2


@pytest.mark.usefixtures("few_turns")
def test_a_transposed_convolution_is_divided_by_channels(carry_out: CarryOut) -> None:
    x, w = normal(1, 5, 3, 3).astype(np.float16), np.ones((5, 2, 1, 1), np.float16)

    found = carry_out("conv_transpose2d", x, w)

    np.testing.assert_allclose(found, np.repeat(x.sum(1, keepdims=True, dtype=np.float32), 2, 1), rtol=1e-3, atol=1e-3)
