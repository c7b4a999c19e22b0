"""Two sizes of steps that broadcast, in generated C: what NumPy makes of every pair of them, or the status of sizes."""

from __future__ import annotations

import pytest
from broadcast_programs import ELEMENTWISE, EVERY_PAIR, LARGEST, PRODUCTS, TWO_DIMS, assert_broadcasts
from generated_c import SANITISED, SANITIZERS, STRICT, needs_gcc, printed_by

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.synth import Synthesizer

pytestmark = needs_gcc

# Vector types are GNU C.
FLAGS = {"generic": SANITISED, "host": (*STRICT, "-std=gnu99", "-march=native", "-O0", *SANITIZERS)}


@pytest.mark.rule("operators.shapes.7")
@pytest.mark.parametrize(
    ("case", "arch"),
    [
        (ELEMENTWISE, "generic"),
        (ELEMENTWISE, "host"),
        (PRODUCTS, "host"),
        (TWO_DIMS, "generic"),
        (EVERY_PAIR, "host"),
    ],
)
def test_sizes_broadcast_as_their_values_do(case, arch):
    model, limits = Model.from_arrays({}, sizevars={"T": 2, "U": 2}), {"T": LARGEST, "U": LARGEST}
    synthesis = Synthesizer("c", arch=arch, limits=limits).synthesize(model, graph(case.program))

    assert_broadcasts(case, printed_by(case.caller(), synthesis.bundle, "gcc", FLAGS[arch]))
