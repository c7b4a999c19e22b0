"""Quantised networks for microcontrollers: in integers, with the bits of the simulator, natively and on a Cortex-M4."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from generated_c import needs_gcc, run_sanitised

from openinfer.arch import DeviceArch
from openinfer.codegen import loop_program
from openinfer.dsl import graph
from openinfer.loops.text import kernel_text
from openinfer.model import Model
from openinfer.plan.accesses import walk
from openinfer.plan.steps import ComputeStep
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.testing.waiting import limit_s

TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm")

NETWORK = """
dynamic { image: i8[1, 8, 6, 5]; }
constant {
  first: i8[12, 8, 3, 3]; first_bias: i32[12, 1, 1]; first_scale: f32[12, 1, 1];
  depth(l): i8[12, 1, 3, 3] @pattern("depth.{l}");
  depth_bias(l): i32[12, 1, 1] @pattern("depth_bias.{l}");
  depth_scale(l): f32[12, 1, 1] @pattern("depth_scale.{l}");
  point(l): i8[12, 12, 1, 1] @pattern("point.{l}");
  point_bias(l): i32[12, 1, 1] @pattern("point_bias.{l}");
  point_scale(l): f32[12, 1, 1] @pattern("point_scale.{l}");
  full: i8[360, 7]; full_bias: i32[7]; full_scale: f32 @init(0.0004);
  one: f32 @init(1.0); image_zero: i8 @init(83); low: i8 @init(-128); odd: i8 @init(7);
  times: i32 @init(405404); half: i32 @init(262144);
}
volatile { y: i8[1, 7]; }
block entry {
  op conv_integer(image, first, x_zero=image_zero, padding=1) >> total;
  op add(total, first_bias) >> biased;
  op cast(biased, to=f32) >> real;
  op mul(real, first_scale) >> scaled;
  assign h: i8[1, 12, 6, 5];
  op quantize_linear(scaled, one, zero_point=low) >> h;
  loop layers (l in 0..2) {
    op conv_integer(h, depth[l], x_zero=low, padding=1, groups=12) >> total;
    op add(total, depth_bias[l]) >> biased;
    op cast(biased, to=f32) >> real;
    op mul(real, depth_scale[l]) >> scaled;
    assign deep: i8[1, 12, 6, 5];
    op quantize_linear(scaled, one, zero_point=odd) >> deep;
    op conv_integer(deep, point[l], x_zero=odd) >> total;
    op add(total, point_bias[l]) >> biased;
    op cast(biased, to=f32) >> real;
    op mul(real, point_scale[l]) >> scaled;
    assign code: i8[1, 12, 6, 5];
    op quantize_linear(scaled, one, zero_point=odd) >> code;
    op cast(h, to=i32) >> wide;
    op mul(wide, times) >> left;
    op cast(code, to=i32) >> wide_code;
    op mul(wide_code, times) >> right;
    op add(left, right) >> both;
    op add(both, half) >> rounding;
    op shr(rounding, bits=19) >> shifted;
    op cast(shifted, to=i8) >> h;
  }
  op reshape(h, shape=[1, 360]) >> flat;
  op matmul_integer(flat, full, a_zero=low) >> sums;
  op add(sums, full_bias) >> biased_sums;
  op cast(biased_sums, to=f32) >> real_sums;
  op mul(real_sums, full_scale) >> scaled_sums;
  op quantize_linear(scaled_sums, one, zero_point=odd) >> y;
  return y;
}
"""

MAIN = """
#include "digits/model.h"
#include "digits/openinfer_platform.h"

static struct model model;
{arenas}
static const int8_t image[] = {{{image}}};
static int8_t y[7];

int main(void) {{
    const struct model_inputs inputs = {{.v_image = image}};
    const struct model_outputs outputs = {{.v_y = y}};
    enum model_status status = model_init(&model{arguments});
    unsigned at;
    if (status == MODEL_OK) {{ status = model_step(&model, &inputs, &outputs); }}
    for (at = 0; at < sizeof y; ++at) {{
        const unsigned code = (uint8_t)y[at];
        const char text[] = {{"0123456789abcdef"[code >> 4], "0123456789abcdef"[code & 15], 0}};
        openinfer_log(text);
    }}
    return status == MODEL_OK ? 0 : 1;
}}
"""
"""One inference; the codes of the output in hexadecimal."""


@pytest.fixture(scope="module")
def model() -> Model:
    numbers = np.random.default_rng(4)

    def codes(*shape: int) -> np.ndarray:
        return numbers.integers(-127, 128, shape).astype(np.int8)

    arrays: dict[str, np.ndarray] = {"first": codes(12, 8, 3, 3), "full": codes(360, 7)}
    arrays |= {f"depth.{layer}": codes(12, 1, 3, 3) for layer in range(2)}
    arrays |= {f"point.{layer}": codes(12, 12, 1, 1) for layer in range(2)}
    for name in ("first", *(f"{kind}.{layer}" for kind in ("depth", "point") for layer in range(2))):
        kind, _, layer = name.partition(".")
        end = f".{layer}" if layer else ""
        arrays[f"{kind}_bias{end}"] = numbers.integers(-9999, 9999, (12, 1, 1)).astype(np.int32)
        arrays[f"{kind}_scale{end}"] = (
            (1 + numbers.random((12, 1, 1))) * (0.0008 if kind == "first" else 0.002)
        ).astype(np.float32)
    arrays["full_bias"] = numbers.integers(-9999, 9999, 7).astype(np.int32)
    return Model.from_arrays(arrays)


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    return np.random.default_rng(5).integers(-128, 128, (1, 8, 6, 5)).astype(np.int8)


@pytest.fixture(scope="module")
def expected(model: Model, image: np.ndarray) -> np.ndarray:
    executor = Simulator(model, graph(NETWORK), device="cpu").make_executor()
    executor.step(image=image)
    found = np.asarray(executor.fetch("y"))
    assert len(np.unique(found)) > 3  # not all saturated
    return found


HELIUM = {"fpu": "single", "dsp": True, "mve": True, "dialect": "mve"}


def device(**target: object) -> DeviceArch:
    processor = {"lanes": 1, "registers": 32, "integer_registers": 12, "multiply_adds": 1, "loads": 1, **target}
    return DeviceArch.load({"version": 2, "device": {"type": "cpu", "api": "c", "name": "m"}, "target": processor})


@needs_gcc
@pytest.mark.parametrize(
    "target",
    [
        {"fpu": "single", "dsp": True},
        HELIUM,
        {"fpu": "single", "dsp": False},
        {"fpu": "none"},
        {"fpu": "single", "lanes": 4, "dot4": True, "dialect": "vector"},
    ],
    ids=str,
)
def test_outputs_are_those_of_the_simulator(
    model: Model, image: np.ndarray, expected: np.ndarray, target: dict[str, object]
) -> None:
    found = run_sanitised(Synthesizer("c", arch=device(**target)).synthesize(model, graph(NETWORK)), {"image": image})

    np.testing.assert_array_equal(found["y"].reshape(expected.shape), expected)


def test_layers_are_computed_in_integers(model: Model) -> None:
    plan = Synthesizer("c", arch="cortex-m4").synthesize(model, graph(NETWORK)).plan
    steps = [s for procedure in plan.procedures for s in walk(procedure.steps) if isinstance(s, ComputeStep)]
    texts = [kernel_text(loop_program(step)) for step in steps]

    assert not [text for text in texts if "round_even" in text or "trunc" in text or " - cast(" in text]
    # All but the depthwise convolution; what has several places is widened once for all channels.
    assert sum("dot2(" in text for text in texts) >= 2
    assert sum("sdot4(" in text for text in texts) == 1
    # Nothing but codes between layers, and no step that computes a constant.
    assert {str(plan.values[value].type.dtype) for step in steps for value in step.outputs} == {"i8"}
    assert all(step.inputs for step in steps)


SEPARABLE = """
dynamic { image: i8[1, 32, 6, 5]; }
constant {
  depth(l): i8[32, 1, 3, 3] @pattern("depth.{l}");
  point(l): i8[32, 32, 1, 1] @pattern("point.{l}");
  scale: f32 @init(0.006); one: f32 @init(1.0); low: i8 @init(-128);
}
volatile { y: i8[1, 32, 6, 5]; }
block entry {
  assign h: i8[1, 32, 6, 5];
  op flip(image, axes=[2]) >> h;
  loop layers (l in 0..2) {
    op conv_integer(h, depth[l], x_zero=low, padding=1, groups=32) >> total;
    op cast(total, to=f32) >> real;
    op mul(real, scale) >> scaled;
    assign deep: i8[1, 32, 6, 5];
    op quantize_linear(scaled, one, zero_point=low) >> deep;
    op conv_integer(deep, point[l], x_zero=low) >> total;
    op cast(total, to=f32) >> real;
    op mul(real, scale) >> scaled;
    op quantize_linear(scaled, one, zero_point=low) >> h;
  }
  op flip(h, axes=[2]) >> y;
  return y;
}
"""


PLANE_AND_COLUMNS = (8 * 7, 4 * 32 * 2)
RING_AND_ROWS = (3 * 7 * 16, 2 * 32)


@needs_gcc
@pytest.mark.parametrize(
    ("target", "scratch"), [({"fpu": "single", "dsp": True}, PLANE_AND_COLUMNS), (HELIUM, RING_AND_ROWS)], ids=str
)
def test_layers_are_computed_in_place(target: dict[str, object], scratch: tuple[int, ...]) -> None:
    """Depthwise from a plane or a ring, pointwise from columns of few places: one image and these are enough."""
    numbers = np.random.default_rng(7)
    kinds = {"depth": (32, 1, 3, 3), "point": (32, 32, 1, 1)}
    arrays = {f"{k}.{n}": numbers.integers(-127, 128, s).astype(np.int8) for k, s in kinds.items() for n in range(2)}
    model, x = Model.from_arrays(arrays), numbers.integers(-128, 128, (1, 32, 6, 5)).astype(np.int8)
    executor = Simulator(model, graph(SEPARABLE), device="cpu").make_executor()
    executor.step(image=x)
    expected = np.asarray(executor.fetch("y"))
    assert len(np.unique(expected)) > 9

    synthesis = Synthesizer("c", arch=device(**target)).synthesize(model, graph(SEPARABLE))

    assert synthesis.plan.arena_nbytes <= x.size + 64 + -(-max(scratch) // 64) * 64
    np.testing.assert_array_equal(run_sanitised(synthesis, {"image": x})["y"].reshape(expected.shape), expected)


WINDOWS = """
dynamic { image: i8[1, 4, 7, 9]; }
constant {
  depth: i8[4, 1, 3, 3]; wide: i8[6, 4, 3, 2]; full: i8[5, 6, 2, 3];
  depth_scale: f32[4, 1, 1]; wide_scale: f32[6, 1, 1]; full_scale: f32 @init(0.01);
  one: f32 @init(1.0); low: i8 @init(-128); odd: i8 @init(7);
}
volatile { y: i8[1, 5, 3, 7]; }
block entry {
  op conv_integer(image, depth, x_zero=odd, padding=1, stride=[2, 1], groups=4) >> total;
  op cast(total, to=f32) >> real;
  op mul(real, depth_scale) >> scaled;
  assign deep: i8[1, 4, 4, 9];
  op quantize_linear(scaled, one, zero_point=low) >> deep;
  op conv_integer(deep, wide, x_zero=low, padding=[2, 0, 2, 1], dilation=[2, 1]) >> wide_total;
  op cast(wide_total, to=f32) >> wide_real;
  op mul(wide_real, wide_scale) >> wide_scaled;
  assign code: i8[1, 6, 4, 9];
  op quantize_linear(wide_scaled, one, zero_point=odd) >> code;
  op conv_integer(code, full, x_zero=odd) >> full_total;
  op cast(full_total, to=f32) >> full_real;
  op mul(full_real, full_scale) >> full_scaled;
  assign z: i8[1, 5, 3, 7];
  op quantize_linear(full_scaled, one, zero_point=low) >> z;
  op flip(z, axes=[2]) >> y;
  return y;
}
"""
"""Strides, dilations, and borders on some sides; multipliers of one layer too far apart for one power of two."""


@needs_gcc
@pytest.mark.parametrize("target", [{"fpu": "none"}, {"fpu": "single", "dsp": True}, HELIUM], ids=str)
def test_windows_read_columns_without_borders(target: dict[str, object]) -> None:
    numbers = np.random.default_rng(8)
    shapes = {"depth": (4, 1, 3, 3), "wide": (6, 4, 3, 2), "full": (5, 6, 2, 3)}
    arrays = {name: numbers.integers(-127, 128, shape).astype(np.int8) for name, shape in shapes.items()}
    arrays |= {
        "depth_scale": np.float32([0.011, 0.013, 0.0171, 1e-9]).reshape(4, 1, 1),
        "wide_scale": (0.004 + 0.002 * numbers.random((6, 1, 1))).astype(np.float32),
    }
    model, x = Model.from_arrays(arrays), numbers.integers(-128, 128, (1, 4, 7, 9)).astype(np.int8)
    executor = Simulator(model, graph(WINDOWS), device="cpu").make_executor()
    executor.step(image=x)
    expected = np.asarray(executor.fetch("y"))
    assert len(np.unique(expected)) > 9

    synthesis = Synthesizer("c", arch=device(**target)).synthesize(model, graph(WINDOWS))

    steps = [step for step in synthesis.plan.procedures[-1].steps if isinstance(step, ComputeStep)]
    assert sum("columns0" in kernel_text(loop_program(step)) for step in steps) == 3
    np.testing.assert_array_equal(run_sanitised(synthesis, {"image": x})["y"].reshape(expected.shape), expected)


LOOP = """
dynamic { x: i8[1, 16]; }
constant { w(l): i8[16, 16] @pattern("w.{l}"); s: f32 @init(0.004); one: f32 @init(1.0); low: i8 @init(-128); }
volatile { y: i8[1, 16]; }
block entry {
  assign h: i8[1, 16];
  op flip(x, axes=[1]) >> h;
  loop layers (l in 0..3) {
    op matmul_integer(h, w[l], a_zero=low) >> sums;
    op cast(sums, to=f32) >> real;
    op mul(real, s) >> scaled;
    op quantize_linear(scaled, one, zero_point=low) >> h;
  }
  op flip(h, axes=[1]) >> y;
  return y;
}
"""


@needs_gcc
def test_a_layer_that_replaces_its_image_stores_codes() -> None:
    numbers = np.random.default_rng(9)
    arrays = {f"w.{n}": numbers.integers(-127, 128, (16, 16)).astype(np.int8) for n in range(3)}
    model, x = Model.from_arrays(arrays), numbers.integers(-128, 128, (1, 16)).astype(np.int8)
    executor = Simulator(model, graph(LOOP), device="cpu").make_executor()
    executor.step(x=x)

    synthesis = Synthesizer("c", arch=device(fpu="none")).synthesize(model, graph(LOOP))

    steps = [s for procedure in synthesis.plan.procedures for s in walk(procedure.steps) if isinstance(s, ComputeStep)]
    assert {str(synthesis.plan.values[value].type.dtype) for step in steps for value in step.outputs} == {"i8"}
    np.testing.assert_array_equal(run_sanitised(synthesis, {"x": x})["y"].reshape(1, 16), executor.fetch("y"))


RESIDUAL = """
dynamic { image: f32[1, 8, 6, 6]; }
constant { a: f32[8, 8, 3, 3]; b: f32[8, 8, 3, 3]; }
volatile { y: f32[1, 8, 6, 6]; }
block entry {
  op conv2d(image, a, padding=1) >> h;
  op conv2d(h, b, padding=1) >> t;
  op conv2d(t, a, padding=1) >> u;
  op add(u, h) >> r;
  op conv2d(r, b, padding=1) >> y;
  return y;
}
"""


@needs_gcc
@pytest.mark.parametrize("target", [{"fpu": "single", "dsp": True}, HELIUM], ids=str)
def test_a_residual_is_not_an_image_that_windows_slide_over(target: dict[str, object]) -> None:
    numbers = np.random.default_rng(10)
    arrays = {name: numbers.normal(size=(8, 8, 3, 3)).astype(np.float32) for name in "ab"}
    model, x = Model.from_arrays(arrays), numbers.normal(size=(1, 8, 6, 6)).astype(np.float32)
    executor = Simulator(model, graph(RESIDUAL), device="cpu").make_executor()
    executor.step(image=x)
    expected = np.asarray(executor.fetch("y"))

    synthesis = Synthesizer("c", arch=device(**target)).synthesize(model, graph(RESIDUAL))

    result = run_sanitised(synthesis, {"image": x})["y"].reshape(expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-2)


DENSE = """
dynamic { x: i8[1, 16]; }
constant { w: i8[16, 5]; b: i32[5]; s: f32 @init(0.004); one: f32 @init(1.0); low: i8 @init(-128); }
volatile { y: i8[1, 5]; }
block entry {
  op matmul_integer(x, w, a_zero=low) >> sums;
  op add(sums, b) >> biased;
  op cast(biased, to=f32) >> real;
  op mul(real, s) >> scaled;
  op quantize_linear(scaled, one, zero_point=low) >> y;
  return y;
}
"""


@needs_gcc
def test_bytes_of_the_caller_are_read_in_words_from_a_copy() -> None:
    numbers = np.random.default_rng(6)
    w, x = (numbers.integers(-127, 128, shape).astype(np.int8) for shape in ((16, 5), (1, 16)))
    dense = Model.from_arrays({"w": w, "b": np.arange(5, dtype=np.int32)})
    synthesis = Synthesizer("c", arch=device(fpu="single", dsp=True)).synthesize(dense, graph(DENSE))

    copy, product = (step for step in synthesis.plan.procedures[-1].steps if isinstance(step, ComputeStep))
    assert (copy.op, "sdot4(" in kernel_text(loop_program(product))) == ("copy", True)
    total = (x.astype(np.int64) + 128) @ w.astype(np.int64) + np.arange(5)
    codes = np.rint(total.astype(np.float32) * np.float32(0.004)) - 128
    np.testing.assert_array_equal(run_sanitised(synthesis, {"x": x})["y"].reshape(1, 5), codes.clip(-128, 127))


def test_other_devices_keep_their_form(model: Model) -> None:
    plan = Synthesizer("c", arch="generic").synthesize(model, graph(NETWORK)).plan
    steps = [s for procedure in plan.procedures for s in walk(procedure.steps) if isinstance(s, ComputeStep)]

    assert any("round_even" in kernel_text(loop_program(step)) for step in steps)


@pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason=f"not installed: {' or '.join(TOOLS)}")
@pytest.mark.parametrize(
    ("arch", "machine", "instructions"),
    [
        ("cortex-m4", "mps2-an386", ("smlad", "sxtb16", "ssat")),
        ("cortex-m55", "mps3-an547", ("vcvt.f32.s32", "vmul.i32", "vmin.s32")),
    ],
)
def test_a_board_computes_the_same(
    model: Model,
    image: np.ndarray,
    expected: np.ndarray,
    arch: str,
    machine: str,
    instructions: tuple[str, ...],
    tmp_path: Path,
) -> None:
    synthesis = Synthesizer("c", arch=arch).synthesize(model, graph(NETWORK))
    synthesis.emit(tmp_path / "digits")
    header = synthesis.bundle.files["model.h"].decode()
    arenas = re.findall(r"void \*(arena_\w+)", re.search(r"model_init\((.*?)\);", header)[1])
    declared = (f"MODEL_ALIGNED static unsigned char {name}[MODEL_{name.upper()}_BYTES];" for name in arenas)
    source = MAIN.format(
        arenas="\n".join(declared),
        arguments="".join(f", {name}" for name in arenas),
        image=", ".join(map(str, image.ravel().tolist())),
    )
    (tmp_path / "main.c").write_text(source)
    makefile = synthesis.bundle.files["Makefile"].decode()
    flags = [*re.search(r"^CFLAGS \?= (.*)$", makefile, re.MULTILINE)[1].split(), "-DOPENINFER_BARE_METAL"]
    compiler = ["arm-none-eabi-gcc", *flags]

    def run(*command: str) -> str:
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=limit_s(120))
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    run(*compiler, "-c", "digits/model.c")
    linked = [flag for flag in compiler if flag not in ("-Wpedantic", "-Werror", "-Wconversion")]
    linked += ["-T", "digits/board.ld", "-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections"]
    run(*linked, "-o", "net.elf", "digits/board.c", "main.c", "model.o", "-lm")
    emulator = ["qemu-system-arm", "-M", machine, "-semihosting", "-nographic", "-kernel", "net.elf"]
    said = run(*emulator)

    assert bytes.fromhex(re.search(r"[0-9a-f]{14}", said)[0]) == expected.tobytes()
    listing = run("arm-none-eabi-objdump", "-d", "model.o")
    assert all(re.search(rf"\t{name}\b", listing) for name in instructions)


COMPUTED = """
dynamic { image: f32[1, 8, 6, 6]; }
constant { codes: i8[12, 8, 1, 1]; scale: f32 @init(0.25); }
volatile { y: f32[1, 12, 6, 6]; }
block entry {
  assign w: f32[12, 8, 1, 1];
  op dequantize_linear(codes, scale) >> w;
  op relu(image) >> h;
  op conv2d(h, w) >> t;
  op relu(t) >> y;
  return y;
}
"""


@needs_gcc
def test_weights_that_a_step_computes_have_channels_of_the_result_innermost() -> None:
    numbers = np.random.default_rng(11)
    model = Model.from_arrays({"codes": numbers.integers(-127, 128, (12, 8, 1, 1)).astype(np.int8)})
    x = numbers.normal(size=(1, 8, 6, 6)).astype(np.float32)
    executor = Simulator(model, graph(COMPUTED), device="cpu").make_executor()
    executor.step(image=x)
    expected = np.asarray(executor.fetch("y"))

    synthesis = Synthesizer("c", arch=device(**HELIUM)).synthesize(model, graph(COMPUTED))

    (weights,) = (value for value in synthesis.plan.values if value.name == "w")
    assert weights.layout is not None
    assert weights.layout.digits[-1].dim == 0
    result = run_sanitised(synthesis, {"image": x})["y"].reshape(expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
