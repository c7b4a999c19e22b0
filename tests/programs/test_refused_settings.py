"""Settings from memory that an operator does not accept: the same error on every device."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi

PROGRAM = """
dynamic {{ x: f32[6, 4]; p: i32; q: i32; }}
persistent {{ steps: i64; }}
block entry {{
  cache.increment steps;
  op {call} >> y;
  return y;
}}
"""

CALLS = [
    ("narrow(x, axis=0, start=p, length=2)", (5, 0)),
    ("narrow(x, axis=0, start=2, length=p)", (-1, 0)),
    ("slice(x, axes=[0], starts=[p], ends=[6], steps=[q])", (1, 0)),
    ("select(x, axis=0, index=p)", (-7, 0)),
    ("reshape(x, shape=[p, 4])", (5, 0)),
    ("reshape(x, shape=[p, 4])", (-2, 0)),
    ("expand(x, shape=[p, 4])", (5, 0)),
]
TAKEN = [(1, 0), (2, 0), (1, 1), (-6, 0), (6, 0), (-1, 0), (6, 0)]


@pytest.mark.rule("runtime.operators.13")
@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
@pytest.mark.parametrize(("call", "refused", "taken"), [(*call, p) for call, p in zip(CALLS, TAKEN, strict=True)])
def test_a_setting_that_is_not_accepted_is_a_shape_mismatch(
    device: str, call: str, refused: tuple[int, int], taken: tuple[int, int]
) -> None:
    program = oi.graph(PROGRAM.format(call=call))
    with oi.Simulator(oi.Model.from_arrays({}), device=device).make_executor(program) as executor:
        x = np.zeros((6, 4), np.float32)
        executor.step(x=x, p=taken[0], q=taken[1])
        with pytest.raises(oi.ShapeError) as caught:
            executor.step(x=x, p=refused[0], q=refused[1])

    assert caught.value.code == "shape-mismatch"
