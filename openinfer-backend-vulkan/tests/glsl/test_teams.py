"""Lanes as words, and threads that meet: the source, and what the device computes against the interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BY_NAME
from openinfer.ir.types import TensorType
from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.ops.calls import OpCall
from openinfer.plugins.types import KernelSpec
from openinfer_backend_vulkan.glsl.loop_programs import printed
from openinfer_backend_vulkan.glsl.shaders import PORTABLE, Shader, ShaderTarget

if TYPE_CHECKING:
    from openinfer.loops import Kernel
    from openinfer_backend_vulkan.backend import VulkanBackend

    Array = np.ndarray[Any, Any]

IN_EIGHTS = replace(PORTABLE, subgroup=8)
"""What is known of subgroups of llvmpipe."""


def on_device(device: VulkanBackend, kernel: Kernel, target: ShaderTarget, arrays: dict[str, Array]) -> None:
    """Run a loop program on the device; what it writes is put into the arrays."""
    text = printed(kernel, target)
    types = {b.name: TensorType(b.dtype, (b.size.evaluate({}),)) for b in kernel.buffers}
    buffers = {name: device.upload(types[name], array) for name, array in arrays.items()}
    shader = text.shader({}, kernel.name, types)

    def made(_: OpCall) -> Shader:
        return shader

    spec = KernelSpec(op=kernel.name, kernel=made)
    call = OpCall(op=kernel.name, inputs=(), outputs=tuple(types[name] for name in text.writes), settings={})
    device.bind_kernel(spec, call, [buffers[n] for n in text.reads], [buffers[n] for n in text.writes])()
    for name in text.writes:
        arrays[name][:] = device.read(buffers[name])


def agree(device: VulkanBackend, text: str, target: ShaderTarget = IN_EIGHTS) -> None:
    """Compare what the device and the interpreter make of random elements."""
    kernel = parse_kernel(text)
    verify(kernel)
    rng = np.random.default_rng(0)
    arrays: dict[str, Array] = {}
    for buffer in kernel.buffers:
        kind = np.dtype(storage_dtype(buffer.dtype))
        small = rng.integers(0, 9, buffer.size.evaluate({}))
        arrays[buffer.name] = small.astype(kind) if kind.kind in "iub" else (small / 4).astype(kind)
    expected = {name: array.copy() for name, array in arrays.items()}
    interpret(kernel, expected)
    on_device(device, kernel, target, arrays)
    for name, array in arrays.items():
        assert array.tobytes() == expected[name].tobytes(), name


def copied(dtype: str, lanes: int, groups: int = 3) -> str:
    count = lanes * groups
    return (
        f"def copied(x: GLOBAL[{dtype}, {count}], y: GLOBAL[{dtype}, {count}]):\n"
        f"    for g in GROUP({groups}):\n"
        f"        for l in LANES({lanes}):\n"
        f"            y[{lanes}*g + l] = x[{lanes}*g + l]\n"
    )


ADDED = """
def added(x: GLOBAL[f32, 24], w: GLOBAL[f32, 6], y: GLOBAL[f16, 24]):
    for g in GROUP(6):
        for l in LANES(4):
            y[4*g + l] = cast(x[4*g + l] + w[g], f16)
"""

TOTALS = """
def totals(x: GLOBAL[i32, {count}], y: GLOBAL[i32, {rows}]):
    for g in GROUP(2):
        for row in LOCAL({teams}):
            for t in LOCAL({threads}):
                total: i32 = i32(0)
                for step in SERIAL(2):
                    total = total + x[{each}*{teams}*g + {each}*row + {threads}*step + t]
                with JOIN(t):
                    total = total + peer(total)
                if 0 <= t < 1:
                    y[{teams}*g + row] = total
"""

DOWN = """
def down(x: GLOBAL[f32, 24], y: GLOBAL[f32, 4]):
    for k in LOCAL(6):
        for j in LOCAL(4):
            total: f32 = x[4*k + j]
            with JOIN(k):
                total = total + peer(total)
            if 0 <= k < 1:
                y[j] = total
"""

GREATEST = """
def greatest(x: GLOBAL[f32, 96], y: GLOBAL[i32, 3]):
    for g in GROUP(3):
        for t in LOCAL(32):
            most: f32 = x[32*g + t]
            at: i32 = number(t, i32)
            with JOIN(t):
                most = select(gt(peer(most), most), peer(most), most)
                is_before = logical_and(eq(peer(most), most), lt(peer(at), at))
                at = select(logical_or(gt(peer(most), most), is_before), peer(at), at)
            if 0 <= t < 1:
                y[g] = at
"""

TURNS = """
def turns(x: GLOBAL[i32, 96], y: GLOBAL[i32, 32]):
    part: SHARED[i32, 32]
    for t in LOCAL(32):
        sum: i32 = i32(0)
        for step in SERIAL(3):
            part[t] = x[32*step + t]
            BARRIER()
            total: i32 = part[-t + 31]
            with JOIN(t):
                total = total + peer(total)
            sum = sum * i32(3) + total * part[-t + 31]
            BARRIER()
        y[t] = sum
"""

REPEATED = """
def repeated(x: GLOBAL[i32, 192], y: GLOBAL[i32, 64]):
    for t in LOCAL(64):
        sum: i32 = i32(0)
        for step in {bind}(3):
            total: i32 = x[64*step + t]
            with JOIN(t):
                total = total + peer(total)
            sum = sum * i32(3) + total
        y[t] = sum
"""


def totals(teams: int, threads: int) -> str:
    each = 2 * threads
    return TOTALS.format(teams=teams, threads=threads, each=each, count=2 * teams * each, rows=2 * teams)


@pytest.mark.parametrize(
    ("dtype", "lanes", "item", "bindings"),
    [
        ("f32", 4, "uvec4 b_x_w4[]", 1),
        ("f32", 2, "uvec2 b_x_w2[]", 1),
        ("f32", 8, "uvec4 b_x_w4[]", 2),
        ("i16", 8, "uvec4 b_x_w4[]", 1),
        ("u8", 4, "uint b_x_w1[]", 1),
        ("i4", 8, "uint b_x_w1[]", 1),
        ("bool", 16, "uvec4 b_x_w4[]", 1),
    ],
)
def test_lanes_that_touch_neighbours_load_and_store_words(dtype: str, lanes: int, item: str, bindings: int) -> None:
    source = printed(parse_kernel(copied(dtype, lanes))).source

    assert item in source
    assert source.count("= b_x_w") == source.count("b_y_w") - 1 == bindings
    assert "atomic" not in source


@pytest.mark.parametrize(("dtype", "lanes"), [("f64", 2), ("f32", 3), ("i8", 2)])
def test_lanes_that_fill_no_word_move_their_elements_one_by_one(dtype: str, lanes: int) -> None:
    assert "_w" not in printed(parse_kernel(copied(dtype, lanes))).source


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "i8", "u8", "i16", "bool", "u32", "i32", "f64", "i64"])
@pytest.mark.parametrize("lanes", [4, 8])
def test_the_device_moves_words_of_every_type(device: VulkanBackend, name: str, lanes: int) -> None:
    assert BY_NAME[name].bits
    agree(device, copied(name, lanes))


def test_lanes_of_types_that_differ_in_width(device: VulkanBackend) -> None:
    source = printed(parse_kernel(ADDED)).source

    assert "uvec2 b_y_w2[]" in source
    assert source.count("b_w[") == 2
    agree(device, ADDED)


@pytest.mark.parametrize(
    ("teams", "threads"), [(1, 32), (1, 64), (4, 8), (2, 16), (8, 4), (1, 24), (3, 5), (16, 2), (64, 1)]
)
@pytest.mark.parametrize("target", [PORTABLE, IN_EIGHTS])
def test_threads_along_a_loop_get_one_total(
    device: VulkanBackend, teams: int, threads: int, target: ShaderTarget
) -> None:
    agree(device, totals(teams, threads), target)


def test_a_subgroup_hands_over_values_and_several_meet_in_shared_memory() -> None:
    one, several = (printed(parse_kernel(totals(1, n)), IN_EIGHTS).source for n in (8, 64))

    assert "subgroupShuffleXor(r_total, 4u)" in one
    assert "shared" not in one
    assert "barrier" not in one
    assert "shared int j_total_" in several
    assert several.count("barrier();") == 1


def test_threads_without_subgroups_meet_in_shared_memory() -> None:
    source = printed(parse_kernel(totals(1, 8))).source

    assert "subgroup" not in source
    assert source.count("barrier();") == 4


@pytest.mark.parametrize("text", [DOWN, GREATEST, TURNS])
@pytest.mark.parametrize("target", [PORTABLE, IN_EIGHTS])
def test_the_device_joins_as_the_interpreter_does(device: VulkanBackend, text: str, target: ShaderTarget) -> None:
    agree(device, text, target)


@pytest.mark.parametrize("target", [PORTABLE, IN_EIGHTS])
def test_joins_in_copies_of_statements_wait_for_one_another(device: VulkanBackend, target: ShaderTarget) -> None:
    serial, unrolled = (REPEATED.format(bind=bind) for bind in ("SERIAL", "UNROLL"))
    counts = [printed(parse_kernel(text), target).source.count("barrier();") for text in (serial, unrolled)]

    assert counts[0] == counts[1]
    agree(device, unrolled, target)
