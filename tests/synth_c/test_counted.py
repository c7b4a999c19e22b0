"""Results with as many rows as an operator counts, as C that sanitizers watch and Frama-C proves."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
from generated_c import assert_steps_agree, needs_gcc, noise, synthesised

pytestmark = needs_gcc
needs_frama_c = pytest.mark.skipif(shutil.which("frama-c") is None, reason="frama-c is not installed")

ROWS = """
constant { half: f32 @init(0.5); }
dynamic { x: f32[6, 3]; }
block entry {
  op sub(x, half) >> above;
  op relu(above) >> r;
  op nonzero(r) >> places, n;
  op gather_nd(x, places) >> high;
  op exp(high) >> e;
  op reshape(e, shape=[n, 1]) >> column;
  op matmul(column, column, trans_a=true) >> product;
  return places, n, high, product;
}
"""
GROUPS = """
dynamic { x: f32[9]; }
block entry {
  op round(x) >> whole;
  op unique(whole) >> values, n, counts, indices, inverse;
  op nonzero(indices) >> others, m;
  return values, n, counts, indices, inverse, others, m;
}
"""
DETECTIONS = """
dynamic { boxes: f32[2, 9, 4]; scores: f32[2, 3, 9]; }
block entry {
  op nms(boxes, scores, max_output_boxes=4, iou_threshold=0.25, score_threshold=0.25) >> kept, n;
  op slice(kept, axes=[1], starts=[0], ends=[2]) >> classes;
  op sum_axis(classes, axes=[1]) >> s;
  return kept, n, s;
}
"""


def few(*shape: int) -> np.ndarray:
    """Return steps of noise, of which the first has nothing that is kept and the second is kept as a whole."""
    steps = np.abs(noise(*shape, seed=3)) * 4
    steps[0], steps[1] = 0, 1
    return steps


SWAPPED = """
dynamic { x: f32[6]; }
constant { zero: f32 @init(0.0); }
block swap { transfer low >> left; transfer high >> low; transfer left >> high; }
block entry {
  op gt(x, zero) >> mask;
  op masked_select(x, mask) >> high;
  op le(x, zero) >> mask;
  op masked_select(x, mask) >> low;
  branch swap;
  op neg(high) >> high;
  return high, low;
}
"""


def test_copies_of_rows_in_blocks_have_room_for_all_of_them() -> None:
    """The block is planned before the statements that say how many rows there are."""
    x = noise(3, 6, seed=2)
    x[0], x[1] = 1, -1
    plan = assert_steps_agree(SWAPPED, steps=3, x=x)
    assert {value.type.shape for value in plan.values if value.name in {"high", "low", "left"}} == {(6,)}


@pytest.mark.parametrize("text", [ROWS, GROUPS], ids=["rows", "groups"])
def test_counted_rows_under_sanitizers(text: str) -> None:
    shape = (20, 6, 3) if text is ROWS else (20, 9)
    plan = assert_steps_agree(text, x=few(*shape))
    assert [port.name for port in plan.outputs if port.extents is not None]


def test_detections_under_sanitizers() -> None:
    assert_steps_agree(DETECTIONS, boxes=few(20, 2, 9, 4), scores=few(20, 2, 3, 9))


@pytest.mark.parametrize("count", [0, 1, 4])
def test_detections_among_fewer_boxes_than_may_be_kept(count: int) -> None:
    text = DETECTIONS.replace("9", "N")
    boxes, scores = np.zeros((1, 2, count, 4), np.float32), np.ones((1, 2, 3, count), np.float32)
    boxes[..., 2:], boxes[..., 0] = 1, 2 * np.arange(count)
    plan = assert_steps_agree(text, {}, {"N": 2}, {"N": 4}, steps=1, boxes=boxes, scores=scores)
    assert plan.outputs[0].type.shape == (24, 3)


def test_what_follows_a_count_needs_no_test_of_it() -> None:
    """The number and the length of the rows are one size: nothing compares them when the program runs."""
    text = (
        "dynamic { x: f32[6, 3]; } block entry { op nonzero(x) >> p, n; op reshape(p, shape=[2 * n]) >> y; return y; }"
    )
    _, _, synthesis = synthesised(text)
    assert b"MODEL_SHAPE; }" not in synthesis.bundle.files["model.c"]


def test_a_count_that_does_not_fit_has_the_status_of_sizes() -> None:
    """The rows have no two parts."""
    text = (
        "dynamic { x: f32[6]; } block entry { op unique(x) >> v, n, c; op split(c, parts=2) >> a, b; "
        "op sum_axis(a, axes=0) >> y; return y; }"
    )
    _, _, synthesis = synthesised(text)
    assert re.search(rb"given < 1.*MODEL_SHAPE", synthesis.bundle.files["model.c"])


@needs_frama_c
@pytest.mark.parametrize("text", [ROWS, GROUPS, DETECTIONS], ids=["rows", "groups", "detections"])
def test_counted_rows_are_proved(text: str) -> None:
    _, _, synthesis = synthesised(text)
    assert synthesis.prove().proof.alarms == ()
