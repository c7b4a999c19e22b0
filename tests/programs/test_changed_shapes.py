"""Variables that take several shapes within one step: each statement sees the shape of the moment, wherever it runs."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import DeviceError, ExecutionError, SynthesisError

PROGRAM = """
dynamic {{ kept: bool[4]; x: f32[4]; }}
volatile {{ y: f32[4]; z: f32[4]; total: f32[1]; }}
persistent {{ K: f32[4]; }}
constant {{ W(l): f32[4] @pattern("W.{{l}}"); }}
block entry {{
  {statements}
  return total;
}}
block other {{ op exp(x) >> y; return; }}
"""
SELECT = "op masked_select(x, kept) >> y;"
ADD = "op sum_axis(y, axes=0, keepdims=true) >> total;"
MASKS = ([1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1])
X = np.arange(4, dtype=np.float32)
EXP = float(np.exp(X).sum())
SUMS = [float(X[np.array(mask, bool)].sum()) for mask in MASKS]

VALUES = {
    "an operator writes the declared shape": (f"{SELECT} op exp(x) >> y; {ADD}", [EXP] * 3),
    "another block writes the declared shape": (f"{SELECT} branch other; {ADD}", [EXP] * 3),
    "a state of the declared shape is read": (f"cache.write x >> K; {SELECT} cache.read K >> y; {ADD}", [6.0] * 3),
    "the next turn of a loop reads what this one leaves": (
        f"op identity(x) >> y; loop turns (i in 0..2) {{ {ADD} {SELECT} }}",
        SUMS,
    ),
    "the next turn computes with what this one leaves": (
        f"op identity(x) >> y; loop turns (i in 0..2) {{ op neg(y) >> w; op neg(w) >> y; {ADD} {SELECT} }}",
        SUMS,
    ),
    "a turn writes both shapes": (f"loop turns (i in 0..2) {{ {ADD} op exp(x) >> y; {SELECT} }}", SUMS),
}
COPIES = {
    "transfer of a table's entry to a variable of fewer rows": f"{SELECT} transfer W[1] >> y; {ADD}",
    "transfer to a variable of fewer rows": f"{SELECT} transfer x >> y; {ADD}",
    "transfer of a value of fewer rows": f"{SELECT} transfer y >> z; {ADD}",
    "write of a value of fewer rows": f"{SELECT} cache.write y >> K; {ADD}",
}
DEVICES = pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])


def executor_on(device: str, statements: str) -> oi.Executor:
    program, model = oi.graph(PROGRAM.format(statements=statements)), oi.Model.from_arrays({"W.0": -X, "W.1": X})
    try:
        executor = oi.Simulator(model, program, device).make_executor()
    except DeviceError as error:
        pytest.skip(str(error))
    assert device == "cpu" or executor.runs_whole
    return executor


@DEVICES
@pytest.mark.parametrize("case", VALUES)
def test_each_statement_sees_the_shape_of_the_moment(device: str, case: str) -> None:
    statements, totals = VALUES[case]
    with executor_on(device, statements) as executor:
        for mask, total in zip(MASKS, totals, strict=True):
            executor.step(kept=np.array(mask, bool), x=X)
            np.testing.assert_allclose(executor.fetch("total"), [total], rtol=1e-5)


@DEVICES
@pytest.mark.parametrize("case", COPIES)
@pytest.mark.rule("language.transfer.1")
def test_copies_between_other_shapes_are_refused(device: str, case: str) -> None:
    with executor_on(device, COPIES[case]) as executor:
        for mask in MASKS[:2]:
            with pytest.raises(ExecutionError):
                executor.step(kept=np.array(mask, bool), x=X)
        executor.step(kept=np.ones(4, bool), x=X)
        assert executor.fetch("total").tolist() == [6.0]


@pytest.mark.parametrize("target", ["c", "vulkan"])
def test_a_shape_without_an_end_is_refused(target: str) -> None:
    statements = f"{SELECT} loop turns (i in 0..3) {{ op concat(y, y, axis=0) >> y; }} {ADD}"
    program = oi.graph(PROGRAM.format(statements=statements))
    with pytest.raises(SynthesisError, match=r"`y` has no largest shape"):
        oi.Synthesizer(target).synthesize(oi.Model.from_arrays({"W.0": X, "W.1": X}), program)
