"""Shapes of data movement against NumPy's, and what is read from where."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.dtypes import BY_NAME
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.catalog.rearrangement import moved_by
from openinfer.ops.equations import equation_of
from openinfer.ops.margins import margins
from openinfer.ops.schema import OpSchema, OpTypeError
from openinfer.ops.strides import contiguous
from openinfer.ops.transposed_windows import transposed_windows

Catalog = Mapping[str, OpSchema]
Shape = tuple[int, ...]
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
filled = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def moved(catalog: Catalog, op: str, x: np.ndarray, **settings: Any) -> list[np.ndarray]:
    """Return the results of an operator as its views say, element by element."""
    call = call_of(catalog[op], [TensorType(BY_NAME["i64"], x.shape)], settings)
    flat, own = x.reshape(-1), contiguous(x.shape)
    results: list[np.ndarray] = []
    for result, kind in zip(moved_by(call), call.outputs, strict=True):
        view = result.view
        start, strides = view.offset(own), view.strides(own)
        places = [start + sum(i * s for i, s in zip(at, strides, strict=True)) for at in np.ndindex(*view.extents)]
        assert all(0 <= place < max(x.size, 1) for place in places)
        assert view.count == math.prod(kind.shape)
        results.append(np.array([flat[place] for place in places], x.dtype).reshape(kind.shape))
    return results


def counted(shape: Sequence[int]) -> np.ndarray:
    return np.arange(math.prod(shape), dtype=np.int64).reshape(tuple(shape))


@given(st.data())
def test_slices_are_pythons(catalog: Catalog, data: st.DataObject) -> None:
    x = counted(data.draw(shapes.filter(len)))
    rank = data.draw(st.integers(1, x.ndim))
    axes = tuple(data.draw(st.permutations(range(x.ndim)))[:rank])
    bound = st.integers(-7, 7)
    cuts = [slice(data.draw(bound), data.draw(bound), data.draw(bound.filter(bool))) for _ in axes]
    expected = [slice(None)] * x.ndim
    for axis, cut in zip(axes, cuts, strict=True):
        expected[axis] = cut
    starts, ends, steps = zip(*((cut.start, cut.stop, cut.step) for cut in cuts), strict=True)

    (found,) = moved(catalog, "slice", x, axes=axes, starts=starts, ends=ends, steps=steps)

    assert np.array_equal(found, x[tuple(expected)])


@given(shapes, st.data())
def test_tiles_repetitions_and_reversals_are_numpys(catalog: Catalog, shape: Shape, data: st.DataObject) -> None:
    x = counted(shape)
    repeats = tuple(data.draw(st.integers(0, 3)) for _ in shape)
    assert np.array_equal(moved(catalog, "tile", x, repeats=repeats)[0], np.tile(x, repeats))
    for axis in range(-x.ndim, x.ndim):
        count = data.draw(st.integers(0, 3))
        assert np.array_equal(moved(catalog, "repeat", x, axis=axis, count=count)[0], np.repeat(x, count, axis=axis))
        assert np.array_equal(moved(catalog, "flip", x, axes=(axis,))[0], np.flip(x, axis))


@given(filled, st.data())
def test_expansion_is_numpys(catalog: Catalog, shape: Shape, data: st.DataObject) -> None:
    given_shape = tuple(data.draw(st.sampled_from([1, extent])) for extent in shape)
    wanted = tuple(data.draw(st.sampled_from([1, extent])) for extent in shape)
    x = counted(given_shape)

    (found,) = moved(catalog, "expand", x, shape=wanted)

    assert np.array_equal(found, np.broadcast_to(x, np.broadcast_shapes(given_shape, wanted)))


@given(filled, st.data())
def test_parts_fill_the_whole(catalog: Catalog, shape: Shape, data: st.DataObject) -> None:
    x = counted(shape)
    axis = data.draw(st.integers(0, x.ndim - 1))
    parts = data.draw(st.integers(1, 5))
    chunk = -(-shape[axis] // parts)
    if shape[axis] - chunk * (parts - 1) < 1:
        with pytest.raises(OpTypeError, match="something left for the last"):
            moved(catalog, "split", x, axis=axis, parts=parts)
        return

    found = moved(catalog, "split", x, axis=axis, parts=parts)

    assert np.array_equal(np.concatenate(found, axis=axis), x)
    assert [part.shape[axis] for part in found[:-1]] == [chunk] * (parts - 1)


@given(st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
def test_blocks_come_back(catalog: Catalog, block: int, depth: int, rows: int, columns: int) -> None:
    x = counted((2, depth * block * block, rows, columns))

    (wide,) = moved(catalog, "depth_to_space", x, block=block)

    assert np.array_equal(moved(catalog, "space_to_depth", wide, block=block)[0], x)


@given(st.integers(1, 5), st.integers(0, 9), st.integers(0, 9), st.sampled_from(["reflect", "edge", "wrap"]))
def test_margins_are_numpys(size: int, before: int, after: int, mode: Any) -> None:
    expected = np.pad(np.arange(size), (before, after), mode=mode)

    (margin,) = margins((size,), {"pads": (before, after), "mode": mode})

    assert [margin.source(place, mode) for place in range(margin.extent)] == expected.tolist()


def test_margins_are_cut_off_before_others_are_filled() -> None:
    (margin,) = margins((5,), {"pads": (-2, 3), "mode": "reflect"})

    assert [margin.source(place, "reflect") for place in range(margin.extent)] == [2, 3, 4, 3, 2, 3]


@pytest.mark.parametrize(
    "text",
    ["ij,jk->ik", "ij,jk", "...i,ij->...j", "i...->...", "ii->i", "ij->", "ba", "i,j,k->kji", "..."],
)
def test_equations_have_numpys_shape(text: str) -> None:
    extents = {"b": 2, "a": 3, "i": 4, "j": 5, "k": 6}
    arrays = [
        np.ones((*(extents[c] for c in before), *((7, 1) if dots else ()), *(extents[c] for c in after)))
        for before, dots, after in (term.partition("...") for term in text.partition("->")[0].split(","))
    ]

    assert equation_of(text, [a.shape for a in arrays]).shape == np.einsum(text, *arrays).shape


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("ij,jk->ik", (2, 3), "for 2 inputs, found 1"),
        ("i1->i", (2, 3), "expected letters"),
        ("...i...", (2, 3), "expected letters"),
        ("i->i", (2, 3), "2 dims"),
        ("ijk", (2, 3), "2 dims"),
        ("ii", (2, 3), "'i' is 2 and 3"),
        ("ij->ik", (2, 3), "'k', which no input has"),
        ("ij->ii", (2, 3), "a letter twice"),
    ],
)
def test_an_equation_that_does_not_fit_is_refused(text: str, shape: Shape, message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        equation_of(text, [shape])


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2))
def test_a_transposed_window_is_undone_by_a_window(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int
) -> None:
    settings: dict[str, Any] = {"stride": stride, "dilation": dilation, "padding": (before, after)}
    whole = stride * (size - 1) + dilation * (kernel - 1) + 1
    if whole <= before + after:
        with pytest.raises(OpTypeError, match="leaves none"):
            transposed_windows((size,), (kernel,), settings)
        return

    (window,) = transposed_windows((size,), (kernel,), settings)

    reached = {i * stride + k * dilation - before for i in range(size) for k in range(kernel)}
    assert window.positions == max(reached) + 1 - after
    assert min(reached) == -before


def test_a_range_without_an_end_is_refused(catalog: Catalog) -> None:
    declared = [TensorType(BY_NAME["f64"], (1,))]
    with pytest.raises(OpTypeError, match="no end"):
        call_of(catalog["range"], [], {"start": -1.7e308, "limit": 1.7e308}, declared)
