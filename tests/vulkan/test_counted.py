"""Results with as many rows as an operator counts, as bundles of target vulkan and as whole programs of the device."""

from __future__ import annotations

import numpy as np
import pytest
from generated_vulkan import assert_steps_agree, needs_headers

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.simulate import Simulator

ROWS = """
constant { half: f32 @init(0.5); }
dynamic { x: f32[6, 3]; }
block entry {
  op gt(x, half) >> mask;
  op nonzero(mask) >> places, n;
  op gather_nd(x, places) >> high;
  op exp(high) >> e;
  op sum_axis(e, axes=[0]) >> total;
  op masked_select(x, mask) >> same;
  RETURN
}
"""
DETECTIONS = """
dynamic { boxes: f32[2, 9, 4]; scores: f32[2, 3, 9]; }
block entry {
  op nms(boxes, scores, max_output_boxes=4, iou_threshold=0.25, score_threshold=0.25) >> kept, n;
  op slice(kept, axes=[1], starts=[0], ends=[2]) >> classes;
  op unique(n_of) >> values, m, counts;
  return kept, n, classes, counts;
}
""".replace("op unique(n_of)", "op reshape(scores, shape=[54]) >> flat; op round(flat) >> whole; op unique(whole)")


def few(*shape: int) -> np.ndarray:
    """Return steps of which the first has nothing that is kept and the second is kept as a whole."""
    steps = np.random.default_rng(3).uniform(0, 4, shape).astype(np.float32)
    steps[0], steps[1] = 0, 1
    return steps


@needs_headers
def test_a_bundle_submits_once_what_depends_on_numbers_that_it_counts() -> None:
    synthesis = assert_steps_agree(ROWS.replace("RETURN", "return places, n, high, total, same;"), x=few(5, 6, 3))
    assert synthesis.bundle.files["model.c"].count(b"status = model_run(model, inputs, ") == 1


@needs_headers
def test_detections_of_a_bundle() -> None:
    assert_steps_agree(DETECTIONS, boxes=few(5, 2, 9, 4), scores=few(5, 2, 3, 9))


@pytest.mark.parametrize("device", ["c", "vulkan"])
def test_a_whole_program_counts(device: str) -> None:
    program = graph(ROWS.replace("RETURN", "return n, total;"))
    with Simulator(Model.from_arrays({}), program, device=device).make_executor() as executor:
        assert executor.runs_whole
        for x in few(4, 6, 3):
            executor.step(x=x)
            found = executor.outputs()
            assert found["n"] == (x > 0.5).sum()
            np.testing.assert_allclose(found["total"], np.exp(x[x > 0.5]).sum(), rtol=1e-5)


@pytest.mark.usefixtures("vulkan")
def test_results_of_a_whole_program_have_the_rows_of_their_step() -> None:
    program = graph(ROWS.replace("RETURN", "return n, high;"))
    with Simulator(Model.from_arrays({}), program, device="vulkan").make_executor() as executor:
        assert executor.runs_whole
        for x in few(4, 6, 3):
            executor.step(x=x)
            np.testing.assert_array_equal(executor.outputs()["high"], x[x > 0.5])
