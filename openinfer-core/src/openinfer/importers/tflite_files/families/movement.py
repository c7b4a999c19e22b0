"""Operators that move elements."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.elements import scalar_of
from openinfer.importers.tflite_files.node import Node, is_quantised

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Element, Setting, Value


def _reshape(node: Node) -> Value:
    shape: tuple[Element, ...] = node.integers(1) if node.input(1) is not None else node.option("NewShape", ())
    if any(extent == 0 for extent in shape):
        node.refuse("a tensor without elements")
    return node.call("reshape", node.given(0), shape=shape)


def _pad(node: Node) -> Value:
    """Margins; those of codes hold the zero point."""
    x, margins = node.given(0), node.numbers(1)
    if len(margins) != 2 * x.rank or min(margins, default=0) < 0:
        node.refuse(f"the margins {margins} of {x.rank} dims")
    before, after = margins[0::2], margins[1::2]
    value: float = int(node.parameters(node.tensor(0)).zero[0]) if is_quantised(node.tensor(0)) else 0
    if node.op == "PADV2":
        value = scalar_of(_known(node, 2), x.dtype)
    settings: dict[str, Setting] = {} if not value else {"value": value}
    if node.order.has_planes(x):
        moved = [*(before[axis] for axis in (0, 3, 1, 2)), *(after[axis] for axis in (0, 3, 1, 2))]
        return node.order.image(node.call("pad", node.order.planes(x), pads=tuple(moved), **settings))
    return node.call("pad", x, pads=(*before, *after), **settings)


def _known(node: Node, position: int) -> Array:
    value = node.given(position)
    if value.payload is None:
        node.refuse(f"input {node.tensor(position).name!r} has to be known at import")
    return value.array()


TRANSLATORS = MappingProxyType({"PAD": _pad, "PADV2": _pad, "RESHAPE": _reshape})
