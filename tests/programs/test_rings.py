"""The last rows of a stream in a ring, read as the rows from a place on and those before it."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

import openinfer as oi
from openinfer.synth import Synthesizer

ROWS = 6

RING = f"""
dynamic {{ x: f32[4]; }}
volatile {{ n: i64; }}
persistent {{ step: i64; ring(r): f32[4] @table; }}
block entry {{
  cache.read step >> n;
  cache.write x >> ring[n % {ROWS}];
  cache.increment step;
  cache.read ring[(n + 1) % {ROWS}..{ROWS}] >> older;
  cache.read ring[0..(n + 1) % {ROWS}] >> newer;
  op concat(older, newer, axis=0) >> every;
  op neg(older) >> turned;
  transfer newer >> newest;
  return every, turned, newest;
}}
"""

HEADS = f"""
dynamic {{ k: f32[2, 1, 4]; }}
volatile {{ n: i64; at: i64; }}
persistent {{ step: i64; K(h, t): f32[4] @table @fixed(h=2, t={ROWS}); }}
block entry {{
  cache.read step >> at;
  cache.write k >> K[0..2, at % {ROWS}..at % {ROWS} + 1];
  cache.increment step;
  cache.read step >> n;
  cache.read K[0..2, 0..n % {ROWS}] >> newer;
  cache.read K[0..2, n % {ROWS}..{ROWS}] >> older;
  op concat(older, newer, axis=1) >> every;
  op neg(older) >> turned;
  transfer newer >> newest;
  return every, turned, newest;
}}
"""

DEVICES = pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])


def planned(text: str):
    return Synthesizer("c").synthesize(oi.Model.from_arrays({}), oi.graph(text)).plan


def size_of(plan, name: str) -> tuple[int, ...]:
    return next(value.type.shape for value in plan.values if value.name == name)


@DEVICES
@pytest.mark.parametrize(("text", "port", "shape"), [(RING, "x", (4,)), (HEADS, "k", (2, 1, 4))])
def test_the_last_rows_come_in_order(device: str, text: str, port: str, shape: tuple[int, ...]) -> None:
    rows = deque([np.zeros(shape, np.float32)] * ROWS, ROWS)
    stack = np.stack if len(shape) == 1 else lambda parts: np.concatenate(parts, axis=1)
    with oi.Simulator(oi.Model.from_arrays({}), device=device).make_executor(oi.graph(text)) as executor:
        for step in range(2 * ROWS + 3):
            row = np.full(shape, step + 1, np.float32) + np.arange(4, dtype=np.float32) / 8
            rows.append(row)
            executor.step(**{port: row})
            outputs, older = executor.outputs(), ROWS - (step + 1) % ROWS
            np.testing.assert_array_equal(outputs["every"], stack(list(rows)))
            np.testing.assert_array_equal(outputs["turned"], -stack(list(rows)[:older]))
            if older < ROWS:
                np.testing.assert_array_equal(outputs["newest"], stack(list(rows)[older:]))
            else:
                assert outputs["newest"].size == 0


@pytest.mark.parametrize(("text", "shape"), [(RING, (ROWS, 4)), (HEADS, (2, ROWS, 4))])
def test_both_parts_have_the_rows_of_the_ring_together(text: str, shape: tuple[int, ...]) -> None:
    assert size_of(planned(text), "every") == shape


def test_parts_at_places_that_differ_may_have_more() -> None:
    changed = RING.replace("cache.read ring[0..", "cache.read step >> n; cache.read ring[0..")

    assert size_of(planned(changed), "every") == (2 * ROWS, 4)


def test_the_rest_of_a_division_bounds_a_cache() -> None:
    (state,) = [state for state in planned(RING).states if state.name == "ring"]

    assert state.type.shape == (ROWS, 4)
