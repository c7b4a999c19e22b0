"""Integers that are computed while a program runs and pass 64 bits end the step with a message, not with Python's."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import ExecutionError

LARGEST = 2**63 - 1
DECLARED = f"""\
volatile {{ n: i64 @init({LARGEST}); u: u64 @init({2**64 - 1}); k: i64; y: f32[3]; z: f32[3]; }}
constant {{ W(l): f32[3] @pattern("w{{l}}"); }}
persistent {{ K(t): f32[3] @table; A(i): f32[3] @auto_dim(i); }}
"""
STATEMENTS = {
    "start of a loop": "loop l (i in n+1..n+n) { transfer i >> k; }",
    "end of a loop": "loop l (i in 0..n*n) { transfer i >> k; }",
    "end of a loop that is never reached": "loop l (i in n..n-0*n-n-n-n) { transfer i >> k; }",
    "unsigned scalar": "loop l (i in 0..u) { transfer i >> k; }",
    "index of a table": "cache.write y >> K[n*n];",
    "negative index of a table": "cache.reset K[n-n-n-n-n];",
    "index of a growing extent": "cache.read A[n*2] >> y;",
    "entry of the model": "op relu(W[n*n]) >> y;",
    "setting": "op slice(y, starts=[n*n], ends=[3], axes=[0]) >> z;",
    "index of a loop in an expression": "loop l (i in 1..3) { cache.reset K[i*n]; }",
}


def executor(statement: str) -> oi.Executor:
    model = oi.Model.from_arrays({"w0": np.zeros(3, np.float32)})
    graph = oi.graph(f"{DECLARED}block entry {{\n  {statement}\n  return k;\n}}\n")
    return oi.Simulator(model, graph, device="cpu").make_executor()


@pytest.mark.rule("language.expressions.3", "runtime.control.5")
@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_an_integer_past_64_bits_ends_the_step(statement: str) -> None:
    running = executor(statement)
    with pytest.raises(ExecutionError, match="does not fit 64 bits") as caught:
        running.step()
    assert caught.value.code == "integer-range"
    assert caught.value.block == "entry"
    assert caught.value.diagnostics[0].span.line >= 5


@pytest.mark.parametrize(
    ("bounds", "last"),
    [("n-2..n", LARGEST - 1), ("n*n-n*n..2", 1), ("0-n-1..2-n", 1 - LARGEST), ("9223372036854775806..n", LARGEST - 1)],
)
def test_what_fits_runs_and_is_exact_in_between(bounds: str, last: int) -> None:
    running = executor(f"loop l (i in {bounds}) {{ transfer i >> k; }}")
    running.step()
    assert int(running.fetch("k")) == last
