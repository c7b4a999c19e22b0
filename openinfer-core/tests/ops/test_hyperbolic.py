"""Hyperbolic functions and their inverses: units in the last place at every magnitude, and special values."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

STATED = 4.0
"""Units in the last place that results may be off."""

INF, NAN = math.inf, math.nan
LEAST, TINY = 2.0**-149, 2.0**-126

NUMPY: dict[str, Callable[..., Any]] = {
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def _asinh(x: Decimal) -> Decimal:
    size = abs(x)
    return (size + (size * size + 1).sqrt()).ln().copy_sign(x)


DECIMAL: dict[str, Callable[[Decimal], Decimal]] = {
    "sinh": lambda x: (x.exp() - (-x).exp()) / 2,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2,
    "asinh": _asinh,
    "acosh": lambda x: (x + (x * x - 1).sqrt()).ln(),
    "atanh": lambda x: ((1 + x) / (1 - x)).ln() / 2,
}


def units(found: Any, exact: Any, fraction: int, least: float) -> Any:
    """Return errors in units in the last place, given bits of a fraction and the least normal number."""
    size = np.maximum(np.abs(exact), least)
    return np.abs(found - exact) / 2.0 ** (np.floor(np.log2(size)) - fraction)


@pytest.mark.parametrize("op", NUMPY)
def test_f32_of_every_magnitude_are_within_the_stated_error(evaluate: Any, op: str) -> None:
    bits = np.arange(0, 0x7F800000, 0x7F800000 // 60000, dtype=np.uint32)
    near = np.array([1.0, 88.0, 88.722839, 89.415985, 2.0**60], np.float32).view(np.uint32)[:, None]
    ends = (near.astype(np.int64) + np.arange(-50, 51)).astype(np.uint32).reshape(-1)
    positive = np.concatenate([bits, ends])
    x = np.concatenate([positive, positive | np.uint32(0x80000000)]).view(np.float32)
    with np.errstate(all="ignore"):
        exact = NUMPY[op](x.astype(np.float64))
        expected = exact.astype(np.float32)
    finite = np.isfinite(expected)

    with np.errstate(all="ignore"):
        found = evaluate(op, "f32", x)
        error = units(found[finite].astype(np.float64), exact[finite], 23, TINY)

    assert error.max() <= STATED, x[finite][error.argmax()]
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(expected[finite]))


@pytest.mark.parametrize("op", DECIMAL)
def test_f64_are_within_the_stated_error(evaluate: Any, op: str) -> None:
    sizes = [1e-300, 1e-160, 1e-17, 1e-8, 1e-4, 0.1, 0.5, 0.99, 1 - 2.0**-53]
    if op in ("sinh", "cosh"):
        sizes += [1.0, 2.5, 20.0, 709.0, 709.1, 709.7827128, 710.0, 710.4758]
    if op in ("asinh", "acosh"):
        sizes += [1.0, 1 + 2.0**-52, 1.0001, 3.0, 1e9, 2.0**60, 1.5e18, 1e155, 1.7e308]
    x = np.array([size for size in sizes if op != "acosh" or size >= 1])
    if op != "acosh":
        x = np.concatenate([x, -x])

    with np.errstate(all="ignore"):
        found = evaluate(op, "f64", x)

    with decimal.localcontext(prec=700):
        exact = [DECIMAL[op](Decimal(float(value))) for value in x]
        errors = [
            float(abs(Decimal(float(a)) - b) / Decimal(math.ulp(float(b)))) for a, b in zip(found, exact, strict=True)
        ]
    assert max(errors) <= STATED, list(zip(x.tolist(), errors, strict=True))


@pytest.mark.parametrize("op", NUMPY)
def test_every_f16_is_rounded_from_f32(evaluate: Any, op: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = NUMPY[op](x.astype(np.float64))
        expected = exact.astype(np.float16)
        found = evaluate(op, "f16", x)
        error = units(found.astype(np.float64), exact, 10, 2.0**-14)

    finite = np.isfinite(expected)
    assert error[finite].max() <= 0.501
    np.testing.assert_array_equal(found[~finite], expected[~finite])


@pytest.mark.parametrize(
    ("op", "arguments", "results"),
    [
        ("sinh", [INF, -INF, 0.0, -0.0, NAN, LEAST, 89.5, -89.5], [INF, -INF, 0.0, -0.0, NAN, LEAST, INF, -INF]),
        ("cosh", [INF, -INF, 0.0, -0.0, NAN, LEAST, 89.5], [INF, INF, 1.0, 1.0, NAN, 1.0, INF]),
        ("asinh", [INF, -INF, 0.0, -0.0, NAN, LEAST, -LEAST], [INF, -INF, 0.0, -0.0, NAN, LEAST, -LEAST]),
        ("acosh", [INF, -INF, 1.0, 0.0, -1.0, -1e10, NAN], [INF, NAN, 0.0, NAN, NAN, NAN, NAN]),
        ("atanh", [INF, 1.0, -1.0, 1.5, 0.0, -0.0, NAN, LEAST], [NAN, INF, -INF, NAN, 0.0, -0.0, NAN, LEAST]),
    ],
)
def test_special_values(evaluate: Any, op: str, arguments: list[float], results: list[float]) -> None:
    expected = np.array(results, np.float32)

    with np.errstate(all="ignore"):
        found = evaluate(op, "f32", arguments)

    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
