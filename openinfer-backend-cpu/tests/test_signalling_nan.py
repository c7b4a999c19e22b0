"""A signalling NaN, which raw data may hold, counts as any other NaN: whatever loop NumPy takes for a length."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

RunOperator = Callable[..., list[np.ndarray]]
CODES = {np.float16: (np.uint16, 0x7D00), np.float32: (np.uint32, 0x7FA00000), np.float64: (np.uint64, 0x7FF4 << 48)}


def with_signalling(kind: type, length: int, places: slice) -> np.ndarray:
    """Return 0, -1, 2, -3 … with signalling NaNs at some places."""
    codes, code = CODES[kind]
    values = (np.arange(length) * (-1.0) ** np.arange(length)).astype(kind)
    values.view(codes)[places] = code
    return values


def numbers(values: np.ndarray) -> list[float]:
    return [float(value) for value in values.tolist() if not math.isnan(value)]


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("rows", [1, 3], ids=["one row", "several rows"])
def test_extremes_and_their_places_skip_it(run_operator: RunOperator, kind: type, rows: int) -> None:
    for length in range(2, 70):
        row = with_signalling(kind, length, slice(1, None, 3))
        x = np.tile(row, (rows, 1))
        for axis, given in ((1, x), (0, x.T)):
            for op, best in (("max", max(numbers(row))), ("min", min(numbers(row)))):
                (found,) = run_operator(f"{op}_axis", [given], axes=(axis,))
                assert found.tolist() == [best] * rows
                for first in (True, False):
                    (at,) = run_operator(f"arg{op}_axis", [given], axis=axis, select_first=first)
                    assert at.tolist() == [row.tolist().index(best)] * rows


@pytest.mark.parametrize("kind", CODES)
def test_it_sticks_in_first_place(run_operator: RunOperator, kind: type) -> None:
    x = with_signalling(kind, 40, slice(0, 1))
    assert all(np.isnan(run_operator(op, [x], axes=(0,))[0]).all() for op in ("max_axis", "min_axis"))
    for first in (True, False):
        assert run_operator("argmax_axis", [x], axis=0, select_first=first)[0].item() == 0


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("pads", [(0, 0), (1, 1)], ids=["bare", "padded"])
def test_maximum_pools_skip_it(run_operator: RunOperator, kind: type, pads: tuple[int, int]) -> None:
    for length in range(4, 70):
        row = with_signalling(kind, length, slice(1, None, 3))
        before = row.tobytes()
        (found,) = run_operator("max_pool1d", [row.reshape(1, 1, -1)], kernel=3, padding=pads)
        padded = [math.nan] * pads[0] + row.tolist() + [math.nan] * pads[1]
        windows = [[v for v in padded[n : n + 3] if not math.isnan(v)] for n in range(len(padded) - 2)]
        assert found.reshape(-1).tolist() == [max(window) for window in windows]
        assert row.tobytes() == before


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize(("reduction", "best"), [("max", max), ("min", min)])
def test_scattered_extremes_skip_it(
    run_operator: RunOperator, kind: type, reduction: str, best: Callable[[float, float], float]
) -> None:
    for length in range(4, 40):
        x, updates = with_signalling(kind, length, slice(0, None, 3)), with_signalling(kind, length, slice(1, None, 3))
        (found,) = run_operator("scatter", [x, np.arange(length), updates], axis=0, reduction=reduction)
        pairs = zip(x.tolist(), updates[:length].tolist(), strict=True)
        expected = [b if math.isnan(a) else a if math.isnan(b) else best(a, b) for a, b in pairs]
        assert found.tolist() == expected
