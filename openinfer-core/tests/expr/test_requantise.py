"""Codes of totals by integer multipliers: as fractions say, with the two roundings of f32 that they stand for."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from openinfer.dtypes import F32, I32
from openinfer.expr import c_renderer, linearise, tree
from openinfer.expr.numpy_renderer import compile_program
from openinfer.testing.waiting import limit_s

PROGRAM = linearise(tree.requantise(*(tree.Input(number, I32) for number in range(4))))


def operands() -> list[np.ndarray]:
    """Return multipliers of 24 bits and others, and totals whose products are near halves, integers and the limits."""
    random = np.random.default_rng(12)
    count = 6000
    m = random.integers(1, 1 << 24, count) << random.integers(0, 8, count)
    m = np.where(random.random(count) < 0.3, 1 << random.integers(0, 31, count), m).clip(1, 2**31 - 128)
    n, z = random.integers(0, 32, count), random.integers(-256, 257, count)
    near = random.integers(-520, 520, count) + random.choice([0.0, 0.5], count)
    x = np.rint(near / np.ldexp(m.astype(np.float64), -32 - n)) + random.integers(-1, 2, count)
    return [array.astype(np.int32) for array in (m, x.clip(-(2**31), 2**31 - 1), n, z)]


def expected(operands: list[np.ndarray]) -> list[int]:
    codes: list[int] = []
    for m, x, n, z in zip(*(array.tolist() for array in operands), strict=True):
        # A product of 24 bits by 24 is exact in f64, and so is rounded once.
        product = np.float32(float(np.float32(x)) * float(Fraction(m, 1 << (32 + n))))
        codes.append(max(-128, min(127, round(Fraction(float(product))) + z)))
    return codes


def test_numpy() -> None:
    given = operands()
    out = np.empty_like(given[0])
    compile_program(PROGRAM)(given, out)

    assert out.tolist() == expected(given)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_c(tmp_path: Path) -> None:
    given = operands()
    fragment = c_renderer.render(PROGRAM, {number: f"{name}[i]" for number, name in enumerate("mxnz")})
    body = " ".join((*fragment.statements, f"y[i] = {fragment.result};"))
    head = f"void run({', '.join(f'const int32_t *{name}' for name in 'mxnz')}, int32_t *y, int count)"
    loop = f"{head} {{ for (int i = 0; i < count; ++i) {{ {body} }} }}\n"
    (tmp_path / "run.c").write_text(f"#include <stdint.h>\n{c_renderer.helper_source(fragment.helpers)}\n{loop}")
    warnings = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
    command = ("gcc", *warnings, "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-o", "run.so", "run.c")
    subprocess.run(command, cwd=tmp_path, check=True, timeout=limit_s(60))
    codes = np.empty_like(given[0])
    pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (*given, codes))
    ctypes.CDLL(str(tmp_path / "run.so")).run(*pointers, codes.size)

    assert codes.tolist() == expected(given)


def test_glsl_has_it() -> None:
    from openinfer.expr import glsl_renderer

    assert "roundEven" in glsl_renderer.render(PROGRAM, dict(enumerate("mxnz"))).statements[-1]


def test_operands_are_integers() -> None:
    with pytest.raises(tree.ExprError, match="requantise"):
        tree.requantise(tree.Input(0, F32), *(tree.Input(number, I32) for number in (1, 2, 3)))
