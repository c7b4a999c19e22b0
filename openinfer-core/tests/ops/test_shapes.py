"""Shape rules, against NumPy's own and against counting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.dtypes import BY_NAME
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.schema import OpSchema, OpTypeError
from openinfer.ops.shapes import broadcast
from openinfer.ops.windows import windows

dims = st.integers(0, 4)
shapes = st.lists(dims, max_size=4).map(tuple)
Catalog = Mapping[str, OpSchema]


def inferred(catalog: Catalog, op: str, *shapes_: tuple[int, ...] | None, dtype: str = "f32", **settings: Any) -> Any:
    """Return the output type of a call on inputs of these shapes."""
    types = [None if shape is None else TensorType(BY_NAME[dtype], shape) for shape in shapes_]
    return call_of(catalog[op], types, settings).outputs[0]


@pytest.mark.rule("operators.shapes.1")
@given(st.lists(shapes, min_size=1, max_size=3))
def test_broadcasting_is_numpys(given_shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(OpTypeError, match="do not broadcast"):
            broadcast(*given_shapes)
    else:
        assert broadcast(*given_shapes) == expected


@given(shapes, shapes)
def test_products_have_numpys_shape(catalog: Catalog, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        expected = np.matmul(np.zeros(a), np.zeros(b)).shape
    except ValueError:
        with pytest.raises(OpTypeError):
            inferred(catalog, "matmul", a, b)
    else:
        assert inferred(catalog, "matmul", a, b).shape == expected


def test_products_of_transposed_matrices(catalog: Catalog) -> None:
    assert inferred(catalog, "matmul", (3, 2), (5, 3), trans_a=True, trans_b=True).shape == (2, 5)


@given(st.data())
def test_transposition_is_numpys(catalog: Catalog, data: st.DataObject) -> None:
    shape = data.draw(shapes)
    perm = data.draw(st.none() | st.permutations(range(len(shape))).map(tuple))
    settings = {} if perm is None else {"dims": perm}

    assert inferred(catalog, "transpose", shape, **settings).shape == np.zeros(shape).transpose(perm).shape


@pytest.mark.parametrize("perm", [(0, 0), (0,), (0, 2), (0, 1, 2)])
def test_only_permutations_are_accepted(catalog: Catalog, perm: tuple[int, ...]) -> None:
    with pytest.raises(OpTypeError):
        inferred(catalog, "transpose", (2, 3), perm=perm)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_reshaping_infers_one_dim(catalog: Catalog, dims_: list[int], data: st.DataObject) -> None:
    wanted = data.draw(st.permutations(dims_))
    place = data.draw(st.integers(0, len(wanted) - 1))
    written = tuple(-1 if i == place else dim for i, dim in enumerate(wanted))

    assert inferred(catalog, "reshape", tuple(dims_), shape=written).shape == np.zeros(dims_).reshape(written).shape


def test_reshaping_copies_dims_written_as_0(catalog: Catalog) -> None:
    assert inferred(catalog, "reshape", (5, 24, 4, 4), shape=(0, -1)).shape == (5, 384)


@pytest.mark.rule("operators.shapes.3")
def test_reshaping_takes_the_declared_shape_by_default(catalog: Catalog) -> None:
    x, y = (TensorType(BY_NAME["i4"], shape) for shape in ((2, 3), (6,)))

    assert call_of(catalog["reshape"], [x], {}, [y]).outputs == (y,)


@pytest.mark.parametrize(
    ("shape", "wanted"), [((2, 3), (4,)), ((2, 3), (-1, 4)), ((2, 3), (-1, -1)), ((2,), (1, 0)), ((0, 3), (0, -1, 0))]
)
def test_shapes_that_do_not_fit_are_refused(catalog: Catalog, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    with pytest.raises(OpTypeError):
        inferred(catalog, "reshape", shape, shape=wanted)


@pytest.mark.parametrize(("axis", "expected"), [(0, (1, 24)), (1, (2, 12)), (3, (24, 1)), (-1, (6, 4))])
def test_flattening(catalog: Catalog, axis: int, expected: tuple[int, ...]) -> None:
    assert inferred(catalog, "flatten", (2, 3, 4), axis=axis).shape == expected


@pytest.mark.rule("operators.windows.2")
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.integers(0, 3))
def test_windows_are_all_that_fit(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> None:
    extent = dilation * (kernel - 1) + 1
    starts = [start for start in range(0, before + size + after, stride) if start + extent <= before + size + after]
    settings = {"stride": stride, "dilation": dilation, "padding": (before, after)}

    if not starts:
        with pytest.raises(OpTypeError, match="does not fit"):
            windows((size,), (kernel,), settings)
        return
    (window,) = windows((size,), (kernel,), settings)
    assert window.positions == len(starts)
    assert [window.places(position)[0] for position in range(window.positions)] == [s - before for s in starts]
    assert all(len(window.places(position)) == kernel for position in range(window.positions))


@pytest.mark.rule("operators.windows.1")
@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_padding_that_keeps_the_size(size: int, kernel: int, stride: int, dilation: int) -> None:
    for name in ("same_upper", "same_lower"):
        settings = {"stride": stride, "dilation": dilation, "padding": name}
        (window,) = windows((size,), (kernel,), settings)

        assert window.positions == math.ceil(size / stride)
        assert window.after - window.before in ((0, 1) if name == "same_upper" else (0, -1))


@pytest.mark.rule("operators.windows.1")
def test_paddings_of_two_dims() -> None:
    def sides(padding: Any) -> list[tuple[int, int]]:
        return [(w.before, w.after) for w in windows((9, 9), (3, 3), {"padding": padding})]

    assert sides(1) == [(1, 1), (1, 1)]
    assert sides((1, 2)) == [(1, 1), (2, 2)]
    assert sides((1, 2, 3, 4)) == [(1, 3), (2, 4)]
    assert sides("valid") == [(0, 0), (0, 0)]


@pytest.mark.parametrize(
    "settings", [{"padding": -1}, {"padding": (1, 2, 3)}, {"padding": "same"}, {"stride": 0}, {"dilation": (1, 2, 3)}]
)
def test_illegal_windows_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(OpTypeError) as caught:
        windows((9, 9), (3, 3), settings)

    assert caught.value.code == "setting-type"


CONVOLUTIONS = [
    ((1, 1, 8, 8), (24, 1, 3, 3), {"padding": 1}, (1, 24, 8, 8)),
    ((2, 6, 9, 7), (4, 3, 3, 1), {"groups": 2, "stride": (2, 1), "pads": (0, 1)}, (2, 4, 4, 9)),
    ((1, 6, 5, 5), (6, 1, 3, 3), {"group": 6, "dilations": 2}, (1, 6, 1, 1)),
]


@pytest.mark.parametrize(("x", "w", "settings", "expected"), CONVOLUTIONS)
def test_convolution(
    catalog: Catalog, x: tuple[int, ...], w: tuple[int, ...], settings: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert inferred(catalog, "conv2d", x, w, (w[0],), **settings).shape == expected


@pytest.mark.parametrize(
    ("x", "w", "bias", "settings"),
    [
        ((1, 3, 8, 8), (4, 2, 3, 3), None, {}),
        ((1, 4, 8, 8), (3, 2, 3, 3), None, {"groups": 2}),
        ((1, 3, 2, 8), (4, 3, 3, 3), None, {}),
        ((1, 3, 8, 8), (4, 3, 3, 3), (3,), {}),
        ((3, 8, 8), (4, 3, 3, 3), None, {}),
    ],
)
def test_convolutions_that_do_not_fit_are_refused(
    catalog: Catalog, x: tuple[int, ...], w: tuple[int, ...], bias: tuple[int, ...] | None, settings: dict[str, Any]
) -> None:
    with pytest.raises(OpTypeError) as caught:
        inferred(catalog, "conv2d", x, w, bias, **settings)

    assert caught.value.code == "shape-mismatch"


def test_convolution_of_integers_needs_an_accumulator(catalog: Catalog) -> None:
    with pytest.raises(OpTypeError, match="needs acc"):
        inferred(catalog, "conv2d", (1, 1, 3, 3), (1, 1, 3, 3), dtype="i8")

    found = inferred(catalog, "conv2d", (1, 1, 3, 3), (1, 1, 3, 3), dtype="i8", acc=(BY_NAME["i32"],))
    assert str(found) == "i32[1,1,1,1]"


def test_pooling(catalog: Catalog) -> None:
    assert inferred(catalog, "max_pool2d", (1, 24, 8, 8), kernel=2, stride=2).shape == (1, 24, 4, 4)
    assert inferred(catalog, "avg_pool2d", (1, 2, 5, 7), kernel=(2, 3), stride=2).shape == (1, 2, 2, 3)
    assert inferred(catalog, "max_pool2d", (1, 2, 5, 7), kernel=2, stride=2, ceil_mode=True).shape == (1, 2, 3, 4)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3))
def test_windows_past_the_end_count_when_they_begin_inside(size: int, kernel: int, stride: int, pad: int) -> None:
    room = size + 2 * pad
    starts = [s for s in range(0, room, stride) if s < size + pad and (s == 0 or s - stride + kernel < room)]
    settings = {"stride": stride, "padding": pad, "ceil_mode": True}

    if pad < kernel <= room:
        assert windows((size,), (kernel,), settings)[0].positions == len(starts)


def test_windows_of_nothing_but_padding_are_refused(catalog: Catalog) -> None:
    with pytest.raises(OpTypeError, match="nothing but padding"):
        inferred(catalog, "max_pool2d", (1, 1, 4, 4), kernel=2, padding=2)


@pytest.mark.parametrize(("axis", "keepdims", "expected"), [(1, False, (2, 4)), (-1, True, (2, 3, 1))])
def test_positions_of_extremes(catalog: Catalog, axis: int, expected: tuple[int, ...], *, keepdims: bool) -> None:
    found = inferred(catalog, "argmax_axis", (2, 3, 4), axis=axis, keepdims=keepdims)

    assert found == TensorType(BY_NAME["i64"], expected)


def test_an_axis_of_a_scalar_is_refused(catalog: Catalog) -> None:
    with pytest.raises(OpTypeError, match="the input is a scalar"):
        inferred(catalog, "argmax_axis", (), axis=0)
