"""Broadcasting as strides, against NumPy's own broadcasting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from openinfer.ops.strides import Walk, broadcast_strides, broadcast_walk, merged


def positions(walk: Walk, operand: int) -> list[int]:
    """Return the element that each position of a walk reads, as the shader computes it."""
    every = itertools.product(*map(range, walk.extents))
    return [sum(at * step for at, step in zip(where, walk.strides[operand], strict=True)) for where in every]


@given(mutually_broadcastable_shapes(num_shapes=3, min_side=1, max_dims=8, max_side=3))
def test_a_walk_reads_what_numpy_broadcasts(shapes: object) -> None:
    target = shapes.result_shape
    walk = broadcast_walk(target, shapes.input_shapes)

    for number, shape in enumerate(shapes.input_shapes):
        elements = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        assert positions(walk, number) == np.broadcast_to(elements, target).reshape(-1).tolist()


@given(st.lists(st.integers(1, 4), max_size=8))
def test_operands_of_the_output_shape_take_one_dimension(shape: list[int]) -> None:
    walk = broadcast_walk(shape, [shape, shape, ()])

    assert walk.rank <= 1
    assert all(strides == (1,) for strides in walk.strides[:2] if walk.rank)


def test_a_row_and_a_column_keep_two_dimensions() -> None:
    assert broadcast_walk((4, 1, 3, 5), [(3, 1), (4, 1, 3, 5)]) == Walk((4, 3, 5), ((0, 1, 0), (15, 5, 1)))


@pytest.mark.parametrize(("shape", "target"), [((2,), (3,)), ((2, 3), (3,)), ((3,), (1,)), ((0,), (2,))])
def test_shapes_that_do_not_broadcast_are_refused(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not broadcast"):
        broadcast_strides(shape, target)


def test_dimensions_of_extent_one_are_left_out() -> None:
    assert merged((1, 6, 1), [(99, 2, 77)]) == Walk((6,), ((2,),))
