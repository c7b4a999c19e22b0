"""Expressions in GLSL: every function on every type compiles, and what cannot be computed is refused by name."""

from __future__ import annotations

import inspect
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from openinfer.dtypes import (
    BF16,
    BITSET,
    BOOL,
    BY_NAME,
    F8,
    F16,
    F32,
    F64,
    I4,
    I8,
    I16,
    I32,
    I64,
    SINT,
    T1,
    U2,
    U8,
    U32,
    U64,
    UINT,
    DType,
    Kind,
)
from openinfer.expr import glsl_renderer, linearise, tree
from openinfer.expr.linear import Program
from openinfer.testing.waiting import limit_s

NUMBERS = (F32, F64, *SINT, *UINT)
COMPUTED = (*NUMBERS, BOOL)
LACKING_ON_F64 = {"rem", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "erf", "power"}
FUNCTIONS = sorted(
    name
    for name, value in vars(tree).items()
    if inspect.isfunction(value)
    and not name.startswith("_")
    and name not in ("literal", "substitute", "dataclass", "cast")
)


def program(function: str, dtype: DType) -> Program | None:
    """Return the program of one function on one type, or None where expressions do not have it."""
    count = len(inspect.signature(getattr(tree, function)).parameters)
    operands = [tree.Input(index, dtype) for index in range(count)]
    if function == "select":
        operands[0] = tree.Input(0, BOOL)
    try:
        return linearise(getattr(tree, function)(*operands))
    except tree.ExprError:
        return None


def programs() -> dict[str, Program]:
    found = {f"{f}-{d}": program(f, d) for f in FUNCTIONS for d in COMPUTED if d is not F64 or f not in LACKING_ON_F64}
    casts = {
        f"cast-{s}-{t}": linearise(tree.cast(tree.Input(0, s), t))
        for s in BY_NAME.values()
        for t in BY_NAME.values()
        if s is not t
    }
    return {name: value for name, value in found.items() if value is not None} | casts


def shader(chosen: dict[str, Program]) -> str:
    """Return a compute shader with one function per program."""
    helpers: set[str] = set()
    extensions: set[str] = set()
    functions: list[str] = []
    for number, value in enumerate(chosen.values()):
        inputs = {step.index: step.dtype for step in value.instructions if step.function == "input"}
        fragment = glsl_renderer.render(value, {index: f"x{index}" for index in inputs})
        helpers.update(fragment.helpers)
        extensions.update(fragment.requires)
        parameters = ", ".join(f"{glsl_renderer.glsl_type(dtype)} x{index}" for index, dtype in sorted(inputs.items()))
        result = glsl_renderer.glsl_type(value.instructions[-1].dtype)
        body = "\n".join((*fragment.statements, f"return {fragment.result};"))
        functions.append(f"{result} case_{number}({parameters}) {{\n{body}\n}}\n")
    enabled = "".join(f"#extension {name} : require\n" for name in sorted(extensions))
    source = glsl_renderer.helper_source(helpers)
    return f"#version 450\n{enabled}layout(local_size_x = 1) in;\n{source}\n{''.join(functions)}\nvoid main() {{}}\n"


def compile_shader(source: str, folder: Path) -> None:
    compiler = shutil.which("glslangValidator")
    if compiler is None:
        pytest.skip("no glslangValidator on this machine: generated GLSL cannot be compiled")
    (folder / "functions.comp").write_text(source)
    command = [compiler, "--target-env", "vulkan1.1", "-o", "functions.spv", "functions.comp"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit_s(120))
    assert built.returncode == 0, built.stdout[:4000]


def test_every_function_on_every_type_compiles(tmp_path: Path) -> None:
    compile_shader(shader(programs()), tmp_path)


@pytest.mark.parametrize("function", sorted(LACKING_ON_F64))
def test_a_function_that_glsl_does_not_have_for_f64_is_refused_by_name(function: str) -> None:
    value = program(function, F64)
    assert value is not None

    with pytest.raises(tree.ExprError, match=f"no function '{function}' on f64"):
        glsl_renderer.render(value, {0: "a", 1: "b"})


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        (F32, 1.0, "1.0"),
        (F32, 0.1, "0.10000000149011612"),
        (F32, -2.5, "-2.5"),
        (F32, -0.0, "uintBitsToFloat(0x80000000u)"),
        (F32, math.inf, "uintBitsToFloat(0x7f800000u)"),
        (F32, 2.0**-149, "uintBitsToFloat(0x00000001u)"),
        (F64, 0.1, "0.1lf"),
        (F64, -math.inf, "packDouble2x32(uvec2(0x00000000u, 0xfff00000u))"),
        (I8, -128, "-128"),
        (I32, -(2**31), "(-2147483647 - 1)"),
        (U32, 7, "7U"),
        (I64, -(2**63), "(-9223372036854775807L - 1L)"),
        (U64, 2**64 - 1, "18446744073709551615UL"),
        (BOOL, True, "true"),
        (F16, -2.5, "0xc100u"),
        (BF16, math.inf, "0x7f80u"),
        (F8, 1.0, "0x3cu"),
        (I4, -8, "-8"),
        (U2, 3, "3U"),
        (T1, -1, "-1"),
        (BITSET, 255, "255U"),
    ],
)
def test_constants_are_exact(dtype: DType, value: float, text: str) -> None:
    assert glsl_renderer.literal_text(dtype, value) == text


def test_floats_are_precise_and_integers_wrap_within_their_width() -> None:
    total = tree.add(tree.Input(0, F32), tree.Input(1, F32))
    product = tree.mul(tree.Input(0, I16), tree.Input(1, I16))

    assert glsl_renderer.render(linearise(total), {0: "a[i]", 1: "b[i]"}).statements == (
        "precise float t0 = a[i];",
        "precise float t1 = b[i];",
        "precise float t2 = t0 + t1;",
    )
    assert glsl_renderer.render(linearise(product), {0: "a", 1: "b"}).statements[-1] == (
        "int t2 = bitfieldExtract(t0 * t1, 0, 16);"
    )


def test_64_bit_integers_name_the_extension_that_they_need() -> None:
    fragment = glsl_renderer.render(linearise(tree.neg(tree.Input(0, I64))), {0: "a"})

    assert fragment.requires == ("GL_EXT_shader_explicit_arithmetic_types_int64",)


def test_types_that_generated_glsl_does_not_support_are_named() -> None:
    foreign = DType(name="f24", kind=Kind.FLOAT, bits=24, oinf_tag=0, storage="f24")

    with pytest.raises(tree.ExprError, match="no element type f24"):
        glsl_renderer.glsl_type(foreign)


@pytest.mark.parametrize("dtype", [F16, I4, U2])
def test_types_that_are_not_computed_in_are_only_cast(dtype: DType) -> None:
    total = tree.Apply("add", (tree.Input(0, dtype), tree.Input(1, dtype)), dtype)

    with pytest.raises(tree.ExprError, match=f"add cannot be computed in {dtype}: cast to a compute type first"):
        glsl_renderer.render(linearise(total), {0: "a", 1: "b"})


def test_low_floats_are_bits_that_are_widened_on_entry_and_rounded_at_the_end() -> None:
    root = tree.cast(tree.sqrt(tree.cast(tree.Input(0, F16), F32)), BF16)

    fragment = glsl_renderer.render(linearise(root), {0: "a"})

    assert fragment.statements == (
        "uint t0 = a;",
        "precise float t1 = oi_f32_from_f16(t0);",
        "precise float t2 = oi_sqrt_f32(t1);",
        "uint t3 = oi_bf16_from_f32(t2);",
    )


def test_helpers_come_after_what_they_call() -> None:
    source = glsl_renderer.helper_source(["oi_tanh_f32", "oi_div_u8", "oi_tanh_f32"])

    names = ["oi_is_nan_f32(float", "oi_exp_f32(float", "oi_expm1_f32(float", "oi_tanh_f32(float"]
    places = [source.index(f"float {name}") if "nan" not in name else source.index(f"bool {name}") for name in names]
    assert places == sorted(places)
    assert source.count("float oi_tanh_f32(") == 1
    assert glsl_renderer.helper_source([]) == ""


def test_narrow_unsigned_results_are_masked() -> None:
    fragment = glsl_renderer.render(linearise(tree.bit_not(tree.Input(0, U8))), {0: "a"})

    assert fragment.statements[-1] == "uint t1 = (~t0) & 0xffu;"


def test_the_remainder_of_floats_has_one_loop_and_one_way_out():
    """Mesa takes a minute to compile four of several loops and returns, as one word of 8-bit floats needs."""
    source = glsl_renderer.helper_source(["oi_rem_f32"])

    assert source.count("return ") == 1
    assert len(re.findall(r"\b(?:for|while) ", source)) == 1
