"""Ensembles of trees against their loop program, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

Dtype = type[np.float32] | type[np.float64]


def ensemble(rng: np.random.Generator, dtype: Dtype, *, rows: int, nodes: int, trees: int) -> list[Any]:
    """Return the inputs of an ensemble, with NaN and infinities, places outside, and children that lead back."""
    x = rng.choice(np.array([-np.inf, -1, -0.0, 0.5, 1, np.inf, np.nan], dtype), (rows, 3))
    places = rng.integers(-3, nodes + 8, (nodes, 2), np.int32)
    roots = rng.integers(-1, nodes + 6, trees, np.int32)
    thresholds = rng.choice(np.array([-1, 0.5, np.nan, np.inf], dtype), nodes)
    weights = rng.standard_normal((5, 2)).astype(dtype)
    return [x, rng.integers(-2, 6, nodes, np.int32), thresholds, places, roots, weights, rng.random(nodes) < 0.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [0, 1, 6])
@pytest.mark.parametrize("with_missing", [False, True])
def test_walks_end_where_those_of_the_loop_program_do(
    run_operator: Any, dtype: Dtype, depth: int, with_missing: bool
) -> None:
    inputs = ensemble(np.random.default_rng(depth), dtype, rows=9, nodes=6, trees=4)[: 7 if with_missing else 6]
    (walked,) = run_operator("tree_ensemble", inputs, depth=depth)
    (looped,) = run_operator("tree_ensemble", inputs, without_kernels=("tree_ensemble",), depth=depth)
    np.testing.assert_array_equal(walked.view(np.uint8), looped.view(np.uint8))


@pytest.mark.parametrize(("rows", "trees"), [(0, 2), (3, 0)])
def test_no_rows_and_no_trees(run_operator: Any, rows: int, trees: int) -> None:
    inputs = ensemble(np.random.default_rng(0), np.float32, rows=rows, nodes=4, trees=trees)
    (walked,) = run_operator("tree_ensemble", inputs, depth=3)
    assert walked.shape == (rows, 2)
    assert trees or not walked.any()
