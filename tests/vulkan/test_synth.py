"""Programs as bundles of target vulkan: equal to the simulator step after step, silent under the validation layer."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from generated_vulkan import (
    assert_steps_agree,
    has_validation,
    made,
    needs_headers,
    printed_by,
    synthesised,
    validated,
)

import openinfer as oi
from openinfer.errors import SynthesisError
from openinfer.synth import Synthesizer

pytestmark = [needs_headers, pytest.mark.usefixtures("vulkan")]

needs_layer = pytest.mark.skipif(not has_validation(), reason="apt install vulkan-validationlayers vulkan-tools")

EXAMPLES = Path(__file__).parents[2] / "examples"

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 4

TABLE = {f"layer.{n}.w": np.full(4, n + 1, np.float32) for n in range(3)}

LAYERS = """
dynamic { x: f32[4]; deep: bool; which: i32; }
volatile { w(l): f32[4] @pattern("layer.{l}.w"); h: f32[4]; y: f32[4]; }
block entry {
  op identity(x) >> y;
  loop layers (i in 0..3) {
    op mul(y, w[i]) >> h;
    op add(h, w[2 - i]) >> y;
  }
  op mul(y, w[which]) >> y;
  loop more (j in 0..which) { op add(y, x) >> y; }
  branch deep more_of_it done;
  return y;
}
block more_of_it { op neg(y) >> y; return; }
block done { return; }
"""

DECODER = """
dynamic { x: f32[4]; }
volatile { y: f32[4]; m: i32; }
persistent { n: i32 @init(0); total: f32[4] @init(1.0); K(t): f16[4] @table; seen: bool[4]; }
block entry {
  assign rows: f16[1, 4];
  op cast(x, to=f16) >> half;
  cache.write half >> K[n];
  cache.read K[0..n+1] >> rows;
  op cast(rows, to=f32) >> wide;
  op sum_axis(wide, axes=[0], keepdims=false) >> y;
  cache.read total >> before;
  op add(before, y) >> after;
  cache.write after >> total;
  op gt(after, y) >> sign;
  cache.write sign >> seen;
  op add(y, before) >> y;
  cache.increment n;
  cache.read n >> m;
  return y, m;
}
"""


def test_loops_tables_branches_and_numbers_of_the_run_agree():
    inputs = {"x": X, "deep": np.array([True, False, True]), "which": np.array([2, 0, 1], np.int32)}
    synthesis = assert_steps_agree(LAYERS, TABLE, **inputs)

    assert {file for file in synthesis.bundle.files if file.endswith(".comp")} >= {"kernel_0.comp"}


def test_an_index_outside_of_its_table_ends_the_step():
    _, synthesis = synthesised(LAYERS, TABLE)
    with pytest.raises(SynthesisError, match="an index is out of range"):
        synthesis.run({"x": X[0], "deep": np.array(True), "which": np.int32(3)})


def test_an_element_that_a_kernel_refuses_ends_the_step():
    program = """
    dynamic { x: f32[3]; i: i64; }
    volatile { y: f32; }
    block entry { op gather(x, i, axis=0) >> y; return y; }
    """
    _, synthesis = synthesised(program)

    assert synthesis.run({"x": X[0, :3], "i": np.int64(-1)}).outputs["y"] == X[0, 2]
    with pytest.raises(SynthesisError, match="an index is out of range"):
        synthesis.run({"x": X[0, :3], "i": np.int64(3)})


def test_every_row_of_a_quotient_of_a_size_is_computed():
    program = """
    dynamic { x: f32[T]; half: f32[ceil(T / 2)]; }
    block entry { op slice(x, axes=[0], starts=[0], ends=[T], steps=[2]) >> even; op add(half, even) >> y; return y; }
    """
    synthesis = Synthesizer("vulkan", limits={"T": 300}).synthesize(
        oi.Model.from_arrays({}, sizevars={"T": 3}), oi.graph(program)
    )
    rows = 129  # one more than fills groups of threads
    x, half = np.arange(rows, dtype=np.float32), np.ones(rows // 2 + 1, np.float32)
    np.testing.assert_array_equal(synthesis.run({"x": x, "half": half}).outputs["y"], half + x[::2])


def test_counters_caches_and_persistent_variables_agree():
    synthesis = assert_steps_agree(DECODER, options={"limits": {"t": 8}}, x=X)

    assert {state.name for state in synthesis.plan.states} == {"n", "total", "K", "seen"}


def test_runs_of_a_step_that_is_timed_begin_with_the_same_state():
    _, synthesis = synthesised(DECODER, limits={"t": 8})

    once, often = (synthesis.run({"x": X}, steps=3, repeat=repeat) for repeat in (1, 3))

    assert list(once.outputs["m"]) == list(often.outputs["m"]) == [1, 2, 3]
    np.testing.assert_array_equal(often.outputs["y"], once.outputs["y"])


def test_packed_types_and_inputs_with_defaults():
    program = """
    dynamic { x: f32[3]; by: i4[3] @init(3); }
    volatile { h: f32[3]; y: f32[3]; z: i4[3]; }
    block entry { op cast(by, to=f32) >> h; op mul(x, h) >> y; op neg(by) >> z; return y, z; }
    """
    _, synthesis = synthesised(program)
    given = np.array([1, -8, 7], np.int8)

    np.testing.assert_array_equal(synthesis.run({"x": X[0, :3]}).outputs["y"], 3 * X[0, :3])
    found = synthesis.run({"x": X[0, :3], "by": given}).outputs
    np.testing.assert_array_equal(found["y"], X[0, :3] * given)
    np.testing.assert_array_equal(found["z"], [-1, -8, -7])


@needs_layer
@pytest.mark.parametrize("project", ["decoder", "layers"])
def test_the_validation_layer_has_nothing_to_say(project, tmp_path):
    if project == "decoder":
        _, synthesis = synthesised(DECODER, limits={"t": 8}, prefix="small_decoder")
        inputs = {"x": X}
    else:
        _, synthesis = synthesised(LAYERS, TABLE, weights="file", prefix="small_layers")
        inputs = {"x": X, "deep": np.array([True, False, True]), "which": np.array([2, 0, 1], np.int32)}
    directory = tmp_path / "bundle"
    made(synthesis.bundle, directory)
    arguments = ["--steps", "3", "--output", "y=y.npy"]
    for name, array in inputs.items():
        np.save(directory / f"{name}.npy", array)
        arguments += ["--input", f"{name}={name}.npy"]

    said = validated(synthesis.plan.options.prefix, arguments, directory)

    assert said.startswith("microseconds per step: ")
    assert len(said.splitlines()) == 1, said


SAVING_CALLER = """
#include <stdio.h>
#include "model.h"
static struct model model;
int main(void) {
    static const float x[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    float y[4];
    int32_t m = 0;
    static unsigned char saved[MODEL_SAVE_BYTES];
    struct model_inputs inputs;
    struct model_outputs outputs;
    enum model_variable n;
    enum model_status status;
    inputs.v_x = x;
    outputs.v_y = y;
    outputs.v_m = &m;
    status = model_step(&model, &inputs, &outputs);
    printf("%s\\n", model_status_text(status));
    status = model_init(&model);
    printf("init %d\\n", status);
    status = model_step(&model, &inputs, &outputs);
    printf("step %d: y %g, n %d\\n", status, (double)y[3], (int)m);
    status = model_save(&model, saved, sizeof saved);
    printf("save %d\\n", status);
    status = model_step(&model, &inputs, &outputs);
    printf("step %d: y %g, n %d\\n", status, (double)y[3], (int)m);
    status = model_step(&model, &inputs, &outputs);
    printf("%s\\n", model_status_text(status));
    status = model_find("n", &n);
    if (status == MODEL_OK) {
        status = model_get(&model, n, &m, sizeof m);
    }
    printf("get %d: n %d\\n", status, (int)m);
    status = model_load(&model, saved, sizeof saved);
    printf("load %d\\n", status);
    status = model_step(&model, &inputs, &outputs);
    printf("step %d: y %g, n %d\\n", status, (double)y[3], (int)m);
    saved[sizeof saved - 1] ^= 1;
    status = model_load(&model, saved, sizeof saved);
    printf("%s\\n", model_status_text(status));
    status = model_reset(&model);
    printf("reset %d\\n", status);
    status = model_step(&model, &inputs, &outputs);
    printf("step %d: y %g, n %d\\n", status, (double)y[3], (int)m);
    model_close(&model);
    return 0;
}
"""
"""Steps, saves, fails in a step, and loads, and prints what it finds."""


def test_saved_state_is_that_of_a_c_bundle_and_a_failed_step_keeps_what_came_before():
    model, synthesis = synthesised(DECODER, limits={"t": 2})
    in_c = Synthesizer("c", limits={"t": 2}).synthesize(model, DECODER)
    identities = {
        next(line for line in bundle.files["model.c"].decode().splitlines() if "model_put(data + 8" in line)
        for bundle in (synthesis.bundle, in_c.bundle)
    }

    assert len(identities) == 1
    assert printed_by(SAVING_CALLER, synthesis.bundle).splitlines() == [
        "the model is not initialised",
        "init 0",
        "step 0: y 5, n 1",
        "save 0",
        "step 0: y 13, n 2",
        "a cache would grow past its bound",
        "get 0: n 2",
        "load 0",
        "step 0: y 13, n 2",
        "the saved state is damaged",
        "reset 0",
        "step 0: y 5, n 1",
    ]


def test_digits_are_recognised():
    model = oi.ModelLoader.open(EXAMPLES / "digits" / "digits.oinf")
    synthesizer = Synthesizer("vulkan", arch="llvmpipe")
    synthesis = synthesizer.synthesize(model, EXAMPLES / "digits" / "digits.oi", sizes={"N": 1, "S": 8})
    with np.load(EXAMPLES / "digits" / "held_back.npz", allow_pickle=False) as held_back:
        images, labels = held_back["images"][:16], held_back["labels"][:16]
    found = synthesis.run({"image": (images.reshape(-1, 1, 1, 8, 8) / 16).astype(np.float32)}, steps=len(images))

    assert (found.outputs["digit"].reshape(-1) == labels).mean() >= 0.9


def test_the_cmake_project_builds(tmp_path):
    from openinfer.synth.c_host.toolchain import run_tool

    _, synthesis = synthesised(LAYERS, TABLE, project="cmake")
    synthesis.emit(tmp_path / "bundle")
    run_tool(["cmake", "-S", "bundle", "-B", "build"], tmp_path, 120, "cmake")
    run_tool(["cmake", "--build", "build"], tmp_path, 120, "cmake")

    assert (tmp_path / "build" / "model").is_file()


def needs_of(text, **options):
    """Return the fields of ``struct openinfer_needs`` of a bundle as C texts."""
    _, synthesis = synthesised(text, **options)
    found = re.search(r"openinfer_needs needs = \{(.*)\};", synthesis.bundle.files["model.c"].decode())
    assert found is not None
    features, group, subgroup, shared, pushed, bound, largest = found.group(1).split(", ")
    return {
        "features": features,
        "group": int(group),
        "subgroup": int(subgroup),
        "shared": int(shared),
        "pushed": int(pushed),
        "bound": int(bound),
        "range": int(largest),
    }


def test_a_bundle_names_what_its_kernels_need():
    product = """
    dynamic { x: f32[256, 256]; }
    volatile { w: f32[256, 256]; y: f32[256, 256]; }
    block entry { op matmul(x, w) >> y; return y; }
    """
    rows = "dynamic { x: f64[3, 4096]; } volatile { y: f64[3]; } block entry { op sum_axis(x, axis=1) >> y; return y; }"
    plain = "dynamic { x: f32[70]; } volatile { y: f32[70]; } block entry { op neg(x) >> y; return y; }"
    weight = {"w": np.zeros((256, 256), np.float32)}

    of_product, of_rows = needs_of(product, arrays=weight, arch="h200"), needs_of(rows, arch="llvmpipe")
    of_plain = needs_of(plain)

    assert of_product["bound"] == 3
    assert of_product["range"] == 256 * 256 * 4
    assert 16384 >= of_product["shared"] >= 2 * 16 * 64
    assert of_rows["features"] == "OPENINFER_FLOAT64"
    assert of_rows["shared"] == 8 * of_rows["group"]
    pushed = of_plain.pop("pushed")
    assert 0 < pushed <= 128
    assert of_plain == {"features": "0", "group": 64, "subgroup": 1, "shared": 0, "bound": 2, "range": 280}


def test_a_device_without_what_kernels_need_is_refused():
    _, synthesis = synthesised("dynamic { x: f32; } volatile { y: f32; } block entry { op neg(x) >> y; return y; }")
    caller = """
    #include <stdio.h>
    #include "openinfer_vulkan.h"
    static void opened(const char *what, uint32_t group, uint32_t subgroup, uint32_t shared, uint32_t pushed,
                       uint32_t bound, VkDeviceSize range) {
        static const uint32_t one[2] = {1, 1};
        struct openinfer_needs needs = {0, group, subgroup, shared, pushed, bound, range};
        struct openinfer_gpu gpu;
        VkResult result;
        memset(&gpu, 0, sizeof gpu);
        result = openinfer_open(&gpu, &needs, one, one);
        openinfer_close(&gpu);
        printf("%s %d\\n", what, result == VK_ERROR_FEATURE_NOT_PRESENT ? -1 : result);
    }
    int main(void) {
        opened("least", 128, 1, 16384, 128, 4, 1 << 27);
        opened("group", UINT32_MAX, 1, 16384, 128, 4, 1 << 27);
        opened("subgroup", 128, 3, 16384, 128, 4, 1 << 27);
        opened("shared", 128, 1, UINT32_MAX, 128, 4, 1 << 27);
        opened("pushed", 128, 1, 16384, UINT32_MAX, 4, 1 << 27);
        opened("bound", 128, 1, 16384, 128, UINT32_MAX, 1 << 27);
        opened("range", 128, 1, 16384, 128, 4, (VkDeviceSize)1 << 40);
        return 0;
    }
    """

    assert printed_by(caller, synthesis.bundle).splitlines() == [
        "least 0",
        *(f"{what} -1" for what in ("group", "subgroup", "shared", "pushed", "bound", "range")),
    ]
