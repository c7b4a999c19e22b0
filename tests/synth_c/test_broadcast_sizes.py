"""Two sizes of steps that broadcast, in generated C: what NumPy makes of every pair of them, or the status of sizes."""

from __future__ import annotations

import numpy as np
import pytest
from broadcast_programs import ELEMENTWISE, EVERY_PAIR, LARGEST, PAIRS, PRODUCTS, TWO_DIMS, assert_broadcasts
from generated_c import SANITISED, SANITIZERS, STRICT, needs_gcc, printed_by

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.synth import Synthesizer

pytestmark = needs_gcc

MODEL_SHAPE = 5

# Vector types are GNU C.
FLAGS = {"generic": SANITISED, "host": (*STRICT, "-std=gnu99", "-march=native", "-O0", *SANITIZERS)}


@pytest.mark.rule("operators.shapes.7")
@pytest.mark.parametrize(
    ("case", "arch"),
    [
        (ELEMENTWISE, "host"),
        (PRODUCTS, "generic"),
        (TWO_DIMS, "generic"),
        (EVERY_PAIR, "host"),
    ],
)
def test_sizes_broadcast_as_their_values_do(case, arch):
    model, limits = Model.from_arrays({}, sizevars={"T": 2, "U": 2}), {"T": LARGEST, "U": LARGEST}
    synthesis = Synthesizer("c", arch=arch, limits=limits).synthesize(model, graph(case.program))

    assert_broadcasts(case, printed_by(case.caller(), synthesis.bundle, "gcc", FLAGS[arch]))


CACHE = """
dynamic { w: f32[U]; x: f32; q: i64; p: i64; }
persistent { S(t): f32 @table; }
block entry {
  cache.write x >> S[q];
  cache.read S[0..p] >> row;
  op mul(row, x) >> grown;
  op add(grown, row) >> grown;
  op add(row, w) >> s;
  loop twice (i in 0..2) { op mul(s, w) >> s; }
  op add(s, grown) >> z;
  return z;
}
"""

CACHE_CALLER = f"""
#include "model.h"
#include <stdio.h>
static struct model model;
int main(void) {{
    float z[{LARGEST}], x = 2.0f;
    size_t shape[1];
    const float w[{LARGEST}] = {{1, 2, 3, 4}};
    if (model_init(&model) != MODEL_OK) {{ return 1; }}
    for (int64_t q = 0; q < {LARGEST}; ++q) {{
        for (int64_t p = 0; p <= {LARGEST}; ++p) {{
            for (size_t u = 0; u <= {LARGEST}; ++u) {{
                const struct model_inputs inputs = {{.v_w = w, .v_x = &x, .v_q = &q, .v_p = &p, .extent_U = u}};
                const struct model_outputs outputs = {{.v_z = z, .shape_z = shape}};
                const enum model_status status = model_step(&model, &inputs, &outputs);
                printf("%d;", (int)status);
                for (size_t i = 0; status == MODEL_OK && i < shape[0]; ++i) {{ printf("%g ", (double)z[i]); }}
                printf("\\n");
            }}
        }}
    }}
    return 0;
}}
"""


def test_a_length_of_a_cache_broadcasts_with_a_size_of_a_step():
    model, limits = Model.from_arrays({}, sizevars={"U": 2}), {"U": LARGEST, "t": LARGEST}
    synthesis = Synthesizer("c", arch="host", limits=limits).synthesize(model, graph(CACHE))
    lines = iter(printed_by(CACHE_CALLER, synthesis.bundle, "gcc", FLAGS["host"]).splitlines())

    for written in range(1, LARGEST + 1):
        for p, u in PAIRS:
            row, w = np.where(np.arange(p) < written, 2.0, 0.0), np.arange(1.0, u + 1)
            status, _, elements = next(lines).partition(";")
            if p != u and 1 not in (p, u):
                assert int(status) == MODEL_SHAPE
            else:
                np.testing.assert_array_equal(np.array(elements.split(), float), (row + w) * w * w + 3 * row, f"{p, u}")


def test_programs_of_one_size_have_no_strides():
    program = "dynamic { x: f32[T]; w: f32[T]; } block entry { op add(x, w) >> s; op mul(s, x) >> z; return z; }"
    bundle = (
        Synthesizer("c", limits={"T": 8}).synthesize(Model.from_arrays({}, sizevars={"T": 2}), graph(program)).bundle
    )

    source = bundle.files["model.c"].decode()

    assert "stride" not in source
    assert "MODEL_SHAPE" not in source
    assert source.count("KERNEL void") == 1
