"""A picture of where things lie in a file: a bar whose cells stand for equal shares of its bytes."""

from __future__ import annotations

from collections.abc import Iterator

from .tables import Index

_CELLS = 64
_MEANINGS = {
    "h": "header",
    "s": "sizevars",
    "m": "metadata table",
    "t": "tensor table",
    "v": "metadata values",
    "#": "a tensor",
    "=": "the next tensor",
    "q": "quantisation",
    ".": "padding",
}

_Segment = tuple[int, int, str]


def layout_picture(index: Index) -> list[str]:
    """A title, the bar, and a legend of its signs. A sign shows the content that fills most of its part of the file."""
    size = index.header.file_size
    cells = min(_CELLS, size // 8)
    edges = [size * at // cells for at in range(cells + 1)]
    filled = [0] * cells
    signs = ["."] * cells
    for start, end, sign in _segments(index):
        first = start * cells // size
        for at in range(max(first - 1, 0), cells):
            if edges[at] >= end:
                break
            share = min(end, edges[at + 1]) - max(start, edges[at])
            if share > filled[at]:
                filled[at], signs[at] = share, sign
    legend = ", ".join(f"{sign} {meaning}" for sign, meaning in _MEANINGS.items() if sign in signs)
    return [f"layout, {size // cells} bytes to a sign", f"  [{''.join(signs)}]", f"  {legend}"]


def _segments(index: Index) -> Iterator[_Segment]:
    header = index.header
    yield 0, header.offset_sizevars, "h"
    yield header.offset_sizevars, header.offset_metadata, "s"
    yield header.offset_metadata, header.offset_tensors, "m"
    yield header.offset_tensors, header.offset_data, "t"
    for value in index.metadata:
        yield value.offset, value.offset + value.nbytes, "v"
    for at, tensor in enumerate(index.tensors):
        yield tensor.offset, tensor.offset + tensor.nbytes, "#="[at % 2]
        yield tensor.quant_offset, tensor.quant_offset + tensor.quant_nbytes, "q"
