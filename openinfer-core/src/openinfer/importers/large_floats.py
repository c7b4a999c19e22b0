"""Which elements of outputs depend on the large floats among the inputs of a step, and how much.

Cancellation leaves rounding errors of large terms in small results. Which elements depend on large terms shows in a run
without these, and how much in runs in which they are rounded otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt

    Array = npt.NDArray[Any]

ROUNDINGS = 3
"""Runs with other roundings of the inputs."""

LARGE = 1.0
"""Magnitude above which a float is large; tolerances are for inputs up to it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What large floats do to an output.

    Attributes:
        reached: the elements that depend on them.
        moved: the most that rounding large floats otherwise moves such an element; infinite where that is unknown.
    """

    reached: npt.NDArray[np.bool_]
    moved: float


def reach_of_large_floats(
    run: Callable[[Mapping[str, Array]], Iterable[Mapping[str, Array]]],
    inputs: Mapping[str, Array],
    *,
    share: float,
    seed: int,
) -> dict[str, Reach]:
    """Return what the large floats among the inputs do to each output.

    Args:
        run: returns the outputs of the programs that are compared, by the same names, on inputs.
        share: how far large floats are rounded, as a share of them.
    """
    plain = [*run(inputs)]
    calm = [*run({name: _without_large(value) for name, value in inputs.items()})]
    rounded: list[list[Mapping[str, Array]]] = []
    for number in range(ROUNDINGS):
        seeds = {name: (seed, number, place) for place, name in enumerate(inputs)}
        rounded.append([*run({name: _rounded(value, share, seeds[name]) for name, value in inputs.items()})])
    return {
        name: _reach(
            [(outputs[name], other[name]) for outputs, other in zip(plain, calm, strict=True)],
            [(outputs[name], other[name]) for runs in rounded for outputs, other in zip(plain, runs, strict=True)],
        )
        for name in plain[0]
    }


def _reach(without: list[tuple[Array, Array]], rounded: list[tuple[Array, Array]]) -> Reach:
    shape = without[0][0].shape
    if any(array.shape != shape for pair in (*without, *rounded) for array in pair):
        return Reach(np.ones(shape, np.bool_), float("inf"))
    reached = np.zeros(shape, np.bool_)
    for before, after in without:
        reached |= ~((before == after) | (np.isnan(_f64(before)) & np.isnan(_f64(after))))
    moved = 0.0
    for before, after in rounded:
        with np.errstate(invalid="ignore", over="ignore"):
            distances = np.abs(_f64(before) - _f64(after))[reached]
        moved = max(moved, float(distances[np.isfinite(distances)].max(initial=0.0)))
    return Reach(reached, moved)


def _f64(array: Array) -> npt.NDArray[np.float64]:
    return array.astype(np.float64)


def _is_large(values: Array) -> npt.NDArray[np.bool_]:
    sizes = np.abs(_f64(values))
    return np.isfinite(sizes) & (sizes > LARGE)


def _without_large(values: Array) -> Array:
    if values.dtype.kind in "biu":
        return values
    return np.where(_is_large(values), np.sign(_f64(values)), _f64(values)).astype(values.dtype)


def _rounded(values: Array, share: float, seed: tuple[int, ...]) -> Array:
    """Return the values with large ones a share larger or smaller."""
    if values.dtype.kind in "biu":
        return values
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], values.shape)
    with np.errstate(over="ignore"):
        rounded = (_f64(values) * (1 + share * signs)).astype(values.dtype)
    return np.where(_is_large(values) & np.isfinite(_f64(rounded)), rounded, values)
