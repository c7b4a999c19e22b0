"""Bounds at zero: which operators define the sign of a zero, and that every device and every float type agrees."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.dtypes import F64
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator
from openinfer.testing.oracle import known_oracles

FLOATS: dict[str, Any] = {
    "f8": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
DEVICES = [
    "cpu",
    pytest.param("c", marks=pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")),
    "vulkan",
]
PAIRS = [(a, b) for a in (-1.0, -0.0, 0.0, 1.0) for b in (-1.0, -0.0, 0.0, 1.0)] * 3
"""Three times, so that vectors and what remains of them are both reached."""

KEPT: dict[str, Callable[[float], float]] = {
    "clamp(x, min=0)": lambda x: 0.0 if x < 0 else x,
    "clamp(x, min=-0.0)": lambda x: -0.0 if x < 0 else x,
    "clamp(x, max=0)": lambda x: 0.0 if x > 0 else x,
    "clamp(x, max=-0.0)": lambda x: -0.0 if x > 0 else x,
    "clamp(x, min=0, max=6)": lambda x: 0.0 if x < 0 else x,
    "relu(x)": lambda x: 0.0 if x < 0 else x,
    "relu(x, clamp_max=6)": lambda x: 0.0 if x < 0 else x,
    "relu(x, alpha=0.5)": lambda x: x * 0.5 if x < 0 else x,
    "relu(x, alpha=0.5, clamp_min=0)": lambda x: 0.0 if x < 0 else x,
    "relu(x, clamp_max=0)": lambda x: 0.0 if x != 0 else x,
    "prelu(x, z)": lambda x: x * 0.0 if x < 0 else x,
    "abs(x)": abs,
    "neg(x)": lambda x: -x,
}
"""Statements on x and zeros z that define the sign of a zero: a bound replaces only what lies beyond it."""

EITHER: dict[str, Callable[[float, float], float]] = {
    "max(x, y)": max,
    "min(x, y)": min,
    'max(x, y, nan="propagate")': max,
    'min(x, y, nan="propagate")': min,
    'clamp(x, min=0, nan="bound")': lambda x, _: max(x, 0.0),
    'clamp(x, max=-0.0, nan="bound")': lambda x, _: min(x, 0.0),
}
"""Statements in which the sign of a zero that equals the other operand is not defined; the value is."""


def ran(statements: Iterable[str], dtype: str, device: str, request: pytest.FixtureRequest) -> dict[str, list[float]]:
    """Return the results of statements on the pairs x and y and on zeros z."""
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    kind = f"{dtype}[{len(PAIRS)}]"
    named = {f"r{number}": statement for number, statement in enumerate(statements)}
    text = f"""
    dynamic {{ x: {kind}; y: {kind}; }}
    volatile {{ z: {kind} @init(0.0); {" ".join(f"{name}: {kind};" for name in named)} }}
    block entry {{ {" ".join(f"op {statement} >> {name};" for name, statement in named.items())} }}
    """
    x, y = (np.array(column).astype(FLOATS[dtype]) for column in zip(*PAIRS, strict=True))
    with Simulator(oi.Model.from_arrays({}), graph(text), device=device).make_executor() as executor:
        executor.insert({"x": x, "y": y})
        executor.run_step()
        return {named[name]: [float(each) for each in executor.fetch_raw(name).array] for name in named}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_bound_replaces_no_zero_that_equals_it(dtype: str, device: str, request: pytest.FixtureRequest) -> None:
    for statement, found in ran(KEPT, dtype, device, request).items():
        expected = [KEPT[statement](x) for x, _ in PAIRS]
        assert [str(each) for each in found] == [str(each) for each in expected], statement


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_greater_of_two_zeros_is_either(dtype: str, device: str, request: pytest.FixtureRequest) -> None:
    for statement, found in ran(EITHER, dtype, device, request).items():
        assert found == [EITHER[statement](x, y) for x, y in PAIRS], statement


def test_the_oracle_keeps_a_zero_that_equals_a_bound() -> None:
    zeros = np.array([-0.0, 0.0])
    for statement, bounds in (("clamp", {"min": 0}), ("clamp", {"max": -0.0}), ("relu", {"clamp_min": 0.0})):
        call = call_of(Environment.default().op(statement), [TensorType(F64, (2,))], bounds)
        (found,) = known_oracles()[statement]([zeros], call)
        assert np.signbit(found).tolist() == [True, False], (statement, bounds)
