"""Broadcasting as strides, against NumPy's own broadcasting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import BroadcastableShapes, mutually_broadcastable_shapes

from openinfer.ops.strides import broadcast_strides, contiguous


@given(st.lists(st.integers(1, 4), max_size=8))
def test_strides_are_those_of_a_row_major_array(shape: list[int]) -> None:
    assert contiguous(shape) == np.empty(shape, np.uint8).strides


@given(mutually_broadcastable_shapes(num_shapes=2, min_side=1, max_dims=6, max_side=3))
def test_elements_are_those_that_numpy_broadcasts(shapes: BroadcastableShapes) -> None:
    target = shapes.result_shape

    for shape in shapes.input_shapes:
        elements = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        strides = np.array(broadcast_strides(shape, target), int)
        places = np.indices(target).reshape(len(target), int(np.prod(target)))
        assert (strides @ places).tolist() == np.broadcast_to(elements, target).reshape(-1).tolist()


@pytest.mark.parametrize(("shape", "target"), [((2,), (3,)), ((2, 3), (3,)), ((3,), (1,)), ((0,), (2,))])
def test_shapes_that_do_not_broadcast_are_refused(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not broadcast"):
        broadcast_strides(shape, target)
