"""Functions that shaders have for f32 only: coverage, check and synthesis of target vulkan say the same."""

from __future__ import annotations

import pytest

from openinfer.dsl import graph
from openinfer.errors import SynthesisError
from openinfer.model import Model
from openinfer.plugins.coverage import coverage
from openinfer.plugins.environment import Environment
from openinfer.synth import Synthesizer

MODEL = Model.from_arrays({})
PROGRAM = """
dynamic { x: DTYPE[4, 8]; at: i64[4]; }
volatile { y: DTYPE[4, 8]; }
block entry { op OP >> y; return y; }
"""
CALLS = {
    "exp": "exp(x)",
    "sigmoid": "sigmoid(x)",
    "softmax": "softmax(x, axis=1)",
    "gelu": "gelu(x)",
    "sqrt": "sqrt(x)",
    "relu": "relu(x)",
    # The frequencies are powers in f64, which the host computes before the program runs.
    "rope": "rope(x, at, seq_axis=0)",
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", CALLS)
def test_coverage_and_check_say_what_synthesis_does(op: str, dtype: str) -> None:
    program = graph(PROGRAM.replace("DTYPE", dtype).replace("OP", CALLS[op]))
    (covered,) = (
        row.by
        for row in coverage(Environment.default(), [op])
        if (row.place, row.target, row.dtype) == ("synth target", "vulkan", dtype)
    )

    synthesizer = Synthesizer("vulkan")
    findings = synthesizer.refusals(MODEL, program)

    assert (covered == "missing") is bool(findings)
    if findings:
        assert [finding.code for finding in findings] == ["kernel-missing"]
        assert findings[0].span is not None
        with pytest.raises(SynthesisError, match="kernel-missing"):
            synthesizer.synthesize(MODEL, program)
    else:
        assert synthesizer.synthesize(MODEL, program).bundle.files


def test_functions_of_a_library_are_in_f32_alone() -> None:
    missing = {
        row.op
        for row in coverage(Environment.default(), ["exp", "log", "sin", "tanh", "pow", "rem", "sqrt", "add", "floor"])
        if (row.place, row.target, row.dtype, row.by) == ("synth target", "vulkan", "f64", "missing")
    }

    assert missing == {"exp", "log", "sin", "tanh", "pow", "rem"}
