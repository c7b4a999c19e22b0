"""Divisions by zero: every device and float type agrees, for values of a step and for those that a plan computes."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Simulator

NAN, INF = math.nan, math.inf
FLOATS: dict[str, Any] = {
    "f8": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
PLACES = [
    *(pytest.param("cpu", dtype) for dtype in FLOATS),
    *(pytest.param("c", dtype, marks=needs_compiler) for dtype in ("f16", "f32", "f64")),
    *(pytest.param("vulkan", dtype) for dtype in ("f16", "f32")),
]
"""The kit of conformance has every type."""

PAIRS = [(a, b) for a in (-INF, -2.0, -0.0, 0.0, 2.0, INF, NAN) for b in (-0.0, 0.0, 4.0)] * 3
"""Dividends and divisors; three times, so that vectors and what remains of them are both reached."""


def quotient(a: float, b: float) -> float:
    """Return what IEEE 754 says."""
    if b != 0:
        return a / b
    return NAN if a == 0 or math.isnan(a) else math.copysign(INF, a) * math.copysign(1.0, b)


STATEMENTS: dict[str, Callable[[float, float], float]] = {
    "div(x, y)": quotient,
    'div(x, y, div_by_zero_mask="ieee")': quotient,
    "div(x, y, div_by_zero_mask=nan)": lambda a, b: quotient(a, b) if b else NAN,
    "div(x, y, div_by_zero_mask=-inf)": lambda a, b: quotient(a, b) if b else -INF,
    "div(x, y, div_by_zero_mask=3)": lambda a, b: quotient(a, b) if b else 3.0,
    "recip(y)": lambda _, b: quotient(1.0, b),
    "recip(y, div_by_zero_mask=nan)": lambda _, b: quotient(1.0, b) if b else NAN,
    "rem(x, y)": lambda a, b: math.fmod(a, b) if b and math.isfinite(a) else NAN,
    "rem(x, y, div_by_zero_mask=0.5)": lambda a, b: 0.5 if not b else math.fmod(a, b) if math.isfinite(a) else NAN,
    "mod(x, y)": lambda a, b: NAN if not b or not math.isfinite(a) else b + a if a < 0 else a,
}


def ran(device: str, dtype: str, section: str) -> dict[str, list[str]]:
    """Return the results of the statements on the pairs, which are inputs or constants of the model."""
    kind = f"{dtype}[{len(PAIRS)}]"
    named = {f"r{number}": statement for number, statement in enumerate(STATEMENTS)}
    text = f"""
    {section} {{ x: {kind}; y: {kind}; }}
    volatile {{ {" ".join(f"{name}: {kind};" for name in named)} }}
    block entry {{ {" ".join(f"op {statement} >> {name};" for name, statement in named.items())} }}
    """
    columns = zip(*PAIRS, strict=True)
    arrays = dict(zip("xy", (np.array(column).astype(FLOATS[dtype]) for column in columns), strict=True))
    model = oi.Model.from_arrays(arrays if section == "constant" else {})
    with Simulator(model, graph(text), device=device).make_executor() as executor:
        executor.insert({} if section == "constant" else arrays)
        executor.run_step()
        return {named[name]: [str(float(item)) for item in executor.fetch_raw(name).array] for name in named}


@pytest.mark.rule("operators.numbers.1")
@pytest.mark.parametrize("section", ["dynamic", "constant"])
@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_a_division_by_zero_follows_ieee_754_or_the_mask(
    device: str, dtype: str, section: str, request: pytest.FixtureRequest
) -> None:
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    for statement, results in ran(device, dtype, section).items():
        assert results == [str(STATEMENTS[statement](a, b)) for a, b in PAIRS], statement


@pytest.mark.rule("operators.numbers.1")
@pytest.mark.parametrize(
    ("device", "dtype"),
    [*(("cpu", dtype) for dtype in ("i8", "u16", "i32", "u64", "i4")), pytest.param("c", "i32", marks=needs_compiler)],
)
@pytest.mark.parametrize(("mask", "zero"), [("", 0), (", div_by_zero_mask=nan", 0), (", div_by_zero_mask=5", 5)])
def test_an_integer_divided_by_zero_is_zero_or_the_mask(device: str, dtype: str, mask: str, zero: int) -> None:
    ops = ("div", "floor_div", "rem")
    text = f"""
    dynamic {{ x: {dtype}[6]; y: {dtype}[6]; }}
    volatile {{ {" ".join(f"{op}_: {dtype}[6];" for op in ops)} }}
    block entry {{ {" ".join(f"op {op}(x, y{mask}) >> {op}_;" for op in ops)} }}
    """
    with Simulator(oi.Model.from_arrays({}), graph(text), device=device).make_executor() as executor:
        executor.step(x=[7, 6, 5, 4, 0, 1], y=[0, 2, 0, 4, 0, 1])
        quotients = [zero, 3, zero, 1, zero, 1]
        assert [int(item) for item in executor.fetch("div_")] == quotients
        assert [int(item) for item in executor.fetch("floor_div_")] == quotients
        assert [int(item) for item in executor.fetch("rem_")] == [zero, 0, zero, 0, zero, 0]
