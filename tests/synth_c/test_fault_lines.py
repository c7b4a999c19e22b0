"""The line at which a step of a synthesised program stops, for targets c and vulkan."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.generated_c import printed_by
from tests.support.generated_vulkan import needs_headers

from openinfer import Model, Simulator
from openinfer.errors import OpenInferError, SynthesisError
from openinfer.synth import Synthesizer

TARGETS = ["c", pytest.param("vulkan", marks=needs_headers)]

SIZES = """dynamic { x: f32[T, 2]; }
volatile { y: f32[32]; }
block entry {
  op exp(x) >> t;
  op reshape(t, shape=[32]) >> y;
  return y;
}
"""
ROWS = """dynamic { x: f32[4, 2]; at: i64[1]; }
persistent { n: i64; }
block entry {
  cache.increment n;
  op neg(x) >> t;
  op gather(t, at, axis=0) >> y;
  return y;
}
"""
CALLED = """dynamic { x: f32[T, 2]; }
block inner {
  op reshape(x, shape=[4]) >> y;
  return y;
}
block entry {
  yield x;
  branch inner;
  op neg(x) >> y;
  return y;
}
"""
CACHE = """dynamic { x: f32[2]; n: i64; }
persistent { K(t): f32[2] @table; }
block entry {
  cache.write x >> K[0];
  cache.read K[0..n] >> rows;
  op reshape(rows, shape=[2]) >> y;
  return y;
}
"""


def synthesised(target, text, sizes=None, limits=None):
    return Synthesizer(target, limits=limits).synthesize(Model.from_arrays({}, sizevars=sizes or {}), text)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("text", "sizes", "limits", "inputs", "line"),
    [
        (SIZES, {"T": 16}, {"T": 16}, {"x": np.ones((7, 2), np.float32)}, 5),
        (ROWS, {}, {}, {"x": np.ones((4, 2), np.float32), "at": np.array([4], np.int64)}, 6),
        (CACHE, {}, {"t": 4}, {"x": np.ones(2, np.float32), "n": np.int64(9)}, 5),
    ],
    ids=["sizes", "elements", "places"],
)
def test_a_step_that_fails_names_the_line_of_its_statement(target, text, sizes, limits, inputs, line):
    with pytest.raises(SynthesisError, match=rf"step at line {line}: "):
        synthesised(target, text, sizes, limits).run(inputs)


def test_the_line_is_that_of_the_last_step_and_0_after_one_that_succeeds():
    main = """
    #include "model.h"
    #include <stdio.h>
    static struct model instance;
    int main(void) {
        static const float x[MODEL_EXTENT_T_MOST * 2] = {1.0f};
        static const size_t sizes[] = {7, 16, 3, 17};
        float y[32];
        size_t step;
        printf("%d ", (int)model_fault_line(&instance));
        if (model_init(&instance) != MODEL_OK) { return 1; }
        for (step = 0; step < 4; ++step) {
            const struct model_inputs inputs = {.v_x = x, .extent_T = sizes[step]};
            const struct model_outputs outputs = {.v_y = y};
            const enum model_status status = model_step(&instance, &inputs, &outputs);
            printf("%d:%d ", status, (int)model_fault_line(&instance));
        }
        printf("%d", (int)model_fault_line(NULL));
        return 0;
    }
    """
    synthesis = synthesised("c", SIZES, {"T": 16}, {"T": 16})

    assert printed_by(main, synthesis.bundle, "gcc") == "0 5:5 0:0 5:5 4:0 0"


@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
@pytest.mark.parametrize(
    ("text", "inputs", "words"),
    [
        (CACHE, {"x": np.ones(2, np.float32), "n": np.int64(3)}, ["reshape", "rows", "3"]),
        (SIZES, {"x": np.ones((7, 2), np.float32)}, ["reshape", "T = 7", "32"]),
    ],
    ids=["places", "sizes"],
)
def test_devices_refuse_a_step_in_words_of_the_program(device, text, inputs, words):
    model = Model.from_arrays({}, sizevars={"T": 16})
    limits = {"t": 4} if text is CACHE else {}
    executor = Simulator(model, text, device=device, limits=limits).make_executor()
    with executor, pytest.raises(OpenInferError) as refused:
        executor.step(**inputs)

    message = str(refused.value)
    assert all(word in message for word in words)
    assert not any(name in message for name in ("n0", "s0", "c0", "extent_"))
