"""Casts to low floats on every device: numbers next to each tie, with exact expectations."""

from __future__ import annotations

import shutil
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.dtypes import BY_NAME
from openinfer.float_formats import FORMATS
from openinfer.simulate import Simulator

LOW: dict[str, Any] = {"f8": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
DEVICES = [
    "cpu",
    pytest.param("c", marks=pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")),
    "vulkan",
]


def numbers(low: str) -> Any:
    """Return the finite numbers of a low float in ascending order, zero once, as doubles."""
    bits = BY_NAME[low].bits
    codes = np.arange((1 << (bits - 1)) - (1 << FORMATS[low].fraction), dtype=f"u{bits // 8}")
    positive = codes.view(LOW[low]).astype(np.float64)
    return np.concatenate([-positive[:0:-1], positive])


def is_even(finite: Any) -> Any:
    """Whether the last bit of each number is 0: that of zero is, and then of every other one."""
    return (np.arange(finite.size) - np.searchsorted(finite, 0.0)) % 2 == 0


def cast_on(device: str, x: Any, source: str, statement: str, low: str) -> Any:
    """Return the results of a statement on x, as doubles."""
    text = f"""
    dynamic {{ x: {source}[{x.size}]; }}
    volatile {{ y: {low}[{x.size}]; }}
    block entry {{ op {statement} >> y; }}
    """
    with Simulator(oi.Model.from_arrays({}), graph(text), device=device).make_executor() as executor:
        executor.insert({"x": x})
        executor.run_step()
        return executor.fetch_raw("y").array.astype(np.float64)


@pytest.mark.rule("dtypes.rounding.3")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("low", LOW)
def test_an_f64_next_to_a_tie_goes_to_its_side(low: str, device: str, request: pytest.FixtureRequest) -> None:
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    finite = numbers(low)
    below, above, even = finite[:-1], finite[1:], is_even(finite)[1:]
    if device == "vulkan":
        # Devices may take subnormals of f32 for zeros.
        is_normal = np.minimum(np.abs(below), np.abs(above)) >= FORMATS["f32"].normal
        below, above, even = below[is_normal], above[is_normal], even[is_normal]
    ties = (below + above) / 2
    x = np.concatenate([np.nextafter(ties, -np.inf), ties, np.nextafter(ties, np.inf)])

    found = cast_on(device, x, "f64", f"cast(x, to={low})", low)

    np.testing.assert_array_equal(found, np.concatenate([below, np.where(even, above, below), above]))


@pytest.mark.rule("dtypes.rounding.4")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("source", ["i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("low", LOW)
def test_an_integer_next_to_a_tie_goes_to_its_side(
    source: str, low: str, device: str, request: pytest.FixtureRequest
) -> None:
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    finite, dtype = numbers(low), BY_NAME[source]
    pairs = [
        (int(below), int(above), bool(even))
        for below, above, even in zip(finite[:-1], finite[1:], is_even(finite)[1:], strict=True)
        if dtype.minimum <= below and above <= dtype.maximum and above - below >= 4
    ]
    ties = [(below + above) // 2 for below, above, _ in pairs]
    x = np.array([tie + away for away in (-1, 0, 1) for tie in ties], dtype.storage)

    found = cast_on(device, x, source, f"cast(x, to={low})", low)

    tied = [above if even else below for below, above, even in pairs]
    assert found.tolist() == [*(below for below, _, _ in pairs), *tied, *(above for _, above, _ in pairs)]


@pytest.mark.parametrize("device", DEVICES)
def test_a_sum_in_f64_is_delivered_in_one_rounding(device: str, request: pytest.FixtureRequest) -> None:
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1 + 2.0**-8 - 2.0**-40])

    found = cast_on(device, x, "f64", "add(x, x, acc=[f64, bf16])", "bf16")

    assert found.tolist() == [2 + 2.0**-6, 2.0, 2.0]
