"""The fused multiply-add rounds once: NumPy and C against exact fractions."""

from __future__ import annotations

import itertools
import math
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from openinfer.dtypes import F32, F64, I32, DType
from openinfer.expr import c_renderer, glsl_renderer, linearise, tree
from openinfer.expr.numpy_renderer import compile_program
from openinfer.testing.waiting import limit_s

PROGRAMS = {d.name: linearise(tree.fma(*(tree.Input(number, d) for number in range(3)))) for d in (F32, F64)}
FORMATS = {"f32": (24, -149, 2**128), "f64": (53, -1074, 2**1024)}
"""Digits, exponent of the least number, and the end of the range of each type."""


def rounded(dtype: DType, exact: Fraction) -> float:
    """Return the float nearest to a number that is not zero, ties to even."""
    digits, least, end = FORMATS[dtype.name]
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - digits
    unit = Fraction(2) ** max(exponent, least)
    if magnitude / unit >= 2**digits:
        unit *= 2
    count = round(magnitude / unit)
    value = math.inf if count * unit >= end else float(count * unit)
    return -value if exact < 0 else value


def expected(dtype: DType, a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return rounded(dtype, exact)
    both_negative = math.copysign(1.0, a) * math.copysign(1.0, b) < 0 and math.copysign(1.0, c) < 0
    return -0.0 if both_negative and c == 0.0 else 0.0


def operands(dtype: DType) -> list[np.ndarray]:
    """Return special values in all combinations, and numbers whose sums lie next to ties."""
    _, least, _ = FORMATS[dtype.name]
    rng = np.random.default_rng(5)
    kind = np.dtype(dtype.storage)
    tiny, huge, unit = 2.0**least, float(np.finfo(kind).max), float(np.finfo(kind).eps)
    special = [0.0, 1.0, 1.0 + unit, 1.0 - unit / 2, 1.5, 3.0, tiny, 3 * tiny, 2.0 ** (least // 2), huge, math.inf]
    columns = list(zip(*itertools.product([*special, *(-x for x in special), math.nan], repeat=3), strict=True))
    near = rng.integers(1, 1 << 12, (3, 2000)) * 2.0 ** rng.integers(-14, 14, (3, 2000))
    near[2] *= rng.choice((-1.0, 1.0), 2000) * rng.choice((1.0, 1.0 / unit, 0.5 / unit), 2000)
    plain = rng.standard_normal((3, 1000)) * 2.0 ** rng.integers(least // 2, -least // 2, (3, 1000))
    with np.errstate(over="ignore"):
        return [np.concatenate([np.array(columns[n]), near[n], plain[n]]).astype(kind) for n in range(3)]


def assert_fused(dtype: DType, found: np.ndarray) -> None:
    rows = list(zip(*(column.tolist() for column in operands(dtype)), strict=True))
    results = [expected(dtype, *row) for row in rows]
    kind = np.dtype(dtype.storage)
    bits = np.array(results, kind).view(f"u{kind.itemsize}")
    same = (found.view(bits.dtype) == bits) | (np.isnan(found) & np.isnan(results))
    wrong = np.flatnonzero(~same)[:5]
    assert [(rows[n], found[n], results[n]) for n in wrong] == []


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_numpy_rounds_once(dtype: DType) -> None:
    inputs = operands(dtype)
    out = np.empty(inputs[0].shape, inputs[0].dtype)

    compile_program(PROGRAMS[dtype.name])(inputs, out)

    assert_fused(dtype, out)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_c_rounds_once(dtype: DType, tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc on this machine: generated C cannot be compiled")
    kind = c_renderer.c_type(dtype)
    fragment = c_renderer.render(PROGRAMS[dtype.name], {n: f"x[{n}]" for n in range(3)})
    body = "\n".join((*fragment.statements, f"const {kind} y = {fragment.result};", "fwrite(&y, sizeof y, 1, stdout);"))
    source = f"{kind} x[3];\nwhile (fread(x, sizeof x[0], 3, stdin) == 3) {{\n{body}\n}}\n"
    (tmp_path / "fma.c").write_text(f"#include <math.h>\n#include <stdio.h>\nint main(void) {{ {source} return 0; }}\n")
    command = [compiler, "-std=c99", "-O1", "-ffp-contract=off", "-o", "fma", "fma.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=limit_s(60))

    rows = np.stack(operands(dtype), axis=1)
    ran = subprocess.run([tmp_path / "fma"], input=rows.tobytes(), capture_output=True, check=True, timeout=limit_s(60))

    assert_fused(dtype, np.frombuffer(ran.stdout, rows.dtype))


def test_it_is_defined_on_floats() -> None:
    with pytest.raises(tree.ExprError, match="fma is not defined on i32"):
        tree.fma(*(tree.Input(number, I32) for number in range(3)))


def test_glsl_has_a_function_for_it() -> None:
    fragment = glsl_renderer.render(PROGRAMS["f32"], {0: "a", 1: "b", 2: "c"})

    assert fragment.statements[-1] == "precise float t3 = fma(t0, t1, t2);"
