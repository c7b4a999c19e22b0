"""What statements demand of the sizes and settings of a step, on every device."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi


def vector(length: int) -> np.ndarray:
    return np.ones(length, np.float32)


GUARDED = """
dynamic { x: f32[2]; n: i32; }
volatile { y: f32[4]; z: f32; }
persistent { K(t): f32[2] @table; p: i32; }
block entry {
  cache.write x >> K[p];
  cache.increment 1 p;
  cache.read K[0..p] >> k;
  op reshape(k, shape=[4]) >> y;
  op select(x, axis=0, index=n) >> z;
  return y, z;
}
"""


@pytest.mark.parametrize("device", ["c", "vulkan"])
@pytest.mark.usefixtures("needs_device")
def test_a_refused_step_says_what_its_statement_demands_of_sizes(device: str) -> None:
    with oi.Simulator(oi.Model.from_arrays({}), GUARDED, device=device, limits={"t": 8}).make_executor() as executor:
        with pytest.raises(oi.ExecutionError, match="reshape: dim 0 of k must be 2"):
            executor.step(x=vector(2), n=0)
        with pytest.raises(oi.ExecutionError, match="select: n must be -2 to 1"):
            executor.step(x=vector(2), n=5)


@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
@pytest.mark.usefixtures("needs_device")
def test_a_dim_of_a_reshape_that_a_step_gives_may_be_what_is_left(device: str) -> None:
    text = "dynamic { x: f32[T, 6]; k: i64; } block entry { op reshape(x, shape=[2, k, 3]) >> y; return y; }"
    model = oi.Model.from_arrays({}, sizevars={"T": 2})
    with oi.Simulator(model, text, device=device).make_executor() as executor:
        for rows, dim, extent in ((2, 2, 2), (2, -1, 2), (5, -1, 5), (0, -1, 0), (0, 0, 0)):
            executor.step(x=np.ones((rows, 6), np.float32), k=dim)
            assert executor.outputs()["y"].shape == (2, extent, 3)
        for dim in (3, 0, -2):
            with pytest.raises(oi.ExecutionError, match="reshape"):
                executor.step(x=np.ones((2, 6), np.float32), k=dim)


@pytest.mark.parametrize("state", ["", "persistent { n: i32; }"], ids=["no state", "state"])
@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
@pytest.mark.usefixtures("needs_device")
def test_a_result_that_fits_at_one_setting_has_its_shape(device: str, state: str) -> None:
    """The sizes of a split fit x at `k = 3` alone: a plan knows the shape of y, whose variable has none."""
    text = f"""
    dynamic {{ x: f32[4, 2]; k: i32; }}
    {state}
    block entry {{ {"cache.increment n;" if state else ""} op split(x, axis=0, sizes=[k, 1]) >> y, z; return y, z; }}
    """
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    with oi.Simulator(oi.Model.from_arrays({}), text, device=device).make_executor() as executor:
        for _ in range(2):
            executor.step(x=x, k=3)
            np.testing.assert_array_equal(executor.outputs()["y"], x[:3])
            np.testing.assert_array_equal(executor.outputs()["z"], x[3:])
        with pytest.raises(oi.ExecutionError, match="split"):
            executor.step(x=x, k=2)
