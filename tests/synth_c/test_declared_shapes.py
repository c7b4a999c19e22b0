"""Results of run-time shape that variables of a declared shape take: they fit, or the step ends with an error."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import needs_gcc, run_sanitised

from openinfer.dsl import graph
from openinfer.errors import ExecutionError, SynthesisError
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

pytestmark = needs_gcc

DECLARED = 2
"""Rows of the variables that are declared."""

STATEMENTS = {
    "of what was read": "cache.read K[0..n] >> some; op neg(some) >> z;",
    "of what took the shape that was read": "cache.read K[0..n] >> y; op neg(y) >> z;",
    "where its shape was read before": "cache.read K[0..2] >> z; cache.read K[0..n] >> y; op neg(y) >> z;",
    "of rows with one for all": "cache.read K[0..n] >> some; op add(some, x) >> z;",
    "transposed twice": "cache.read K[0..n] >> some; op transpose(some, perm=[1, 0]) >> t; "
    "op transpose(t, perm=[1, 0]) >> z;",
    "cut off an input": "op slice(rows, starts=[0], ends=[n], axes=[0]) >> z;",
}


@pytest.mark.parametrize(
    ("name", "rows"), [(next(iter(STATEMENTS)), 1), *((name, rows) for name in STATEMENTS for rows in (DECLARED, 3))]
)
def test_a_result_has_the_declared_shape_of_its_variable(name: str, rows: int) -> None:
    program = graph(f"""
        dynamic {{ n: i32; x: f32[3]; rows: f32[4, 3]; }}
        volatile {{ y: f32[{DECLARED}, 3]; z: f32[{DECLARED}, 3]; }}
        persistent {{ K(l): f32[3] @table @fixed(l=4) @init(1.5); }}
        block entry {{ {STATEMENTS[name]} return z; }}
    """)
    model = Model.from_arrays({})
    inputs = {"n": np.array(rows, np.int32), "x": np.ones(3, np.float32), "rows": np.ones((4, 3), np.float32)}
    synthesis = Synthesizer("c").synthesize(model, program)

    def found() -> np.ndarray:
        return run_sanitised(synthesis, inputs)["z"]

    with Simulator(model, program).make_executor() as executor:
        if rows == DECLARED:
            executor.step(**inputs)
            np.testing.assert_array_equal(found(), executor.fetch("z"))
            return
        with pytest.raises(ExecutionError) as caught:
            executor.step(**inputs)
    assert caught.value.code == "shape-mismatch"
    with pytest.raises(SynthesisError, match="sizes or settings that are known at run time only do not fit"):
        found()
