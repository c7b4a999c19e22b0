"""Symbols of PyTorch's dynamic shapes as dimensions with names.

A saved program has lost what its author called a dimension: it is ``s77``, with a range. An extent ``2*s77`` of an
input is a dimension too, of which ``s77`` is half: arrays say how large extents are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.importers.onnx_files.source import Dim

LARGEST = (1 << 31) - 1
"""Largest limit that is one: PyTorch writes the largest integers for none."""

_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
_LINEAR = re.compile(r"(?:(?P<factor>\d+)\*)?(?P<symbol>[a-z]+\d+)(?: (?P<offset>[+-] \d+))?")


@dataclass(frozen=True, slots=True)
class Range:
    """The values of a dimension: ``remainder`` more than a multiple of ``multiple``, from ``low`` to ``high``."""

    low: int
    high: int | None = None
    multiple: int = 1
    remainder: int = 0


@dataclass(frozen=True, slots=True)
class _Extent:
    """An extent of an input that is ``factor`` times a symbol, plus ``offset``."""

    name: str
    symbol: str
    factor: int
    offset: int


class Symbols:
    """Names of the extents of inputs.

    The first dim of inputs of several is the batch; any other extent is named after the first dim that it is.
    """

    def __init__(self, shapes: Mapping[str, Sequence[Any]]) -> None:
        self._extents: dict[str, _Extent] = {}
        # A symbol that is an extent names the others that have it in them.
        for is_plain in (True, False):
            for name, text in self._candidates(shapes):
                match = _LINEAR.fullmatch(text)
                if match is None or match["symbol"] in self._extents or (match["symbol"] == text) is not is_plain:
                    continue
                offset = int((match["offset"] or "0").replace(" ", ""))
                self._extents[match["symbol"]] = _Extent(name, match["symbol"], int(match["factor"] or 1), offset)

    def _candidates(self, shapes: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, str]]:
        """Yield what each extent that varies would be called, and its text."""
        for name, shape in shapes.items():
            for axis, extent in enumerate(shape):
                is_batch = axis == 0 and len(shape) > 1 and all(e.name != "batch" for e in self._extents.values())
                yield "batch" if is_batch else f"{name}_{axis}", str(extent)

    def dim(self, extent: Any) -> Dim:
        """Return an extent as a number, or as an expression of dimensions."""
        if isinstance(extent, int):
            return extent
        text = str(extent)
        match = _LINEAR.fullmatch(text)
        named = None if match is None else self._extents.get(match["symbol"])
        if match is not None and named is not None and text == _text(named):
            return named.name
        return _SYMBOL.sub(lambda part: self._of_symbol(part[0]), text)

    def _of_symbol(self, symbol: str) -> str:
        extent = self._extents.get(symbol)
        if extent is None:
            return symbol
        before = f"({extent.name} - {extent.offset})" if extent.offset else extent.name
        return f"({before} / {extent.factor})" if extent.factor > 1 else before

    def ranges(self, constraints: Mapping[Any, Any]) -> dict[str, Range]:
        """Return the values of each dimension."""
        ranges: dict[str, Range] = {}
        for symbol, limits in constraints.items():
            extent = self._extents.get(str(symbol))
            if extent is None:
                continue
            low = max(int(limits.lower), 0) * extent.factor + extent.offset
            upper = int(limits.upper) if str(limits.upper).isdigit() else LARGEST + 1
            high = upper * extent.factor + extent.offset if upper <= LARGEST else None
            ranges[extent.name] = Range(low, high, extent.factor, extent.offset % extent.factor)
        return ranges


def _text(extent: _Extent) -> str:
    """Return the text that PyTorch has for an extent."""
    product = f"{extent.factor}*{extent.symbol}" if extent.factor > 1 else extent.symbol
    sign = "-" if extent.offset < 0 else "+"
    return f"{product} {sign} {abs(extent.offset)}" if extent.offset else product
