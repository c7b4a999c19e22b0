"""Products of i32 and f32 that are rounded to even, without floats but next to halves: as fractions say."""

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

PROGRAM = linearise(tree.scale(tree.Input(0, F32), tree.Input(1, I32)))


def operands() -> tuple[np.ndarray, np.ndarray]:
    """Return multipliers of any size, and numbers whose products are near halves, integers and the limits."""
    random = np.random.default_rng(12)
    count = 6000
    few_bits = np.ldexp(random.integers(1, 16, count), random.integers(-24, 0, count))
    m = np.float32(np.where(random.random(count) < 0.5, few_bits, 2.0 ** random.uniform(-34, 4, count)))
    near = random.integers(-520, 520, count) + random.choice([0.0, 0.5], count)
    x = np.rint(near / m.astype(np.float64)) + random.integers(-1, 2, count)
    return m, x.clip(-(2**31), 2**31 - 1).astype(np.int32)


def expected(m: np.ndarray, x: np.ndarray) -> list[int]:
    # A product of 24 bits by 24 is exact in f64, and so is rounded once.
    products = (np.float32(a.astype(np.float64) * np.float64(np.float32(b))) for a, b in zip(m, x, strict=True))
    return [max(-512, min(511, round(Fraction(float(product))))) for product in products]


def test_numpy() -> None:
    m, x = operands()
    out = np.empty_like(x)
    compile_program(PROGRAM)([m, x], out)

    assert out.tolist() == expected(m, x)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_c(tmp_path: Path) -> None:
    m, x = operands()
    fragment = c_renderer.render(PROGRAM, {0: "m[i]", 1: "x[i]"})
    body = " ".join((*fragment.statements, f"y[i] = {fragment.result};"))
    head = "void run(const float *m, const int32_t *x, int32_t *y, int n)"
    source = f"{c_renderer.helper_source(fragment.helpers)}\n{head} {{ for (int i = 0; i < n; ++i) {{ {body} }} }}\n"
    (tmp_path / "scale.c").write_text(f"#include <stdint.h>\n{source}")
    warnings = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
    command = ("gcc", *warnings, "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-o", "scale.so", "scale.c")
    subprocess.run(command, cwd=tmp_path, check=True, timeout=limit_s(60))
    scaled = np.empty_like(x)
    pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (m, x, scaled))
    ctypes.CDLL(str(tmp_path / "scale.so")).run(*pointers, len(x))

    assert scaled.tolist() == expected(m, x)


def test_glsl_has_it() -> None:
    from openinfer.expr import glsl_renderer

    assert "roundEven" in glsl_renderer.render(PROGRAM, {0: "m", 1: "x"}).statements[-1]


@pytest.mark.parametrize("types", [(I32, I32), (F32, F32), (I32, F32)])
def test_operands_have_their_types(types: tuple[tree.DType, tree.DType]) -> None:
    with pytest.raises(tree.ExprError, match="scale is not defined on"):
        tree.scale(*(tree.Input(number, dtype) for number, dtype in enumerate(types)))
