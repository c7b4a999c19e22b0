"""Parts of an axis whose extent is known at run time only, on device vulkan: those of Python from no rows on."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi

pytestmark = pytest.mark.usefixtures("vulkan")

ROWS = 3
PARTS = {
    "slice(k, axes=[0], starts=[1], ends=[2])": lambda k: k[1:2],
    "slice(k, axes=[0], starts=[1], ends=[step])": lambda k: k[1 : len(k)],
    "slice(k, axes=[0], starts=[step], ends=[0], steps=[-1])": lambda k: k[len(k) : 0 : -1],
}


def test_ends_are_clipped_as_those_of_python_are() -> None:
    names = [f"y{place}" for place in range(len(PARTS))]
    statements = " ".join(f"op {part} >> {name};" for part, name in zip(PARTS, names, strict=True))
    text = f"""
    dynamic {{ x: f32[2]; }}
    persistent {{ step: i32 @init(0); K(t): f32[2] @table; }}
    block entry {{
      cache.read K[0..step] >> k;
      {statements}
      cache.write x >> K[step];
      cache.increment step;
      return {", ".join(names)};
    }}
    """
    rows = np.arange(2 * ROWS, dtype=np.float32).reshape(ROWS, 2)
    model = oi.Model.from_arrays({})
    with oi.Simulator(model, oi.graph(text), device="vulkan", limits={"t": ROWS}).make_executor() as ex:
        for step in range(ROWS):
            ex.step(x=rows[step])
            found = ex.outputs()
            for (part, python), name in zip(PARTS.items(), names, strict=True):
                np.testing.assert_array_equal(found[name], python(rows[:step]), f"{part}, {step} rows")


SELECTED = """
dynamic { x: f32[4]; a: i64; c: i64; }
block entry { op select(x, axis=0, index=a % c) >> y; return y; }
"""


@pytest.mark.parametrize(("a", "c"), [(2**35, 3), (2, 2**40), (2**31 - 1, 4)])
def test_a_remainder_of_numbers_that_no_kernel_takes_is_computed_for_it(a: int, c: int) -> None:
    x = np.arange(4, dtype=np.float32)
    with oi.Simulator(oi.Model.from_arrays({}), oi.graph(SELECTED), device="vulkan").make_executor() as ex:
        assert ex.runs_whole
        ex.step(x=x, a=a, c=c)
        assert ex.outputs()["y"] == x[a % c]


def test_sizes_that_no_kernel_takes_are_refused_in_words() -> None:
    text = "dynamic { a: i64; } block entry { assign y: i64[4]; op range(start=a, limit=a+4) >> y; return y; }"
    with oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), device="vulkan").make_executor() as ex:
        assert ex.runs_whole
        with pytest.raises(oi.ExecutionError, match="a size of 34359738368 is outside of -2147483648 to 2147483647"):
            ex.step(a=2**35)
        ex.step(a=2**30)
        assert list(ex.outputs()["y"]) == list(range(2**30, 2**30 + 4))
