"""Results with as many rows as an operator counts, wherever a program runs, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import DeviceError, ExecutionError, ValidationError

Array = np.ndarray[Any, Any]
DEVICES = pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])

PLACES = """
constant { half: f32 @init(0.5); }
dynamic { x: f32[T, 3]; }
block entry {
  op gt(x, half) >> mask;
  op nonzero(mask) >> places, n;
  op gather_nd(x, places) >> high;
  op exp(high) >> e;
  op sum_axis(e, axes=[0]) >> total;
  op reshape(high, shape=[n, 1]) >> column;
  op masked_select(x, mask) >> selected;
  return places, n, high, total, column, selected;
}
"""
GROUPS = """
dynamic { x: f32[T, 3]; }
block entry {
  op reshape(x, shape=[3 * T]) >> flat;
  op round(flat) >> whole;
  op unique(whole) >> values, n, counts, indices, inverse;
  op gather(values, inverse) >> again;
  op nonzero(counts) >> all, m;
  op argsort(counts, axis=0) >> order;
  return values, n, counts, indices, again, m, order;
}
"""
DETECTIONS = """
dynamic { x: f32[T, 3]; boxes: f32[1, 6, 4]; scores: f32[1, 2, 6]; }
block entry {
  op nms(boxes, scores, max_output_boxes=4, iou_threshold=0.5, score_threshold=0.25) >> kept, n;
  op select(kept, axis=1, index=2) >> places;
  op reshape(boxes, shape=[6, 4]) >> all;
  op gather(all, places) >> found;
  return kept, n, found;
}
"""


def executor_on(device: str, text: str) -> Any:
    try:
        return oi.Simulator(oi.Model.from_arrays({}, sizevars={"T": 4}), oi.graph(text), device).make_executor()
    except DeviceError as error:
        pytest.skip(str(error))


def steps() -> list[Array]:
    """Return inputs of steps of several sizes: among them nothing that is kept, everything, and no rows at all."""
    noise = np.random.default_rng(5).uniform(-3, 3, (4, 3)).astype(np.float32)
    return [noise, np.zeros((4, 3), np.float32), np.ones((2, 3), np.float32), np.zeros((0, 3), np.float32), noise[:1]]


@DEVICES
def test_statements_compute_with_the_rows_that_are_counted(device: str) -> None:
    with executor_on(device, PLACES) as executor:
        for x in steps():
            executor.step(x=x)
            found, mask = executor.outputs(), x > 0.5
            np.testing.assert_array_equal(found["places"], np.argwhere(mask))
            assert found["n"] == mask.sum()
            np.testing.assert_array_equal(found["high"], x[mask])
            np.testing.assert_allclose(found["total"], np.exp(x[mask]).sum(), rtol=1e-5)
            np.testing.assert_array_equal(found["column"], x[mask][:, None])
            np.testing.assert_array_equal(found["selected"], x[mask])


@DEVICES
def test_counted_rows_are_counted_and_sorted_again(device: str) -> None:
    with executor_on(device, GROUPS) as executor:
        for x in steps():
            executor.step(x=x)
            found, whole = executor.outputs(), np.rint(x).reshape(-1) + 0.0
            values, indices, counts = np.unique(whole, return_index=True, return_counts=True)
            np.testing.assert_array_equal(found["values"], values)
            np.testing.assert_array_equal(found["counts"], counts)
            np.testing.assert_array_equal(found["indices"], indices)
            np.testing.assert_array_equal(found["again"], whole)
            assert (found["n"], found["m"]) == (len(values), len(values))
            np.testing.assert_array_equal(found["order"], np.argsort(counts, stable=True))


@DEVICES
def test_detections_after_suppression(device: str) -> None:
    corners = [[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 4, 4], [4, 4, 5, 5.2], [9, 9, 9, 9], [0, 1, 2, 3]]
    boxes = np.array([corners], np.float32)
    scores = np.array([[[0.5, 0.9, 0.3, 0.3, 0.26, 0.2], [0.25, 0, 0, 0, 0, 1]]], np.float32)
    with executor_on(device, DETECTIONS) as executor:
        executor.step(x=steps()[0], boxes=boxes, scores=scores)
        found = executor.outputs()
        # Box 0 overlaps box 1 by 0.95; of the boxes 2 and 3 with equal scores the first is kept; 4 has no area.
        assert found["kept"].tolist() == [[0, 0, 1], [0, 0, 2], [0, 0, 4], [0, 1, 5]]
        assert found["n"] == 4
        np.testing.assert_array_equal(found["found"], boxes[0][[1, 2, 4, 5]])
        executor.step(x=steps()[0], boxes=boxes, scores=np.zeros_like(scores))
        assert (executor.outputs()["n"], executor.outputs()["found"].shape) == (0, (0, 4))


LOOP = """
dynamic { x: f32[T, 3]; }
volatile { total: i64; y: i64[12, 2]; }
block entry {
  op nonzero(x) >> places, n;
  op nonzero(x) >> y;
  loop each (i in 0..n) {
    op slice(places, axes=[0], starts=[i], ends=[i + 1]) >> row;
    op sum_axis(row, axes=[0, 1]) >> place;
    op add(total, place) >> total;
  }
  return total, y;
}
"""


@DEVICES
@pytest.mark.rule("language.counts.2", "language.counts.4")
def test_a_count_is_a_bound_of_a_loop_and_a_declared_result_takes_the_rows_too(device: str) -> None:
    with executor_on(device, LOOP) as executor:
        for x in steps()[:2]:
            executor.step(x=x)
            assert executor.fetch("total") == np.argwhere(x).sum()
            np.testing.assert_array_equal(executor.fetch("y"), np.argwhere(x))


CACHED = """
dynamic { x: f32[T, 3]; }
persistent { K(t): f32 @table @fixed(t=64); length: i64; }
block entry {
  cache.read length >> at;
  op masked_select(x, mask=mask) >> kept, n;
  cache.write kept >> K[at..at+n];
  cache.increment n length;
  cache.read K[0..at+n] >> all;
  return all;
}
"""


@DEVICES
def test_counted_rows_are_kept_between_steps(device: str) -> None:
    text = CACHED.replace("op masked_select", "op gt(x, half) >> mask; op masked_select").replace("mask=mask", "mask")
    kept = np.zeros(0, np.float32)
    with executor_on(device, "constant { half: f32 @init(0.5); }" + text) as executor:
        for x in steps():
            executor.step(x=x)
            kept = np.concatenate([kept, x[x > 0.5]])
            np.testing.assert_array_equal(executor.outputs()["all"], kept)


WINDOWS = """
constant { w: f32[1, 3, 3] @init(1.0); }
dynamic { x: f32[T, 3]; }
block entry {
  op sum_axis(x, axes=[1]) >> mask;
  op nonzero(mask) >> places;
  op select(places, axis=1, index=0) >> those;
  op gather(x, those) >> rows;
  op transpose(rows, perm=[1, 0]) >> columns;
  op unsqueeze(columns, axes=[0]) >> image;
  op conv1d(image, w, padding=1) >> y;
  return y;
}
"""


@DEVICES
def test_windows_slide_over_the_rows_that_are_counted(device: str) -> None:
    """No window fits into no rows, which is what is known before the first step."""
    with executor_on(device, WINDOWS) as executor:
        for count in (4, 1, 2):
            x = np.random.default_rng(count).integers(1, 9, (count, 3)).astype(np.float32)
            executor.step(x=x)
            sums = np.convolve(x.sum(axis=1), np.ones(3, np.float32), "full")[1:-1]
            np.testing.assert_array_equal(executor.outputs()["y"], sums[None, None])


def problem(text: str) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        oi.Simulator(oi.Model.from_arrays({}, sizevars={"T": 4}), oi.graph(text)).make_executor()
    return caught.value


@pytest.mark.rule("language.counts.3")
def test_a_declared_result_has_the_rank_of_the_rows() -> None:
    error = problem("dynamic { x: f32[T]; } volatile { y: i64[T]; } block entry { op nonzero(x) >> y; return y; }")
    assert error.code == "shape-mismatch"
    assert "yields i64[4,1], `y` is declared i64[4]" in str(error)


@pytest.mark.rule("language.counts.4")
@pytest.mark.parametrize("device", ["cpu", "c"])
def test_a_declared_result_keeps_its_rank_when_one_row_is_counted(device: str) -> None:
    """Squeezing one row leaves none of its dims: no value of what was declared with one."""
    running = executor_on(
        device,
        """
        dynamic { x: f32[T]; }
        volatile { most: i64; }
        block entry {
          assign counts: i64[T];
          op unique(x) >> values, n, counts;
          op squeeze(counts) >> counts;
          op max_axis(counts) >> most;
          return most;
        }
        """,
    )
    running.insert_dynamic("x", np.float32([1, 2, 2, 2]))
    running.step()
    assert running.fetch("most") == 3
    running.insert_dynamic("x", np.float32([2, 2, 2, 2]))
    with pytest.raises(ExecutionError, match=r"squeeze yields i64\[\], `counts` is declared i64\[4\]"):
        running.step()


def test_a_count_is_read_after_the_statement_that_counts() -> None:
    text = """dynamic { x: f32[T]; } block entry {
        op slice(x, axes=[0], starts=[0], ends=[n]) >> y; op nonzero(x) >> places, n; return y, places; }"""
    with executor_on("cpu", text) as executor, pytest.raises(ExecutionError) as caught:
        executor.step(x=np.ones(4, np.float32))
    assert caught.value.code == "temporary-unset"


@pytest.mark.rule("language.counts.5")
def test_a_count_is_no_size_of_memory() -> None:
    error = problem("""dynamic { x: f32[T]; } persistent { K: f32[n]; }
        block entry { op nonzero(x) >> places, n; return places; }""")
    assert error.code == "unknown-sizevar"
    assert "`n` is a variable: extents are made of" in str(error.diagnostics[0].hint)


@pytest.mark.rule("language.counts.1")
def test_a_count_may_be_left_out_and_the_operator_may_run_in_any_block() -> None:
    text = """
        dynamic { x: f32[T, 3]; ok: bool; }
        block entry { op nonzero(x) >> places; branch ok more none; op sum_axis(places, axes=[0]) >> s; return s; }
        block more { op neg(x) >> y; op relu(y) >> y; op nonzero(y) >> places; return; }
        block none { return; }
    """
    with executor_on("cpu", text) as executor:
        x = np.array([[1, 0, -1], [0, 0, -2]], np.float32)
        for ok, rows in ((False, np.argwhere(x)), (True, np.argwhere(x < 0))):
            executor.step(x=x, ok=ok)
            assert executor.outputs()["s"].tolist() == rows.sum(axis=0).tolist()


def test_a_result_is_not_written_over_its_input() -> None:
    error = problem("dynamic { x: i64[T, 2]; } block entry { op nonzero(x) >> x; return x; }")
    assert error.code == "inplace-denied"


def test_more_boxes_than_stages_are_refused_in_words() -> None:
    text = DETECTIONS.replace("max_output_boxes=4", "max_output_boxes=4000").replace("6, 4]", "T, 4]")
    with executor_on("vulkan", text.replace("2, 6]", "2, T]").replace("[1, T, 4]", "[1, T, 4]")) as executor:
        boxes, scores = np.zeros((1, 2000, 4), np.float32), np.zeros((1, 2, 2000), np.float32)
        with pytest.raises(ExecutionError, match="max_output_boxes is 4000, and each box is a stage here"):
            executor.step(x=np.zeros((2000, 3), np.float32), boxes=boxes, scores=scores)
