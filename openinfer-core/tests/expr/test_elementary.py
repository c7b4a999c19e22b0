"""Formulas of elementary functions on f32: within their errors, right where results are special; the same bits in C."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from openinfer.dtypes import F32, F64
from openinfer.expr import c_renderer, linearise, tree
from openinfer.expr.elementary import ELEMENTARY, formula, spelled_out
from openinfer.expr.numpy_renderer import compile_program
from openinfer.testing.waiting import limit_s

STATED = 2.0
"""Units in the last place that results may be off."""

INF, NAN = math.inf, math.nan

ORACLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sin": np.sin,
    "cos": np.cos,
}
"""The functions in double precision."""


def sampled() -> np.ndarray:
    """Return f32 of every magnitude and both signs, and those next to zero, one and the ends of ranges."""
    bits = np.arange(0, 0x7F800000, 0x7F800000 // 60000, dtype=np.uint32)
    near = [0.5, 0.6, 0.92, 1.0, math.pi / 2, math.pi, 4.0, 9.1, 88.72284, 103.97208, 104.0, 2.0**-126, 16777216.0]
    steps = np.arange(-50, 51, dtype=np.int64)
    ends = np.concatenate([np.array(near, np.float32).view(np.uint32).astype(np.int64)[:, None] + steps])
    small = np.arange(200, dtype=np.uint32)
    positive = np.concatenate([bits, ends.reshape(-1).astype(np.uint32), small])
    return np.concatenate([positive, positive | np.uint32(0x80000000)]).view(np.float32)


def by_numpy(function: str, x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    compile_program(linearise(formula(function)))([x], out)
    return out


@pytest.mark.parametrize("function", sorted(ELEMENTARY))
def test_results_are_within_the_stated_error(function: str) -> None:
    x = sampled()
    with np.errstate(all="ignore"):
        exact = ORACLES[function](x.astype(np.float64))
        expected = exact.astype(np.float32)
    finite = np.isfinite(expected)

    found = by_numpy(function, x)

    with np.errstate(all="ignore"):
        magnitude = np.maximum(np.abs(exact), 2.0**-126)
        error = np.abs(found - exact) / 2.0 ** (np.floor(np.log2(magnitude)) - 23)
    assert np.isfinite(found[finite]).all()
    assert error[finite].max() <= STATED, x[finite][error[finite].argmax()]
    np.testing.assert_array_equal(found[~finite], expected[~finite])


@pytest.mark.parametrize(
    ("function", "argument", "result"),
    [
        ("exp", INF, INF),
        ("exp", -INF, 0.0),
        ("exp", NAN, NAN),
        ("exp", -0.0, 1.0),
        ("exp", 89.0, INF),
        ("exp", -104.0, 0.0),
        ("exp", -103.0, 1.401298464324817e-45),
        ("log", 0.0, -INF),
        ("log", -0.0, -INF),
        ("log", -1.0, NAN),
        ("log", -INF, NAN),
        ("log", INF, INF),
        ("log", NAN, NAN),
        ("log", 1.0, 0.0),
        ("tanh", INF, 1.0),
        ("tanh", -INF, -1.0),
        ("tanh", NAN, NAN),
        ("tanh", -0.0, -0.0),
        ("tanh", -1e-45, -1e-45),
        ("erf", INF, 1.0),
        ("erf", -INF, -1.0),
        ("erf", NAN, NAN),
        ("erf", -0.0, -0.0),
        ("sin", INF, NAN),
        ("sin", NAN, NAN),
        ("sin", -0.0, -0.0),
        ("sin", 1e-45, 1e-45),
        ("cos", -INF, NAN),
        ("cos", NAN, NAN),
        ("cos", -0.0, 1.0),
        ("cos", 1e-45, 1.0),
    ],
)
def test_special_results(function: str, argument: float, result: float) -> None:
    found = by_numpy(function, np.array([argument], np.float32))

    np.testing.assert_array_equal(found, np.array([result], np.float32))
    assert math.isnan(result) or np.signbit(found[0]) == (math.copysign(1.0, result) < 0)


@pytest.mark.parametrize("function", sorted(ELEMENTARY))
def test_c_has_the_same_bits(function: str, tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc on this machine: generated C cannot be compiled")
    program = linearise(getattr(tree, function)(tree.Input(0, F32)))
    fragment = c_renderer.render(program, {0: "x"})
    body = "\n".join((*fragment.statements, f"x = {fragment.result};", "fwrite(&x, sizeof x, 1, stdout);"))
    includes = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stddef", "stdint", "stdio"))
    main = f"int main(void) {{ float x; while (fread(&x, sizeof x, 1, stdin) == 1) {{\n{body}\n}} return 0; }}\n"
    (tmp_path / "f.c").write_text(f"{includes}{c_renderer.helper_source(fragment.helpers)}{main}")
    command = [compiler, "-std=c99", "-O2", "-ffp-contract=off", "-o", "f", "f.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=limit_s(60))
    x = sampled()

    ran = subprocess.run([tmp_path / "f"], input=x.tobytes(), capture_output=True, check=True, timeout=limit_s(60))

    found, expected = np.frombuffer(ran.stdout, np.float32), by_numpy(function, x)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    assert found[numbers].tobytes() == expected[numbers].tobytes()


def test_functions_are_spelled_out_on_f32_only() -> None:
    x, y = tree.Input(0, F32), tree.Input(1, F64)
    shared = tree.exp(x)

    narrow = spelled_out(tree.add(tree.tanh(shared), shared))
    wide = spelled_out(tree.exp(y))

    assert {step.function for step in linearise(narrow).instructions} & ELEMENTARY == set()
    assert [step.function for step in linearise(wide).instructions] == ["input", "exp"]
