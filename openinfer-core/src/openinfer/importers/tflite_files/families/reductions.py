"""Sums, means and extremes along dims."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.tflite_files.node import Node
from openinfer.importers.tflite_files.requantising import differences, requantised
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.importers.onnx_files.values import Setting, Value


def _reduced(node: Node, function: Callable[[Value, tuple[int, ...], dict[str, Setting]], Value]) -> Value:
    """Apply a fold along the dims that the second input names, with channels first where the first is there so."""
    x, keeps = node.given(0), bool(node.option("KeepDims", False))
    axes = [node.axis(axis, x.rank) for axis in node.numbers(1)]
    settings: dict[str, Setting] = {"keepdims": True} if keeps else {}
    if not node.order.has_planes(x) or not axes:
        return function(x, tuple(axes), settings)
    moved = tuple(sorted((0, 2, 3, 1)[axis] for axis in axes))
    planes = node.order.planes(x)
    if keeps:
        return node.order.image(function(planes, moved, settings))
    # Only where rows and columns are folded, what is left has the order that it has with channels last.
    return function(planes, moved, settings) if moved == (2, 3) else function(x, tuple(axes), settings)


def _mean(node: Node) -> Value:
    if not node.is_quantised:
        return _reduced(node, lambda x, axes, settings: node.call("mean_axis", x, axes=axes, **settings))
    scale = node.parameters(node.tensor(0)).scale[0]

    def mean(x: Value, axes: tuple[int, ...], settings: dict[str, Setting]) -> Value:
        extents = [dim.value if isinstance(dim, Const) else 0 for dim in (x.dims[axis] for axis in axes)]
        count = math.prod(extents)
        if not count:
            node.refuse("the number of elements depends on sizes: fix them with --set")
        total = node.call("sum_axis", differences(node, 0, x), axes=axes, **settings)
        return requantised(node, total, np.asarray(np.float32(scale / np.float32(count))), clips=False)

    return _reduced(node, mean)


TRANSLATORS = MappingProxyType({"MEAN": _mean})
