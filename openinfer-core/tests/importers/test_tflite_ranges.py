"""Operators of TFLite models at the ends of types: sums and products beyond 32 bits, bounds of integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_models import holds, imported, model, of, op, run

from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

I32 = np.int32


def ints(*numbers: int) -> Any:
    return np.array(numbers, I32)


@pytest.mark.parametrize(("name", "y_scale"), [("MEAN", 0.5), ("SUM", 0.5 * 90_000)])
def test_sums_of_more_codes_than_32_bits_hold_do_not_overflow(name: str, y_scale: float, tmp_path: Path) -> None:
    tensors = [of("x", [1, 300, 300, 1], np.int16, 0.5), holds("axes", ints(1, 2)), of("y", [1, 1], np.int16, y_scale)]
    read = imported(model(tensors, [op(name, "x axes", "y", "ReducerOptions")], "x", "y"), tmp_path)

    (code,) = run(read, x=np.full((1, 300, 300, 1), 32767, np.int16))

    assert code.item() == 32767
    assert [note for note in read.report.notes if note.startswith("sums of more codes than 32 bits hold")]


def test_products_of_wide_codes_with_zero_points_do_not_overflow(tmp_path: Path) -> None:
    scaled = [of(name, [1], np.int16, 0.5, -32768) for name in "xz"]
    tensors = [*scaled, of("y", [1], np.int16, 32768.0)]
    read = imported(model(tensors, [op("MUL", "x z", "y", "MulOptions")], "x z", "y"), tmp_path)

    (code,) = run(read, x=np.full(1, 32767, np.int16), z=np.full(1, 32767, np.int16))

    assert code.item() == round((65535 * 0.5) ** 2 / 32768)


@pytest.mark.parametrize(("number", "low", "high"), [(1, 0, 2**31 - 1), (2, -1, 1), (3, 0, 6)])
@pytest.mark.parametrize(("name", "options"), [("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")])
def test_activations_bound_integers_too(
    name: str, options: str, number: int, low: int, high: int, tmp_path: Path
) -> None:
    x, z = ints(1, 5, -9, 3), ints(1, 5, 9, -3)
    tensors = [of(tensor, [4], I32) for tensor in "xzy"]
    data = model(tensors, [op(name, "x z", "y", options, FusedActivationFunction=number)], "x z", "y")

    (result,) = run(imported(data, tmp_path), x=x, z=z)

    exact = {"ADD": x + z, "SUB": x - z, "MUL": x * z}[name]
    assert result.tolist() == np.clip(exact, low, high).tolist()


def test_zeros_like_codes_are_their_zero_point(tmp_path: Path) -> None:
    tensors = [of(name, [2], np.int8, 0.5, 3) for name in "xy"]

    (zeros,) = run(imported(model(tensors, [op("ZEROS_LIKE", "x", "y")], "x", "y"), tmp_path), x=np.ones(2, np.int8))

    assert zeros.tolist() == [3, 3]
