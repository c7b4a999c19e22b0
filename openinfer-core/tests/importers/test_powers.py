"""Powers of ONNX: IEEE 754 for floats, exact for integers, whatever the type of the exponent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import info, model, node, run, saved, weights

from openinfer.importers import load
from openinfer.importers.onnx_files.elements import array_type, number_of
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

INF, NAN = math.inf, math.nan
BASES = [-INF, -8.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 4.0, INF, NAN]


def powers(tmp_path: Path, base: Any, exponent: Any, *, is_known: bool) -> list[Any]:
    onnx = onnx_module()
    types = [number_of(onnx, array_type(array)) for array in (base, exponent)]
    inputs = [info("x", base.shape, types[0]), *([] if is_known else [info("e", exponent.shape, types[1])])]
    constants = weights(e=exponent) if is_known else []
    proto = model([node("Pow", "x e", "y")], inputs, [info("y", None, types[0])], constants)
    arrays = {"x": base} if is_known else {"x": base, "e": exponent}
    return run(load(saved(proto, tmp_path)), arrays)[0].tolist()


def ieee_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (ValueError, OverflowError):
        is_odd = exponent % 2 == 1
        if base == 0.0 or exponent.is_integer():
            return math.copysign(INF, base) if is_odd else INF
        return NAN


@pytest.mark.parametrize("is_known", [True, False], ids=["constant", "input"])
@pytest.mark.parametrize("exponent", [0.5, -0.5, 0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 1.5, INF, -INF, NAN])
def test_special_powers_are_those_of_ieee_754(exponent: float, is_known: bool, tmp_path: Path) -> None:
    found = powers(tmp_path, np.array(BASES), np.array(exponent), is_known=is_known)

    expected = [ieee_power(base, exponent) for base in BASES]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    numbers = [place for place, value in enumerate(expected) if not math.isnan(value)]
    assert [math.copysign(1, found[n]) for n in numbers] == [math.copysign(1, expected[n]) for n in numbers]


@pytest.mark.parametrize("is_known", [True, False], ids=["constant", "input"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    ("base", "exponent"),
    [(np.int32, 1), (np.int32, 2), (np.int32, 3), (np.int32, 0), (np.int64, 1), (np.int64, 2), (np.int64, 0)],
)
def test_whole_powers_of_integers_are_exact(
    base: type, exponent: int, kind: type, is_known: bool, tmp_path: Path
) -> None:
    large = 2**53 + 1 if base is np.int64 else 16777217
    numbers = [large, 123456789, -7, 0, 1, 46341]
    span = 1 << (8 * np.dtype(base).itemsize)

    found = powers(tmp_path, np.array(numbers, base), np.array(exponent, kind), is_known=is_known)

    assert found == [(number**exponent + span // 2) % span - span // 2 for number in numbers]


@pytest.mark.parametrize("is_known", [True, False], ids=["constant", "input"])
def test_broken_powers_of_integers_lose_their_fraction(is_known: bool, tmp_path: Path) -> None:
    base, exponent = np.array([2147395600, 9, 2], np.int32), np.array([0.5, -0.5, 1.5], np.float32)
    assert powers(tmp_path, base, exponent, is_known=is_known) == [46340, 0, 2]


@pytest.mark.parametrize("is_known", [True, False], ids=["constant", "input"])
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
def test_exponents_that_the_type_of_the_base_does_not_hold_stay_as_they_are(
    kind: type, is_known: bool, tmp_path: Path
) -> None:
    base, exponent = np.array([-1.0, 1.0], np.float32), np.array(16777217, kind)
    assert powers(tmp_path, base, exponent, is_known=is_known) == [-1.0, 1.0]
    assert powers(tmp_path, base.astype(np.float16), np.array(2049, kind), is_known=is_known) == [-1.0, 1.0]


def test_long_exponents_of_short_integers_are_not_cut_off(tmp_path: Path) -> None:
    found = powers(tmp_path, np.array([2, 3, 1], np.int32), np.array(2**32, np.int64), is_known=False)
    assert found == [0, 1, 1]
