"""Earlier module name: numbers, previews and histograms as the verifier prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Makes the package importable from a checkout in which it is not installed.
import dataclass_to_oinf  # noqa: F401
import numpy as np
from numpy.typing import NDArray

from openinfer_oinf.statistics import statistics_of
from openinfer_oinf.textform import histogram_line, values_text
from openinfer_oinf.textform import number_text as format_scalar

__all__ = ["format_scalar", "format_values", "histogram_string"]


def format_values(array: NDArray[Any]) -> str:
    """The preview of an array in braces."""
    flat = array.reshape(-1)
    return values_text(lambda first, last: flat[first:last], array.shape)


def histogram_string(array: NDArray[Any]) -> str:
    """Bins and counts in braces; empty for an array without finite values."""
    flat = np.ascontiguousarray(array).reshape(-1)

    def blocks() -> Iterator[NDArray[Any]]:
        yield flat

    kind = flat.dtype.kind
    return histogram_line(statistics_of(blocks, whole_numbers=kind in "iub", bools=kind == "b")).removeprefix(
        "- hist: "
    )
