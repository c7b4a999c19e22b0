"""Sums, means and extremes along dims."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.tflite_files.fixed_point import mean_of_codes
from openinfer.importers.tflite_files.image_order import CHANNELS_FIRST
from openinfer.importers.tflite_files.node import Node
from openinfer.importers.tflite_files.requantising import differences, requantised
from openinfer.importers.tflite_files.through_reals import on_codes, through_reals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.importers.onnx_files.values import Setting, Value
    from openinfer.importers.tflite_files.node import Translator


MOST_IN_I32 = (1 << 31) - 1

_OVERFLOWS = "sums of more codes than 32 bits hold: LiteRT's overflow, the program's are computed in reals"


def _reduced(node: Node, function: Callable[[Value, tuple[int, ...], dict[str, Setting]], Value]) -> Value:
    """Apply a fold along the dims that the second input names, with channels first where the first is there so."""
    x, keeps = node.given(0), bool(node.option("KeepDims", False))
    axes = tuple(dict.fromkeys(node.axis(axis, x.rank) for axis in node.numbers(1)))
    settings: dict[str, Setting] = {"keepdims": True} if keeps else {}
    if not axes:
        node.refuse("no dims")
    if not node.order.has_planes(x):
        return function(x, axes, settings)
    moved = tuple(sorted(CHANNELS_FIRST.index(axis) for axis in axes))
    planes = node.order.planes(x)
    if keeps:
        return node.order.image(function(planes, moved, settings))
    # Only where rows and columns are folded, what is left has the order that it has with channels last.
    return function(planes, moved, settings) if moved == (2, 3) else function(x, axes, settings)


def _fold(op: str) -> Callable[[Node], Value]:
    return lambda node: _reduced(node, lambda x, axes, settings: node.call(op, x, axes=axes, **settings))


def _total(op: str, *, is_mean: bool) -> Translator:
    """Return a translator for a sum or a mean; of codes the exact sum, scaled once."""
    of_reals = _fold(op)
    wide = through_reals(of_reals)

    def translated(node: Node) -> Value | Sequence[Value]:
        if not node.is_quantised:
            return of_reals(node)
        if _largest_sum(node) > MOST_IN_I32:
            if _OVERFLOWS not in node.emit.notes:
                node.emit.notes.append(_OVERFLOWS)
            return wide(node)
        scale = node.parameters(node.tensor(0)).scale[0]

        def total(x: Value, axes: tuple[int, ...], settings: dict[str, Setting]) -> Value:
            extents = [dim if is_number(dim) else 0 for dim in (x.dims[axis] for axis in axes)]
            count = math.prod(extents) if is_mean else 1
            if not count:
                node.refuse("the number of elements depends on sizes: fix them with --set")
            summed = node.call("sum_axis", differences(node, 0, x), axes=axes, **settings)
            if node.rounding != "f32":
                factor = float(scale) / float(node.parameters(node.results[0]).scale[0])
                return mean_of_codes(node, summed, factor, count)
            return requantised(node, summed, np.asarray(np.float32(scale / np.float32(count))), clips=False)

        return _reduced(node, total)

    return translated


def _largest_sum(node: Node) -> int:
    """Return the largest magnitude of a sum of codes less their zero point; 0 where that depends on sizes."""
    x = node.given(0)
    extents = [x.dims[node.axis(axis, x.rank)] for axis in set(node.numbers(1))]
    return math.prod(dim if is_number(dim) else 0 for dim in extents) << node.tensor(0).dtype.bits


def _position(op: str) -> Translator:
    def translated(node: Node) -> Value:
        x, axis = node.given(0), node.axis(node.numbers(1)[0], node.given(0).rank)
        place = node.call(op, x, axis=axis)
        return place if place.dtype is node.results[0].dtype else node.call("cast", place, to=node.results[0].dtype)

    return translated


def _cumsum(node: Node) -> Value:
    settings: dict[str, Setting] = {"axis": node.axis(node.numbers(1)[0], node.given(0).rank)}
    settings |= {name.lower(): True for name in ("Exclusive", "Reverse") if node.option(name, False)}
    return node.call("cumsum", node.given(0), **settings)


TRANSLATORS = MappingProxyType(
    {
        "ARG_MAX": _position("argmax_axis"),
        "ARG_MIN": _position("argmin_axis"),
        "CUMSUM": through_reals(_cumsum),
        "MEAN": _total("mean_axis", is_mean=True),
        "REDUCE_ALL": _fold("all_axis"),
        "REDUCE_ANY": _fold("any_axis"),
        "REDUCE_MAX": on_codes(_fold("max_axis")),
        "REDUCE_MIN": on_codes(_fold("min_axis")),
        "REDUCE_PROD": through_reals(_fold("prod_axis")),
        "SUM": _total("sum_axis", is_mean=False),
    }
)
