"""Symbols of PyTorch's dynamic shapes as dimensions with names.

A saved program has lost what its author called a dimension: it is ``s77``, with a range.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.importers.onnx_files.source import Dim

LARGEST = (1 << 31) - 1
"""Largest limit that is one: PyTorch writes the largest integers for none."""

_SYMBOL = re.compile(r"\b[a-z]+\d+\b")


class Symbols:
    """Names of symbols.

    The first dim of inputs of several is the batch; any other symbol is named after the first dim that it is.
    """

    def __init__(self, shapes: Mapping[str, Sequence[Any]]) -> None:
        self._names: dict[str, str] = {}
        for name, shape in shapes.items():
            for axis, extent in enumerate(shape):
                symbol = str(extent)
                if _SYMBOL.fullmatch(symbol) and symbol not in self._names:
                    is_batch = axis == 0 and len(shape) > 1 and "batch" not in self._names.values()
                    self._names[symbol] = "batch" if is_batch else f"{name}_{axis}"

    def dim(self, extent: Any) -> Dim:
        """Return an extent as a number, or as an expression of dimensions."""
        if isinstance(extent, int):
            return extent
        return _SYMBOL.sub(lambda match: self._names.get(match[0], match[0]), str(extent))

    def ranges(self, constraints: Mapping[Any, Any]) -> dict[str, tuple[int, int | None]]:
        """Return the least and the greatest value of each dimension."""
        ranges: dict[str, tuple[int, int | None]] = {}
        for symbol, limits in constraints.items():
            name = self._names.get(str(symbol))
            if name is None:
                continue
            high = int(limits.upper) if str(limits.upper).isdigit() else None
            ranges[name] = max(int(limits.lower), 0), high if high is not None and high <= LARGEST else None
        return ranges
