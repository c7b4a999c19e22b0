"""Resize in every mode: with the operator of the catalogue if the modes agree, else axis by axis.

Along an axis a place of the result is one of the original, or the sum of a few with weights. Which ones is a table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.diagnostics import counted
from openinfer.dtypes import F32, F64
from openinfer.importers.onnx_files.families.elementwise import cast, short_float
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates
from openinfer.importers.onnx_files.resize_axes import (
    NEAREST,
    TRANSFORMATIONS,
    ResizedAxis,
    coordinates,
    is_extrapolated,
    nearest_places,
)
from openinfer.importers.onnx_files.resize_in_f32 import (
    LARGEST_ERROR,
    coordinates_in_f32,
    is_extrapolated_in_f32,
    largest_error,
    nearest_in_f32,
)
from openinfer.importers.onnx_files.resize_lengths import axes_of, resized_axes, scales_of
from openinfer.importers.onnx_files.resize_taps import LARGEST_COEFFICIENT, Filter, taps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Setting, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Modes:
    """How places are computed.

    Attributes:
        kernel: None where the nearest place is taken.
        nearest: the attribute ``nearest_mode``.
        transformation: the attribute ``coordinate_transformation_mode``.
        extrapolated: the value outside of the original.
    """

    kernel: Filter | None
    nearest: str
    transformation: str
    extrapolated: float


@translates("Resize", "Upsample")
def _resize(node: Node) -> Value:
    x, modes = node.given(0), _modes(node)
    if modes.kernel is not None and not x.dtype.is_float:
        reason = f"mode={node.get('mode')} of {x.dtype.name}: only floats are interpolated"
        node.refuse(f"{reason}; cast to float before, or use mode=nearest")
    native = _by_factor(node, x, modes)
    if native is not None:
        return native
    axes = [axis for axis in resized_axes(node, modes.transformation) if not axis.is_kept]
    with np.errstate(all="ignore"):  # a large region is infinite in f32
        for axis in axes:
            _note_of_runtime(node, axis, modes, all(other.before == other.after for other in axes))
    if _is_native(x, axes, modes):
        size = {2: x.dims[2], 3: x.dims[3]} | {axis.axis: axis.after for axis in axes}
        return node.call("resize2d", x, size=(size[2], size[3]), **_native_mode(modes))
    result = x if modes.kernel is None or x.dtype is F64 else cast(node, x, F32)
    for axis in sorted(axes, key=_turn):
        result = _along(node, result, axis, modes)
    result = cast(node, result, x.dtype)
    for axis in axes:
        result = _with_outside(node, result, axis, modes)
    return node.call("identity", x) if result is x else result


def _modes(node: Node) -> _Modes:
    """Return the attributes; older opsets have fewer."""
    is_old = node.op == "Upsample" or node.opset < 11
    mode = str(node.get("mode", "nearest"))
    transformation = "asymmetric" if is_old else str(node.get("coordinate_transformation_mode", "half_pixel"))
    nearest = "" if is_old else str(node.get("nearest_mode", "round_prefer_floor"))
    kernel = Filter(
        is_cubic=mode == "cubic",
        cubic_coefficient=float(node.get("cubic_coeff_a", -0.75)),
        antialias=node.flag("antialias"),
        exclude_outside=node.flag("exclude_outside"),
    )
    if kernel.is_cubic and not abs(kernel.cubic_coefficient) <= LARGEST_COEFFICIENT:
        node.refuse(f"cubic_coeff_a={kernel.cubic_coefficient}: expected at most {LARGEST_COEFFICIENT:g} either way")
    if mode not in ("nearest", "linear", "cubic"):
        node.refuse(f"mode={mode}, expected nearest, linear or cubic")
    if transformation not in TRANSFORMATIONS:
        node.refuse(f"coordinate_transformation_mode={transformation}, expected {', '.join(sorted(TRANSFORMATIONS))}")
    if nearest not in NEAREST:
        node.refuse(f"nearest_mode={nearest}, expected {', '.join(sorted(filter(None, NEAREST)))}")
    if mode == "nearest" and kernel.antialias:
        node.refuse("antialias=1 in mode nearest, expected linear or cubic")
    return _Modes(
        kernel=None if mode == "nearest" else kernel,
        nearest=nearest,
        transformation=transformation,
        extrapolated=float(node.get("extrapolation_value", 0.0)),
    )


# The operator of the catalogue


def _native_mode(modes: _Modes) -> dict[str, Setting]:
    return {} if modes.kernel is None else {"mode": "linear"}


def _has_native_mode(x: Value, modes: _Modes) -> bool:
    """Whether resize2d chooses the same places where each scale is the quotient of the lengths, and at least 1."""
    if x.rank != 4:
        return False
    if modes.kernel is None:
        return modes.transformation == "asymmetric" and modes.nearest in ("floor", "")
    is_plain = not (modes.kernel.is_cubic or modes.kernel.antialias)
    return is_plain and modes.transformation in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")


def _by_factor(node: Node, x: Value, modes: _Modes) -> Value | None:
    """Return a call of resize2d by whole factors, whatever the size of the image; None where there is none."""
    if not _has_native_mode(x, modes):
        return None
    factors = dict(zip(axes_of(node), scales_of(node) or (), strict=False))
    rows, columns = factors.pop(2, 1.0), factors.pop(3, 1.0)
    # Other sizes are rounded down, so that their quotients are not the scales.
    whole = rows.is_integer() and columns.is_integer() and (rows, columns) != (1, 1)
    if not whole or any(factor != 1 for factor in factors.values()):
        return None
    scale = short_float(rows) if rows == columns else (short_float(rows), short_float(columns))
    return node.call("resize2d", x, scale=scale, **_native_mode(modes))


def _is_native(x: Value, axes: Sequence[ResizedAxis], modes: _Modes) -> bool:
    """Whether resize2d of these sizes is the same."""
    if not axes or not _has_native_mode(x, modes):
        return False
    is_exact = all(axis.axis in (2, 3) and axis.scale * axis.before == axis.after for axis in axes)
    if modes.nearest == "" and any(axis.scale < 1 for axis in axes):
        return False
    return is_exact and (modes.transformation != "pytorch_half_pixel" or all(axis.after > 1 for axis in axes))


# Tables of places and weights


def _turn(axis: ResizedAxis) -> tuple[bool, int]:
    """Return a key that sorts axes by when they are resized.

    Those that shrink come first, so that the others have less to do. Elements of inner axes are read one by one, those
    of outer axes in rows: the inner ones are resized last where they shrink, and first where they grow.
    """
    grows = axis.after > axis.before
    return grows, -axis.axis if grows else axis.axis


def _along(node: Node, x: Value, axis: ResizedAxis, modes: _Modes) -> Value:
    at = coordinates(axis, modes.transformation)
    if modes.kernel is None:
        return node.call("gather", x, node.numbers(nearest_places(axis, at, modes.nearest)), axis=axis.axis)
    places, weights = taps(axis, at, modes.kernel)
    if len(places) == 1:
        return node.call("gather", x, node.numbers(places[0]), axis=axis.axis)
    gathered = node.call("gather", x, node.numbers(places), axis=axis.axis)
    shares = node.emit.constant(_across(weights.astype(storage_dtype(x.dtype)), x, axis), x.dtype)
    return node.call("sum_axis", node.call("mul", gathered, shares), axes=(axis.axis,))


def _with_outside(node: Node, x: Value, axis: ResizedAxis, modes: _Modes) -> Value:
    """Return a result with the extrapolated value where places lie outside of the original."""
    outside = is_extrapolated(axis, coordinates(axis, modes.transformation), modes.transformation)
    if not outside.any():
        return x
    if not (x.dtype.is_float or math.isfinite(modes.extrapolated)):
        node.refuse(f"extrapolation_value={modes.extrapolated} of {x.dtype}: expected a number")
    value = modes.extrapolated if x.dtype.is_float else int(modes.extrapolated)
    return node.call("where", node.numbers(_across(outside, x, axis)), node.number(value, x.dtype), x)


def _across(table: Array, x: Value, axis: ResizedAxis) -> Array:
    """Return a table whose last dim is an axis of a result, with dims for the axes after it."""
    return table.reshape(*table.shape, *[1] * (x.rank - 1 - axis.axis))


def _note_of_runtime(node: Node, axis: ResizedAxis, modes: _Modes, has_same_shape: bool) -> None:
    """Add a note where ONNX Runtime has other results.

    It rounds coordinates to f32, and copies what has the shape, or with antialias the length, that it had before.
    """
    at, rounded = coordinates(axis, modes.transformation), coordinates_in_f32(axis, modes.transformation)
    outside = is_extrapolated(axis, at, modes.transformation)
    differ = outside != is_extrapolated_in_f32(axis, rounded, modes.transformation)
    if modes.kernel is None:
        differ |= nearest_places(axis, at, modes.nearest) != nearest_in_f32(axis, rounded, modes.nearest)
    error = 0.0 if modes.kernel is None else largest_error(rounded, at, axis.before)
    reason = "its coordinates are f32, the program's exact"
    if modes.transformation == "align_corners" and axis.width != axis.after:
        reason = f"it computes with a length of {axis.after}, ONNX with {float(axis.width):.6g}"
    runtime = f"{node.source.title}: along axis {axis.axis} ONNX Runtime"
    is_copied = has_same_shape or (modes.kernel is not None and modes.kernel.antialias)
    if is_copied and 1 < axis.before == axis.after:
        node.emit.notes.append(f"{runtime} copies what it should resize, since the length stays {axis.after}")
    elif differ.any():
        count = f"{int(differ.sum())} of {counted(axis.after, 'place')}"
        node.emit.notes.append(f"{runtime} takes {count} from elsewhere: {reason}")
    elif error > LARGEST_ERROR:
        node.emit.notes.append(f"{runtime} is up to {error:.1g} places off: {reason}")
