"""Products, words and limits of bytes, in NumPy and compiled C as Python's integers are."""

from __future__ import annotations

import ctypes
import inspect
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.dtypes import F32, I8, I32, U8, DType
from openinfer.expr import c_renderer, linearise, tree
from openinfer.expr.numpy_renderer import compile_program
from openinfer.testing.waiting import limit_s

RANDOM = np.random.default_rng(17)
CODES = np.array([0, 1, -1, 127, -128, 85], np.int8)
A, B, C = (
    np.concatenate([RANDOM.choice(CODES, (200, 4)).view(np.int32)[:, 0], RANDOM.integers(-(2**31), 2**31, 200)]).astype(
        np.int32
    )
    for _ in range(3)
)
PROGRAMS = {
    "<4B": linearise(tree.dot4(*(tree.Input(number, I32) for number in range(3)))),
    "<4b": linearise(tree.sdot4(*(tree.Input(number, I32) for number in range(3)))),
    "<2h": linearise(tree.dot2(*(tree.Input(number, I32) for number in range(3)))),
}
"""The products by the form of the parts of their first operand."""


def expected(form: str) -> list[int]:
    found: list[int] = []
    for a, b, c in zip(A.tolist(), B.tolist(), C.tolist(), strict=True):
        other = "<2h" if form == "<2h" else "<4b"
        codes = zip(struct.unpack(form, struct.pack("<i", a)), struct.unpack(other, struct.pack("<i", b)), strict=True)
        total = (c + sum(x * y for x, y in codes)) % 2**32
        found.append(total - 2**32 if total >= 2**31 else total)
    return found


@pytest.mark.parametrize("form", PROGRAMS)
def test_numpy(form: str) -> None:
    out = np.empty_like(A)
    compile_program(PROGRAMS[form])([A, B, C], out)

    assert out.tolist() == expected(form)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("form", PROGRAMS)
def test_c(form: str, tmp_path: Path) -> None:
    fragment = c_renderer.render(PROGRAMS[form], {0: "a[i]", 1: "b[i]", 2: "c[i]"})
    body = " ".join((*fragment.statements, f"y[i] = {fragment.result};"))
    head = "void run(const int32_t *a, const int32_t *b, const int32_t *c, int32_t *y, int n)"
    source = f"{c_renderer.helper_source(fragment.helpers)}\n{head} {{ for (int i = 0; i < n; ++i) {{ {body} }} }}\n"
    (tmp_path / "dot4.c").write_text(f"#include <stdint.h>\n{source}")
    warnings = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
    command = ("gcc", *warnings, "-O2", "-shared", "-fPIC", "-o", "dot4.so", "dot4.c")
    subprocess.run(command, cwd=tmp_path, check=True, timeout=limit_s(60))
    found = np.empty_like(A)
    given = (array.ctypes.data_as(ctypes.c_void_p) for array in (A, B, C, found))
    ctypes.CDLL(str(tmp_path / "dot4.so")).run(*given, len(A))

    assert found.tolist() == expected(form)


@pytest.mark.parametrize(("form", "helper"), [("<4B", "oi_dot4_i32"), ("<4b", "oi_sdot4_i32"), ("<2h", "oi_dot2_i32")])
def test_glsl_has_it(form: str, helper: str) -> None:
    from openinfer.expr import glsl_renderer

    fragment = glsl_renderer.render(PROGRAMS[form], {0: "a", 1: "b", 2: "c"})

    assert fragment.helpers == (helper,)


@pytest.mark.parametrize("number", [0, 1, 2, -1])
def test_two_bytes_of_a_word_are_widened_to_its_halves(number: int) -> None:
    out = np.empty_like(A)
    compile_program(linearise(tree.widen(tree.Input(0, I32), tree.literal(number, I32))))([A], out)

    halves = [struct.unpack("<4b", struct.pack("<i", word))[number & 1 :: 2] for word in A.tolist()]
    assert out.tolist() == [struct.unpack("<i", struct.pack("<2h", *pair))[0] for pair in halves]


@pytest.mark.parametrize(("dtype", "code"), [(U8, "<4B"), (I8, "<4b")])
def test_the_first_byte_of_a_word_is_its_lowest(dtype: DType, code: str) -> None:
    bytes_ = RANDOM.integers(0, 256, (4, 500), np.uint8).view(storage_dtype(dtype))
    out = np.empty(500, np.int32)
    compile_program(linearise(tree.word(*(tree.Input(number, dtype) for number in range(4)))))(list(bytes_), out)

    words = [struct.unpack("<i", struct.pack(code, *column))[0] for column in bytes_.T.tolist()]
    assert out.tolist() == words


def test_words_are_made_of_bytes() -> None:
    with pytest.raises(tree.ExprError, match="word is not defined on i32"):
        tree.word(*(tree.Input(number, I32) for number in range(4)))


@pytest.mark.parametrize("build", [tree.dot4, tree.sdot4, tree.dot2, tree.widen])
def test_only_words_of_i32_have_bytes(build: Callable[..., tree.Expr]) -> None:
    operands = len(inspect.signature(build).parameters)
    with pytest.raises(tree.ExprError, match=f"{build.__name__} is not defined on f32"):
        build(*(tree.Input(number, F32) for number in range(operands)))
