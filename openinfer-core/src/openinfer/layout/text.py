"""The text of a layout, which reads back: its shape, its digits, and its halo where it has one.

``[1, 3, 8, 8] as d0:1 d2:10 d3:10 d1:4 halo 0+0 0+0 1+1 1+1`` is an image with channels innermost, padded to four, and
a border of one place; ``d1/16:2`` is ``index // 16 % 2`` of dimension 1. ``fill -128`` after the halo is the element in
its places, where that is not 0.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.affine import IndexSyntaxError, parse_index
from openinfer.errors import OpenInferError
from openinfer.layout.layout import Digit, Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Var

_FORM = re.compile(
    r"\[(?P<shape>[^\]]*)\] as(?P<digits>(?: d\d+(?:/\d+)?:\S+)*)"
    r"(?: halo(?P<halo>(?: \d+\+\d+)*)(?: fill (?P<fill>-?\d+))?)?"
)
_DIGIT = re.compile(r" d(\d+)(?:/(\d+))?:(\S+)")


class LayoutTextError(OpenInferError):
    """Text that is not that of a layout."""

    default_code = "expression"


def layout_text(layout: Layout) -> str:
    """Return the text of a layout."""
    shape = ", ".join(map(str, layout.shape))
    digits = "".join(f" {_digit_text(digit)}" for digit in layout.digits)
    halo = "".join(f" {before}+{after}" for before, after in layout.halo)
    fill = f" fill {layout.fill}" if layout.fill else ""
    return f"[{shape}] as{digits}" + (f" halo{halo}{fill}" if layout.halo else "")


def _digit_text(digit: Digit) -> str:
    stride = f"/{digit.stride}" if digit.stride != 1 else ""
    return f"d{digit.dim}{stride}:{str(digit.extent).replace(' ', '')}"


def read_layout(text: str, variables: Mapping[str, Var] = MappingProxyType({})) -> Layout:
    """Return the layout of a text; extents may use ``variables``, parameters by name.

    Raises:
        LayoutTextError: the text is none, or names dimensions that the shape does not have.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise LayoutTextError(f"{text!r} is not a layout, expected text such as `[2, 3] as d1:3 d0:2`")
    extents = [extent.strip() for extent in found["shape"].split(",")]
    try:
        shape = tuple(parse_index(extent, variables) for extent in extents if extent)
        parts = _DIGIT.findall(found["digits"])
        digits = tuple(
            Digit(int(dim), int(stride or 1), parse_index(extent, variables)) for dim, stride, extent in parts
        )
    except IndexSyntaxError as error:
        raise LayoutTextError(f"{text!r} is not a layout: {error}") from error
    pairs = (pair.split("+") for pair in (found["halo"] or "").split())
    halo = tuple((int(before), int(after)) for before, after in pairs)
    if any(digit.dim >= len(shape) for digit in digits) or (halo and len(halo) != len(shape)):
        raise LayoutTextError(f"{text!r} has {len(shape)} dimensions, and digits or a halo of others")
    return Layout(shape, digits, halo, int(found["fill"] or 0))
