"""Loop programs as GLSL, and what they compute on the device against the interpreter's results."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.affine import Index, Var
from openinfer.array_types import storage_dtype
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.dtypes import BY_NAME
from openinfer.errors import ExecutionError, KernelMissingError, UnsupportedError
from openinfer.expr.tree import ExprError
from openinfer.ir.types import TensorType
from openinfer.loops.reading import parse_kernel
from openinfer.testing.orders import RUNNING, UPDATED
from openinfer_backend_vulkan.api.physical import PhysicalDevice
from openinfer_backend_vulkan.glsl.computations import shaders_of
from openinfer_backend_vulkan.glsl.index_text import Numbers
from openinfer_backend_vulkan.glsl.loop_programs import printed
from openinfer_backend_vulkan.glsl.shaders import PUSHED_WORDS, ShaderTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer_backend_vulkan.backend import VulkanBackend

    Array = np.ndarray[Any, Any]

PRODUCT = """
def product(x0: f32[3, 4], x1: f32[4, 5], /, y0: f32[3, 5]):
    for i0, i1 in grid(3, 5):
        for i2 in unordered(4):
            total0 = start(0.0)
            term0 = x0[i0, i2] * x1[i2, i1]
            total0 = total0 + term0
        y0[i0, i1] = total0
"""
SMOOTHED = """
def smoothed(x: f32[7], /, y: f32[7]):
    for i in grid(7):
        y[i] = (fill(x[i - 1], 0.0) + x[i]) + fill(x[i + 1], 1.0)
"""
FOLDED_BACK = """
def folded_back(x: u8[6], /, y: u8[6]):
    for i in grid(6):
        y[i] = fill(x[(i - 4)//3 + 3*((i - 4)%3)], u8(7))
"""
COUNTED = """
def counted(x: f32[2, 3], /, y: f16[2, 3], n: bool[2, 3], m: i64[2, 3]):
    for i, j in grid(2, 3):
        y[i, j] = cast(x[i, j] * cast(position(3*i - j, i32), f32), f16)
    for i, j in grid(2, 3):
        n[i, j] = lt(x[i, j], cast(position(j, i64), f32))
    for i, j in grid(2, 3):
        m[i, j] = position(i - 2*j, i64) * position(j, i64)
"""
SEVERAL = """
def several(x: f32[5, 4], /, best: f32[5], at: i64[5]):
    t: f32[5, 4]
    for i, j in grid(5, 4):
        t[i, j] = x[i, j] * x[i, j]
    for i in grid(5):
        for j in sequential(4):
            total0 = start()
            term0 = t[i, j]
            total0 = maximum(total0, term0)
        best[i] = total0
    for i in grid(5):
        for j in sequential(4):
            total0 = start()
            total1 = start()
            term0 = t[i, j]
            term1 = position(j, i64)
            total0 = select(gt(term0, total0), term0, total0)
            total1 = select(gt(term0, total0), term1, total1)
        at[i] = total1
"""


def sources(text: str) -> list[str]:
    return [shader.source for stage in shaders_of(parse_computation(text)) for shader in stage.shaders]


def body(source: str) -> str:
    """The statements of ``main`` after the number of the invocation."""
    return source.partition("{ return; }\n")[2]


def on_device(device: VulkanBackend, text: str, inputs: Sequence[Array]) -> list[Array]:
    computation = parse_computation(text)

    def kind(name: str) -> TensorType:
        tensor = computation.tensor(name)
        return TensorType(tensor.dtype, tuple(extent.evaluate({}) for extent in tensor.shape))

    given = [device.upload(kind(t.name), array) for t, array in zip(computation.inputs, inputs, strict=True)]
    made = [device.allocate(kind(tensor.name)) for tensor in computation.outputs]
    device.bind_computation(computation, given, made)()
    return [device.read(buffer) for buffer in made]


def test_a_shader_has_its_sizes_and_strides_as_numbers() -> None:
    (stage,) = shaders_of(parse_computation(PRODUCT))

    (shader,) = stage.shaders

    assert shader.source == (
        """\
#version 450
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) readonly buffer Buffer0 { float x0[]; };
layout(std430, set = 0, binding = 1) readonly buffer Buffer1 { float x1[]; };
layout(std430, set = 0, binding = 2) buffer Buffer2 { float y0[]; };
layout(push_constant) uniform Numbers { int numbers[6]; };
void main() {
    int n0 = numbers[0];
    int n1 = numbers[1];
    int n2 = numbers[2];
    int n3 = numbers[3];
    int n4 = numbers[4];
    int n5 = numbers[5];
    uint place = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64u + gl_LocalInvocationID.x;
    if (place >= uint(n0)) { return; }
    int i1 = int(place % uint(n1));
    place /= uint(n1);
    int i0 = int(place);
    float r_total0 = 0.0;
    for (int i2 = 0; i2 < n2; ++i2) {
        precise float v0_0 = r_total0;
        precise float v0_1 = x0[n3 * i0 + i2];
        precise float v0_2 = x1[i1 + n4 * i2];
        precise float v0_3 = v0_1 * v0_2;
        precise float v0_4 = v0_0 + v0_3;
        r_total0 = v0_4;
    }
    y0[n5 * i0 + i1] = r_total0;
}
"""
    )
    assert shader.parameters == (15, 5, 4, 4, 5, 5)
    assert (shader.threads, stage.reads, stage.writes) == (15, ("x0", "x1"), ("y0",))


def test_one_shader_serves_tensors_of_all_sizes() -> None:
    larger = (
        PRODUCT.replace("3, 4", "30, 40").replace("4, 5", "40, 50").replace("3, 5", "30, 50").replace("(4)", "(40)")
    )

    assert sources(PRODUCT) == sources(larger)


def test_elements_that_are_only_moved_are_bits_of_any_type() -> None:
    moved = "def m(x0: {0}[4, 3], /, y0: {0}[3, 4]):\n for i0, i1 in grid(3, 4):\n  y0[i0, i1] = x0[i1, i0]\n"

    floats, integers, bytes_, codes, wide = (
        sources(moved.format(dtype))[0] for dtype in ("f32", "u32", "i8", "f8", "f64")
    )

    assert floats == integers
    assert bytes_ == codes
    assert "uvec2 x0[]" in wide
    assert not shaders_of(parse_computation(moved.format("i64")))[0].shaders[0].features


def reversed_axes(shape: tuple[int, ...]) -> str:
    """Return a transposition of all axes, which has a number for each stride of both tensors."""
    names = [f"i{axis}" for axis in range(len(shape))]
    extents, others = (", ".join(map(str, each)) for each in (shape, shape[::-1]))
    return (
        f"def turned(x: i32[{extents}], /, y: i32[{others}]):\n for {', '.join(names)} in grid({extents}):\n"
        f"  y[{', '.join(reversed(names))}] = x[{', '.join(names)}]\n"
    )


def test_more_numbers_than_push_constants_hold_are_in_a_buffer(
    device: VulkanBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (2, 3, 5, 2, 3, 2, 7, 2)
    text, given = reversed_axes(shape), np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    monkeypatch.setattr(PhysicalDevice, "shader_target", ShaderTarget(pushed_words=8))
    (stage,) = shaders_of(parse_computation(text), ShaderTarget(pushed_words=8))

    assert "readonly buffer Numbers { int numbers[]; }" in stage.shaders[0].source
    assert "push_constant" not in stage.shaders[0].source
    assert (on_device(device, text, [given])[0] == given.T).all()


def test_equal_numbers_are_one_where_push_constants_hold_them_then(device: VulkanBackend) -> None:
    shape = (2,) * 16
    text, given = reversed_axes(shape), np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    few, many = (sources(reversed_axes(shape))[0] for shape in ((2, 2, 2), shape))

    assert "push_constant" in many
    assert len(re.findall(r"= numbers\[", many)) > PUSHED_WORDS
    numbered = re.findall(r"= numbers\[(\d+)\]", few)
    assert len(set(numbered)) == len(numbered), "a text with few numbers depends on no sizes"
    assert (on_device(device, text, [given])[0] == given.T).all()


def test_halves_are_unpacked_where_a_device_keeps_their_subnormals() -> None:
    text = "def wide(x: f16[64], /, y: f32[64]):\n for i in grid(64):\n  y[i] = cast(x[i], f32)\n"
    made = [shaders_of(parse_computation(text), ShaderTarget(keeps_halves=keeps)) for keeps in (False, True)]

    assert ["unpackHalf2x16" in stage.shaders[0].source for (stage,) in made] == [False, True]


def test_halves_that_are_only_multiplied_are_unpacked_out_of_their_words() -> None:
    text = "def scaled(x: f16[64], /, y: f32[64]):\n for i in grid(64):\n  y[i] = cast(x[i], f32) * 3.0\n"
    (stage,) = shaders_of(parse_computation(text), ShaderTarget(keeps_halves=True))
    source = stage.shaders[0].source

    assert source.count("= unpackHalf2x16(w0") == 4
    assert "unpackHalf2x16(w0.x).x" in source
    assert "unpackHalf2x16(w0.y).y" in source
    assert not re.search("bitfieldExtract|oi_f32_from_f16", source)


@pytest.mark.parametrize("shown", ["cast(x[i], f32)", "cast(x[i], f32) + select(sign_bit(cast(x[i], f32)), 1.0, 2.0)"])
def test_halves_keep_the_signs_of_nans_where_more_than_arithmetic_uses_them(shown: str) -> None:
    text = f"def shown(x: f16[64], /, y: f32[64]):\n for i in grid(64):\n  y[i] = {shown}\n"
    (stage,) = shaders_of(parse_computation(text), ShaderTarget(keeps_halves=True))

    assert "= oi_f32_from_f16(" in stage.shaders[0].source


def test_a_guarded_element_is_read_where_its_tests_hold() -> None:
    assert "precise float v0_0 = (i_i + n1 >= 0) ? b_x[i_i + n1] : 0.0;" in body(sources(SMOOTHED)[0])


def test_updates_of_one_element_follow_one_another_and_a_refused_place_ends_them() -> None:
    text = body(sources(UPDATED)[1])

    assert "    for (int i_i = 0; i_i < n1; ++i_i) {\n        int64_t r_q_value0 = b_p[i_i];\n" in text
    assert "        if (v1_5) { atomicMin(fault[0], uint(i_i)); return; }\n        int i_q = int(r_q_value0);\n" in text


@pytest.mark.parametrize("text", [PRODUCT, RUNNING, SMOOTHED, FOLDED_BACK, COUNTED, SEVERAL])
def test_the_device_computes_what_the_stages_say(device: VulkanBackend, text: str) -> None:
    computation, rng = parse_computation(text), np.random.default_rng(5)
    shapes = [tuple(extent.evaluate({}) for extent in tensor.shape) for tensor in computation.inputs]
    kinds = [storage_dtype(tensor.dtype) for tensor in computation.inputs]
    inputs = [rng.integers(0, 90, shape).astype(kind) for shape, kind in zip(shapes, kinds, strict=True)]

    found, expected = on_device(device, text, inputs), evaluate(computation, inputs)

    for got, want in zip(found, expected, strict=True):
        assert got.tobytes() == want.tobytes()


def test_updates_are_made_in_their_order_and_refused_places_are_an_error(device: VulkanBackend) -> None:
    x, u = np.arange(12, dtype=np.int32).reshape(4, 3), np.arange(18, dtype=np.int32).reshape(6, 3)
    places = np.array([3, 0, 3, 1, 0, 3])

    (found,) = on_device(device, UPDATED, [x, places, u])

    assert found.tolist() == evaluate(parse_computation(UPDATED), [x, places, u])[0].tolist()
    with pytest.raises(
        ExecutionError, match=r"updated: i64\[6\]: the element at \[0\] is out of range \(places are 0 to 3\)"
    ) as caught:
        on_device(device, UPDATED, [x, places + 1, u])
    assert caught.value.code == "out-of-range"


@pytest.mark.usefixtures("few_turns")
@pytest.mark.parametrize(
    "text", [PRODUCT.replace("4", "23"), RUNNING.replace("4", "30"), SEVERAL.replace("4", "19").replace("i619", "i64")]
)
def test_long_loops_are_divided_among_dispatches(device: VulkanBackend, text: str) -> None:
    test_the_device_computes_what_the_stages_say(device, text)


@pytest.mark.usefixtures("few_turns")
def test_updates_that_are_divided_among_dispatches_keep_their_order(device: VulkanBackend) -> None:
    test_updates_are_made_in_their_order_and_refused_places_are_an_error(device)


@pytest.mark.usefixtures("few_turns")
def test_a_loop_that_cannot_be_divided_is_refused(device: VulkanBackend) -> None:
    text = """
def remainders(x: f32[2, 9], /, y: f32[2]):
    for i in grid(2):
        for j in unordered(9):
            total0 = start(0.0)
            term0 = rem(x[i, j], 2.0)
            total0 = total0 + term0
        y[i] = total0
"""
    with pytest.raises(
        KernelMissingError, match="this remainders: a stage of remainders takes too many iterations of a loop, and"
    ):
        on_device(device, text, [np.ones((2, 9), np.float32)])


def test_an_index_beyond_32_bits_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="an index up to 2147483648: kernels of this device count in 32 bits"):
        Numbers((), 32).text(Index.of(Var("i", 2**31 + 1)))


def test_a_private_buffer_as_one_value_is_refused() -> None:
    text = "def sums(x: GLOBAL[f32, 8], y: GLOBAL[f32, 1]):\n t: PRIVATE[f32, 4]\n y[0] = across(add, t)\n"

    with pytest.raises(UnsupportedError, match="sums: the elements of a private buffer as one have no form in GLSL"):
        printed(parse_kernel(text))


def test_a_function_that_glsl_does_not_have_is_an_error() -> None:
    with pytest.raises(ExprError, match="no function 'exp' on f64"):
        sources("def e(x: f64[2], /, y: f64[2]):\n for i in grid(2):\n  y[i] = exp(x[i])\n")


def test_every_element_type_is_moved(device: VulkanBackend) -> None:
    for name in ("f32", "f16", "bf16", "f8", "i8", "u16", "bool", "i64", "f64"):
        kind = storage_dtype(BY_NAME[name])
        x = np.arange(12).reshape(4, 3).astype(kind)
        text = f"def m(x: {name}[4, 3], /, y: {name}[3, 4]):\n for i, j in grid(3, 4):\n  y[i, j] = x[j, i]\n"
        assert on_device(device, text, [x])[0].tobytes() == np.ascontiguousarray(x.T).tobytes(), name


def test_a_number_of_terms_needs_no_integers_of_64_bits() -> None:
    mean = """
def mean(x: f32[2, 3], /, y: f32[2]):
    for i in grid(2):
        for j in sequential(3):
            total0 = start(0.0)
            term0 = x[i, j]
            total0 = total0 + term0
        y[i] = total0 / cast(i64(3), f32)
"""
    (stage,) = shaders_of(parse_computation(mean))

    assert not stage.shaders[0].features
    assert "float(3U)" in stage.shaders[0].source


ROWS = """
def rows(x: i32[3, 2, 300], w: i32[300], /, y: i32[3, 2]):
    for i, k in grid(3, 2):
        for j in unordered(300):
            total0 = start(i32(0))
            term0 = x[i, k, j] * w[j]
            total0 = total0 + term0
        y[i, k] = total0 * i32(3)
"""


def test_a_group_of_threads_adds_up_in_shared_memory_between_barriers() -> None:
    (source,) = sources(ROWS)

    assert "layout(local_size_x = 128) in;" in source
    assert "shared int j_total0_" in source
    assert source.count("barrier();") == 7
    assert "                r_total0 = v" in source
    assert sources(ROWS) == sources(ROWS.replace("300", "260"))


@pytest.mark.parametrize("length", ["300", "256", "1000"])
def test_the_device_adds_up_long_rows(device: VulkanBackend, length: str) -> None:
    test_the_device_computes_what_the_stages_say(device, ROWS.replace("300", length))


@pytest.mark.usefixtures("few_turns")
def test_a_row_that_is_too_long_for_a_group_is_divided_among_dispatches(device: VulkanBackend) -> None:
    test_the_device_computes_what_the_stages_say(device, ROWS.replace("300", "2000"))


def test_a_loop_program_with_run_time_extents_is_one_shader_for_all_of_them() -> None:
    kernel = parse_kernel("""
def rows(x0: GLOBAL[f32, 4*n], y0: GLOBAL[f32, 4], *, n):
    for i in GROUP(4):
        total: f32 = 0.0
        for j in SERIAL(n):
            total = total + x0[i*n + j]
        y0[i] = total
""")
    found = printed(kernel)

    assert [found.iterations({"n": size}) for size in (0, 5)] == [4, 4]
    assert found.shader({"n": 5}, "rows", {}).parameters[0] == 5
    spread = parse_kernel("""
def spread(y0: GLOBAL[f32, 4*n], *, n):
    for i in GROUP(4):
        for j in GROUP(n):
            y0[i*n + j] = 1.0
""")
    assert [printed(spread).shader({"n": size}, "spread", {}).threads for size in (0, 5, 7)] == [0, 20, 28]
