"""Two sizes of steps that broadcast, in bundles of target vulkan and on its device: as NumPy makes of every pair."""

from __future__ import annotations

import numpy as np
import pytest
from broadcast_programs import LARGEST, TWO_DIMS, assert_broadcasts, input_of
from generated_vulkan import needs_headers, printed_by, synthesised

import openinfer as oi

pytestmark = pytest.mark.usefixtures("vulkan")


@needs_headers
@pytest.mark.rule("operators.shapes.7")
def test_sizes_broadcast_as_their_values_do_in_a_bundle():
    limits = {"T": LARGEST, "U": LARGEST}
    _, synthesis = synthesised(TWO_DIMS.program, sizes={"T": 2, "U": 2}, limits=limits)

    assert_broadcasts(TWO_DIMS, printed_by(TWO_DIMS.caller(), synthesis.bundle))


@pytest.mark.parametrize(("t", "u"), [(3, 3), (3, 1), (1, 3), (0, 1)])
def test_sizes_broadcast_as_their_values_do_on_the_device(t, u):
    model = oi.Model.from_arrays({}, sizevars={"T": 2, "U": 2})
    inputs = {"x": input_of(0, (t, u)), "w": input_of(1, (u, t)), "v": input_of(2, (u,))}

    with oi.Simulator(model, oi.graph(TWO_DIMS.program), device="vulkan").make_executor() as executor:
        executor.step(**inputs)

        np.testing.assert_array_equal(executor.outputs()["z"], TWO_DIMS.python["z"](**inputs))
