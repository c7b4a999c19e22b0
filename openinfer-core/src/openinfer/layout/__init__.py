"""Layouts: where the elements of a tensor lie in a buffer."""

from openinfer.layout.layout import Digit, Layout, row_major

__all__ = ["Digit", "Layout", "row_major"]
