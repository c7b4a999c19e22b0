"""Whether a result is what onnxruntime computes, as far as that is defined."""

from __future__ import annotations

from collections import Counter

import numpy as np

from random_onnx.graphs import Array
from random_onnx.tracing import Variants

SLACK = 4.0
"""How many times as far as the variants of a value a result may be off: few of them are drawn."""


def mismatch(expected: Variants, result: Array, counts: Counter[str]) -> str | None:
    """Return how a result differs; None where it does not. Counts compared elements by how they were compared."""
    first = expected[0]
    if result.dtype != first.dtype or result.shape != first.shape:
        return f"{result.dtype}{list(result.shape)}, expected {first.dtype}{list(first.shape)}"
    variants = np.stack(expected)
    is_exact = np.all(_same(variants, first), axis=0)
    near, is_defined = _near(variants, first, result) if first.dtype.kind != "b" else (np.zeros_like(is_exact),) * 2
    wrong = np.where(is_exact, ~_same(result, first), is_defined & ~near)
    counts["exactly"] += int(is_exact.sum())
    counts["nearly"] += int((is_defined & ~is_exact).sum())
    counts["not compared"] += int((~is_defined & ~is_exact).sum())
    if not wrong.any():
        return None
    flat = int(wrong.reshape(-1).argmax())
    value, wanted = result.reshape(-1)[flat], first.reshape(-1)[flat]
    spread = variants.reshape(len(expected), -1)[:, flat].tolist()
    return f"element {flat} is {value!r}, expected {wanted!r} ({int(wrong.sum())} of {wrong.size} wrong; {spread})"


def _same(values: Array, expected: Array) -> Array:
    """Return where elements are equal, or both NaN; ONNX leaves the signs of zeros open."""
    if expected.dtype.kind != "f":
        return np.asarray(values == expected)
    return np.asarray((values == expected) | (np.isnan(values) & np.isnan(expected)))


def _near(variants: Array, first: Array, result: Array) -> tuple[Array, Array]:
    """Return where a result is as near as the variants are, and where they say how near that is."""
    if first.dtype.kind != "f":
        wide, made = variants.astype(object), result.astype(object)
        spread = np.max(np.abs(wide - first.astype(object)), axis=0, initial=0)
        is_defined = np.asarray(spread <= 1, np.bool_)
        return np.asarray(np.abs(made - first.astype(object)) <= 1, np.bool_), is_defined
    with np.errstate(all="ignore"):
        wide, made, base = variants.astype(np.float64), result.astype(np.float64), first.astype(np.float64)
        spread = np.max(np.abs(wide - base), axis=0, initial=0)
        is_defined = np.isfinite(wide).all(axis=0)
        return np.asarray(np.abs(made - base) <= SLACK * spread), np.asarray(is_defined)
