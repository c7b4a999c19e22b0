"""Cooperative matrices in SPIR-V: the portable form of what every GLSL compiler makes."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from openinfer_backend_vulkan.spirv.compiler import compile_shader
from openinfer_backend_vulkan.spirv.module import instructions, opcode, words_of

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_NV_integer_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
layout(local_size_x = 32) in;
layout(std430, set = 0, binding = 0) readonly buffer X { uvec4 x[]; };
layout(std430, set = 0, binding = 1) buffer Y { TOTAL y[]; };
layout(constant_id = 100) const uint left_rows = 16;
layout(constant_id = 101) const uint right_rows = 16;
layout(constant_id = 102) const uint total_rows = 16;
"""
BODY = """void main() {
    LEFT a;
    RIGHT b;
    ACCUMULATOR c = ACCUMULATOR(0);
    coopMatLoadNV(a, x, 0, 2, false);
    coopMatLoadNV(b, x, 32, 2, true);
    c = coopMatMulAddNV(a, b, c);
    coopMatStoreNV(c, y, 0, 16, false);
}
"""
TYPE, LOAD, STORE, FMA, CONSTANT = 4456, 4457, 4458, 4459, 43
FORMS = {
    "f16": ("float", "fcoopmatNV<16, gl_ScopeSubgroup, {}, 16>", "fcoopmatNV<32, gl_ScopeSubgroup, total_rows, 16>"),
    "i8": ("int", "icoopmatNV<8, gl_ScopeSubgroup, {}, 16>", "icoopmatNV<32, gl_ScopeSubgroup, total_rows, 16>"),
    "u8": ("uint", "ucoopmatNV<8, gl_ScopeSubgroup, {}, 16>", "ucoopmatNV<32, gl_ScopeSubgroup, total_rows, 16>"),
}


def compiled(form: str) -> bytes:
    total, factor, accumulator = FORMS[form]
    names = {"LEFT": factor.format("left_rows"), "RIGHT": factor.format("right_rows"), "ACCUMULATOR": accumulator}
    body = re.sub("|".join(names), lambda found: names[found[0]], BODY)
    return compile_shader(HEAD.replace("TOTAL", total) + body)


def found(code: bytes, op: int) -> list[tuple[int, ...]]:
    return [part[1:] for part in instructions(words_of(code)) if opcode(part) == op]


def constants(code: bytes) -> dict[int, int]:
    return {made: value for _, made, value in found(code, CONSTANT)}


@pytest.mark.parametrize("form", FORMS)
def test_types_say_what_they_are_used_for(form: str) -> None:
    code = compiled(form)
    known = constants(code)

    types = [tuple(known[number] for number in operands[2:]) for operands in found(code, TYPE)]
    assert sorted(types) == [(3, 16, 16, 0), (3, 16, 16, 1), (3, 16, 16, 2)]


def test_loads_and_stores_say_along_which_lines_elements_lie() -> None:
    code = compiled("f16")
    known = constants(code)

    assert [known[load[3]] for load in found(code, LOAD)] == [0, 1]
    assert [known[load[4]] for load in found(code, LOAD)] == [2, 2]
    assert [(known[store[2]], known[store[3]]) for store in found(code, STORE)] == [(0, 16)]


@pytest.mark.parametrize(("form", "operands"), [("f16", 5), ("u8", 5), ("i8", 6)])
def test_products_of_signed_integers_say_so(form: str, operands: int) -> None:
    (product,) = found(compiled(form), FMA)

    assert len(product) == operands
    assert product[5:] in ((), (0xF,))


def test_nothing_of_the_other_form_is_left() -> None:
    code = compiled("f16")

    assert b"SPV_KHR_cooperative_matrix" in code
    assert b"SPV_NV_cooperative_matrix" not in code
    assert not [part for part in instructions(words_of(code)) if 5357 <= opcode(part) <= 5362]
    assert (6022,) in found(code, 17)
    ids = {made for _, made, _ in found(code, CONSTANT)}
    assert max(ids) < words_of(code)[3]


def test_other_shaders_are_left_as_they_are() -> None:
    code = compile_shader("#version 450\nvoid main() {}\n")

    assert b"cooperative" not in code


@pytest.mark.parametrize("form", FORMS)
def test_the_modules_are_valid(form: str, tmp_path: Path) -> None:
    tool = shutil.which("spirv-val")
    if tool is None:
        pytest.skip("spirv-val is not installed")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    year = re.search(r"v(\d+)\.(\d+)", version)
    if year is None or (int(year[1]), int(year[2])) < (2023, 5):
        pytest.skip(f"this spirv-val does not know the extension: {version.splitlines()[0]}")
    module = tmp_path / "module.spv"
    module.write_bytes(compiled(form))
    said = subprocess.run([tool, "--target-env", "vulkan1.1", module], capture_output=True, text=True, check=False)
    assert said.stderr + said.stdout == ""
