"""Margins that memory decides, on every device: those of NumPy, around what they do not cut off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi

MODES = ("constant", "reflect", "edge", "wrap")
MOST = 4
"""The most rows, and the largest margin."""


def padded(x: np.ndarray, before: int, after: int, mode: Any) -> np.ndarray | None:
    """Return x with margins of rows; None: they cut off more than there is, or there is nothing to fill them from."""
    if min(len(x) + before, len(x) + after, len(x) + before + after) < 0:
        return None
    kept = x[max(-before, 0) : len(x) + min(after, 0)]
    if not len(kept) and mode != "constant":
        return None
    margins = ((max(before, 0), max(after, 0)), (0, 0))
    filling: dict[str, Any] = {"constant_values": 7} if mode == "constant" else {}
    return np.pad(kept, margins, mode, **filling)


def steps(seed: int, together: int | None) -> list[tuple[np.ndarray, int, int]]:
    """Return rows with margins in front of them and after: most are ``together`` rows, where that is a number."""
    random = np.random.default_rng(seed)
    made: list[tuple[np.ndarray, int, int]] = []
    for number in range(16):
        before, after = map(int, random.integers(-MOST, MOST, 2, endpoint=True))
        if together is not None and number % 4:
            after = together - before
        rows = MOST if together is not None else int(random.integers(1, MOST, endpoint=True))
        made.append((random.standard_normal((rows, 2)).astype(np.float32), before, after))
    return made


@pytest.mark.usefixtures("needs_device")
@pytest.mark.parametrize(("device", "dtype"), [("cpu", np.int8), ("c", np.int64), ("vulkan", np.int64)])
def test_margins_in_memory_are_those_of_numpy(device: str, dtype: type[np.signedinteger]) -> None:
    """Declared results have the room of their declaration, others that of the largest margins of a type."""
    together = 2 if dtype is np.int64 else None
    statements = " ".join(f'op pad(x, pads=[p, 0, q, 0], mode="{mode}", value=7) >> {mode}_rows;' for mode in MODES)
    names = [f"{mode}_rows" for mode in MODES]
    declared = "" if together is None else " ".join(f"assign {name}: f32[T + {together}, 2];" for name in names)
    kind = f"i{np.dtype(dtype).itemsize * 8}"
    text = f"""
    dynamic {{ x: f32[T, 2]; p: {kind}; q: {kind}; }}
    block entry {{ {declared} {statements} return {", ".join(names)}; }}
    """
    model = oi.Model.from_arrays({}, sizevars={"T": MOST})
    with oi.Simulator(model, oi.graph(text), device=device).make_executor() as executor:
        for x, before, after in steps(3, together):
            expected = [padded(x, before, after, mode) for mode in MODES]
            given = {"x": x, "p": dtype(before), "q": dtype(after)}
            if any(rows is None for rows in expected) or together not in (None, before + after):
                with pytest.raises(oi.ExecutionError):
                    executor.step(**given)
                continue
            executor.step(**given)
            found = executor.outputs()
            for name, rows in zip(names, expected, strict=True):
                np.testing.assert_array_equal(found[name], rows, f"{name}: {before}, {after} around {len(x)}")


@pytest.mark.usefixtures("needs_device")
@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
@pytest.mark.parametrize("mode", MODES)
def test_rows_that_are_never_there_fill_no_margins(device: str, mode: str) -> None:
    text = f"""
    dynamic {{ x: f32[0, 2]; p: i8; q: i8; }}
    block entry {{ op pad(x, pads=[p, 0, q, 0], mode="{mode}", value=7) >> y; return y; }}
    """
    x = np.zeros((0, 2), np.float32)
    with oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), device=device).make_executor() as executor:
        executor.step(x=x, p=0, q=0)
        assert executor.outputs()["y"].shape == (0, 2)
        if mode == "constant":
            executor.step(x=x, p=2, q=1)
            np.testing.assert_array_equal(executor.outputs()["y"], np.full((3, 2), 7, np.float32))
        else:
            with pytest.raises(oi.ExecutionError):
                executor.step(x=x, p=2, q=1)
