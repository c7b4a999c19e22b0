"""Random values of inputs, and what was drawn in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.float_formats import FORMATS
from openinfer.random_inputs.ranges import Specials
from openinfer.simulate import Random

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.random_inputs.ranges import ValueRange

    Array = npt.NDArray[Any]

SPECIAL_SHARE = 0.25
"""Share of the elements that are special where any are; the others come from the range."""

_ROOT = 8
"""Large floats are the root of this order of the greatest: products of a few stay finite."""


def drawn(
    dtype: DType, shape: Sequence[int], values: ValueRange, seed: Sequence[int], special: Specials = Specials.NONE
) -> Array:
    """Return a tensor of random values from a range, one float in four special where those mean something.

    One in four of wide integers is 0 or 1: they may be masks.
    """
    array = Random.generate(dtype, shape, (values.bounds.low, values.bounds.high), seed=seed)
    kinds = min(values.specials, special)
    if kinds is Specials.NONE and not values.is_wide:
        return array
    others = np.array([0, 1], array.dtype) if values.is_wide else _special_floats(dtype, kinds)
    generator = np.random.default_rng((*seed, 1))
    chosen = generator.choice(others, array.shape)
    return np.where(generator.random(array.shape) < SPECIAL_SHARE, chosen, array)


def drawn_text(dtype: DType, values: ValueRange, special: Specials = Specials.NONE) -> str:
    """Return what `drawn` draws: type, range, and what the program does with it."""
    use = f", {values.use}" if values.use else ", one in four 0 or 1" if values.is_wide else ""
    text = f"{dtype} {values.bounds.low:.9g}..{values.bounds.high:.9g}{use}"
    kinds = min(values.specials, special)
    if kinds is Specials.NONE:
        return text
    words = ["zeros", "the least normal", *(["subnormal"] if kinds >= Specials.FINITE else []), f"{_large(dtype):.9g}"]
    words += ["infinity, NaN"] if kinds is Specials.ALL else []
    return f"{text}; special: ±({', '.join(words)})"


def _large(dtype: DType) -> float:
    return 2.0 ** (-FORMATS[dtype.name].exponent // _ROOT)


def _special_floats(dtype: DType, kinds: Specials) -> Array:
    limits = FORMATS[dtype.name]
    sizes = [0.0, limits.normal, _large(dtype)]
    sizes += [limits.least] if kinds >= Specials.FINITE else []
    sizes += [float("inf"), float("nan")] if kinds is Specials.ALL else []
    return np.array([sign * size for size in sizes for sign in (1.0, -1.0)], np.float64).astype(storage_dtype(dtype))
