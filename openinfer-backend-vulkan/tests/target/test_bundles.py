"""Bundles of the synth target vulkan as files: what they hold, what is refused, and what device files change."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import SynthesisError
from openinfer.synth import Synthesis, Synthesizer
from openinfer_backend_vulkan.target.devices import PROFILES
from openinfer_backend_vulkan.target.hazards import Hazards
from openinfer_backend_vulkan.target.places import fixed
from openinfer_backend_vulkan.target.spirv import header_of

CHAIN = """
dynamic { x: f32[N]; }
volatile { y: f32[N]; z: f32[2, N]; }
block entry {
  op exp(x) >> a with { fuse = false };
  op softmax(a, axis=0) >> y;
  op concat(y, y, axis=0) >> both;
  op reshape(both, shape=[2, -1]) >> z;
  return y, z;
}
"""


def made(text: str = CHAIN, *, size: int = 8, **options: Any) -> Synthesis:
    sizes = {"N": size}
    return Synthesizer("vulkan", **options).synthesize(oi.Model.from_arrays({}, sizevars=sizes), text, sizes=sizes)


def kernels(synthesis: Synthesis) -> dict[str, str]:
    return {name: data.decode() for name, data in synthesis.bundle.files.items() if name.endswith(".comp")}


def test_a_bundle_has_kernels_a_host_program_and_what_builds_it() -> None:
    files = set(made().bundle.files) - set(kernels(made()))

    assert files == {
        *("Makefile", "PROVENANCE.json", "README.md", "main.c", "model.c", "model.h", "npy.h", "openinfer_platform.h"),
        *("openinfer_vulkan.h", "plan.json", "sbom.spdx.json", "weights.h"),
    }


def test_equal_programs_give_equal_bytes_and_kernels_name_their_lines() -> None:
    first, second = made(), made()

    assert first.bundle.files == second.bundle.files
    assert any("/* line 5: op exp(x) >> a with { fuse = false } */" in text for text in kernels(first).values())
    assert all(text.startswith("#version 450\n") for text in kernels(first).values())


def test_statements_that_differ_in_sizes_alone_share_a_kernel() -> None:
    text = """
    dynamic { x: f32[8]; w: f32[32]; }
    volatile { y: f32[8]; z: f32[32]; }
    block entry { op exp(x) >> y; op exp(w) >> z; return y, z; }
    """
    (kernel,) = kernels(made(text, arch="mali")).values()

    assert "op exp(x) >> y" in kernel
    assert "op exp(w) >> z" in kernel


def test_a_prefix_renames_functions_and_files() -> None:
    files = made(prefix="tiny").bundle.files

    assert (
        b"enum tiny_status tiny_step(struct tiny *tiny" in files["tiny.h"]
        or b"tiny_step(struct tiny" in files["tiny.h"]
    )
    assert b"model_step" not in files["tiny.c"]


def test_a_function_that_glsl_does_not_have_is_an_error_with_its_line() -> None:
    text = "dynamic { x: f64[2]; } volatile { y: f64[2]; } block entry { op exp(x) >> y; return y; }"
    with pytest.raises(
        SynthesisError, match=r"1:62: .*vulkan has no exp for f64: its expression uses exp of f64"
    ) as caught:
        made(text)

    assert caught.value.code == "kernel-missing"


def test_the_size_of_a_cache_after_a_reset_is_an_error_with_its_line() -> None:
    text = """
    dynamic { x: f32[2]; i: i32; stores: bool; }
    persistent { n: i32; V(t): f32[2] @table; }
    block entry {
      branch stores push pop;
      cache.read V[i] >> one;
      cache.read V[0..] >> all;
      return one, all;
    }
    block push { cache.write x >> V[n]; cache.increment n; return; }
    block pop { cache.decrement n; cache.reset V[n]; return; }
    """
    with pytest.raises(SynthesisError, match=r"line \d+: a reset after which the size of a cache is read"):
        made(text, limits={"t": 9})


@pytest.mark.parametrize(("option", "value"), [("project", "platformio"), ("weights", "object")])
def test_choices_that_the_target_has_not_are_refused(option: str, value: str) -> None:
    choice: dict[str, Any] = {option: value}
    with pytest.raises(SynthesisError, match=f"'{value}'"):
        made(**choice)


def test_operators_on_constants_are_computed_beforehand() -> None:
    text = """
    dynamic { x: f32[2]; }
    constant { w: f32[2]; }
    volatile { y: f32[2]; }
    block entry { op exp(w) >> grown; op mul(x, grown) >> y; return y; }
    """
    model = oi.Model.from_arrays({"w": np.zeros(2, np.float32)})
    synthesis = Synthesizer("vulkan").synthesize(model, text)

    assert [weight.ops for weight in synthesis.plan.weights] == [("exp",)]
    assert len(kernels(synthesis)) == 1


def test_a_device_file_says_how_wide_storage_and_workgroups_are() -> None:
    text = "dynamic { x: i8[N]; } volatile { y: i8[N]; } block entry { op neg(x) >> y; return y; }"
    narrow, mobile = (next(iter(kernels(made(text, arch=name)).values())) for name in ("h200", "mali"))

    assert "int8_t" in narrow
    assert "int8_t" not in mobile
    assert "atomicOr" in mobile


ROWS_AND_PRODUCT = """
dynamic { x: f32[64, 1024]; w: f32[1024, 256]; }
volatile { y: f32[64, 1024]; z: f32[64, 256]; n: f32[64, 1024]; }
block entry {
  op softmax(x, axis=-1) >> y;
  op matmul(x, w) >> z;
  op neg(x) >> n;
  return y, z, n;
}
"""
"""Rows by groups of threads, a product by tiles in shared memory, and threads that work alone."""


def facts(kernel: str) -> str:
    """Return what a kernel takes of a device: invocations, shared elements, how threads join, where its numbers are."""
    (size,) = re.findall(r"local_size_x = (\d+)", kernel)
    shared = [f"{kind}[{count}]" for kind, count in re.findall(r"shared (\w+) \w+\[(\d+)\]", kernel)]
    joined = sorted(set(re.findall(r"(subgroup\w+)\(", kernel)))
    return " ".join([size, *shared, *joined, "pushed" if "push_constant" in kernel else "in memory"])


@pytest.mark.parametrize(
    ("section", "field", "value", "softmax", "matmul", "neg"),
    [
        (
            *("limits", "subgroup_size", 32),
            "128 float[4] float[4] subgroupShuffleXor pushed",
            "256 vec4[272] vec4[272] pushed",
            "256 pushed",
        ),
        (
            *("limits", "subgroup_size", 8),
            "128 float[16] float[16] subgroupShuffleXor pushed",
            "256 vec4[272] vec4[272] pushed",
            "256 pushed",
        ),
        (
            *("features", "subgroup_ops", False),
            "128 float[128] float[128] pushed",
            "256 vec4[272] vec4[272] pushed",
            "256 pushed",
        ),
        (
            *("limits", "max_workgroup_invocations", 128),
            "128 float[4] float[4] subgroupShuffleXor pushed",
            "128 float[128] pushed",
            "64 pushed",
        ),
        (
            *("limits", "max_workgroup_size", [128, 128, 64]),
            "128 float[4] float[4] subgroupShuffleXor pushed",
            "128 float[128] pushed",
            "64 pushed",
        ),
        (
            *("limits", "max_shared_memory_bytes", 1024),
            "128 float[4] float[4] subgroupShuffleXor pushed",
            "128 float[128] pushed",
            "256 pushed",
        ),
        (
            *("limits", "max_push_constants_bytes", 0),
            "128 float[4] float[4] subgroupShuffleXor in memory",
            "256 vec4[272] vec4[272] in memory",
            "256 in memory",
        ),
    ],
    ids=["as it is", "subgroups of 8", "no subgroups", "groups of 128", "128 across", "shared memory", "no constants"],
)
def test_fields_of_a_device_file_steer_schedules(
    section: str, field: str, value: object, softmax: str, matmul: str, neg: str
) -> None:
    document = copy.deepcopy(dict(PROFILES["h200"]()))
    document[section][field] = value
    synthesis = Synthesizer("vulkan", arch=oi.DeviceArch.load(document)).synthesize(
        oi.Model.from_arrays({}), ROWS_AND_PRODUCT
    )

    assert [facts(kernel) for _, kernel in sorted(kernels(synthesis).items())] == [softmax, matmul, neg]


def test_a_tensor_that_the_device_cannot_bind_is_named() -> None:
    with pytest.raises(SynthesisError, match=r"f32\[33554433\] takes 134,217,732 bytes, the device binds 134,217,728"):
        made(size=33554433, arch="mali")


def test_commands_wait_for_what_they_touch_only() -> None:
    a, b, c = (fixed("arena", at, 64, "") for at in (0, 64, 128))
    other = fixed("state", 0, 64, "")
    hazards = Hazards()

    assert not hazards.needs_barrier([a], [b])
    assert not hazards.needs_barrier([a], [c])
    assert not hazards.needs_barrier([other], [])
    assert hazards.needs_barrier([b], [])
    assert hazards.needs_barrier([], [b])
    assert not hazards.needs_barrier([a], [other])
    hazards.forget()
    assert hazards.needs_barrier([a], [])


def test_spirv_becomes_words_of_a_header() -> None:
    code = np.arange(10, dtype="<u4").tobytes()

    header = header_of(code, "kernel_3_code")

    assert header.startswith("static const uint32_t kernel_3_code[] = {\n    0x00000000, 0x00000001,")
    assert header.count("0x") == 10
