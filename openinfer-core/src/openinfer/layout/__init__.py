"""Layouts: where the elements of a tensor lie in a buffer."""

from openinfer.layout.layout import Digit, Layout, row_major
from openinfer.layout.text import LayoutTextError, layout_text, read_layout

__all__ = ["Digit", "Layout", "LayoutTextError", "layout_text", "read_layout", "row_major"]
