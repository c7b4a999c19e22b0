"""What only chooses or moves elements between two equal scales: it works on the codes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F32, I32
from openinfer.importers.onnx_files.rewriting import Calls, ends_with, scalar_value
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Call, Value, known

if TYPE_CHECKING:
    from openinfer.dims import Size
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.values import Setting

_MOVING = ("reshape", "flatten", "squeeze", "unsqueeze", "transpose", "slice", "narrow", "select", "expand", "tile")
_CHOOSING = ("max_pool2d", "max_axis", "min_axis")
"""Order is that of the numbers, since scales are above zero."""

_LEAST, _MOST = 2.0**-100, 2.0**100
"""Bounds of scales within which quantising a dequantised code gives the code back, and nothing overflows f32."""


@ends_with("quantize_linear")
def _on_codes(calls: Calls, call: Call) -> bool:
    """Chains of such operators from a dequantised value to one that is quantised by the same scale."""
    chain: list[Call] = []
    writer = calls.writer(call.inputs[0])
    while writer is not None and writer.op in (*_MOVING, *_CHOOSING) and len(writer.outputs) == 1:
        chain.insert(0, writer)
        writer = calls.writer(writer.inputs[0])
    if writer is None or writer.op != "dequantize_linear" or not _is_one_grid(writer, call):
        return False
    codes = writer.inputs[0]
    if codes is None or codes.dtype is not call.outputs[0].dtype or not _are_told_apart(writer, codes.dtype):
        return False
    if not chain:
        return calls.replace(call, "identity", [codes])
    *inner, last = chain
    for moving in inner:
        moved, inputs = Value("", codes.dtype, moving.outputs[0].dims), (codes, *moving.inputs[1:])
        calls.before(call, [Call(moving.op, inputs, dict(moving.settings), (moved,), stage=moving.stage)])
        codes = moved
    return calls.replace(call, last.op, [codes, *last.inputs[1:]], last.settings)


def _are_told_apart(dequantised: Call, codes: DType) -> bool:
    """Whether each code has a real of its own, and operators take codes as they take reals: not those of 4 bits."""
    return dequantised.outputs[0].dtype is F32 and codes.is_integer and not codes.is_packed


def _is_one_grid(dequantised: Call, quantised: Call) -> bool:
    """Whether two calls have the same scale and zero point for all elements."""
    scales = [scalar_value(call.inputs[1]) for call in (dequantised, quantised)]
    if scales[0] is None or scales[0] != scales[1] or not _LEAST <= scales[0] <= _MOST:
        return False
    return _zero(dequantised) is not None and _zero(dequantised) == _zero(quantised)


def _zero(call: Call) -> float | None:
    """Return the zero point of all elements; None where it is not known."""
    zero = call.inputs[2] if len(call.inputs) > 2 else None
    return 0.0 if zero is None else scalar_value(zero)


@ends_with("quantize_linear")
def _mean(calls: Calls, call: Call) -> bool:
    """A mean of dequantised codes that is quantised: their exact sum, scaled once."""
    mean = calls.inner(call.inputs[0], "global_avg_pool", "mean_axis")
    dequantised = None if mean is None else calls.writer(mean.inputs[0], "dequantize_linear")
    if mean is None or dequantised is None or mean.outputs[0].dtype is not F32:
        return False
    codes, left, right = dequantised.inputs[0], scalar_value(dequantised.inputs[1]), scalar_value(call.inputs[1])
    settings = _of_sum(mean)
    if codes is None or settings is None or left is None or right is None or _zero(dequantised) is None:
        return False
    zero = call.inputs[2] if len(call.inputs) > 2 else None
    axes = settings["axes"]
    count = _count(codes, axes) if isinstance(axes, tuple) and codes.rank else None
    if not count or not _is_summed_exactly(codes.dtype, count) or (zero is not None and zero.rank):
        return False
    factor = left / (right * count) if right else 0.0
    if not _LEAST <= factor <= _MOST:
        return False
    dims = mean.outputs[0].dims
    wide = Value("", I32, codes.dims)
    before = [Call("cast", (codes,), {"to": I32}, (wide,), stage=call.stage)]
    if _zero(dequantised):
        centred = Value("", I32, codes.dims)
        before.append(Call("sub", (wide, known(np.asarray(_zero(dequantised), np.int32), I32)), {}, (centred,)))
        wide = centred
    total, real, scaled = Value("", I32, dims), Value("", F32, dims), Value("", F32, dims)
    before += [
        Call("sum_axis", (wide,), settings, (total,), stage=call.stage),
        Call("cast", (total,), {"to": F32}, (real,), stage=call.stage),
        Call("mul", (real, known(np.asarray(factor, np.float32), F32)), {}, (scaled,), stage=call.stage),
    ]
    calls.before(call, before)
    call.inputs = (scaled, known(np.asarray(1, np.float32), F32), zero)
    return True


def _is_summed_exactly(dtype: DType, count: int) -> bool:
    """Whether the sum of so many codes less their zero point is one of i32."""
    low, high = dtype.minimum, dtype.maximum
    return low is not None and high is not None and count * (high - low) < 1 << 31


def _of_sum(mean: Call) -> dict[str, Setting] | None:
    """Return the settings of the sum that a mean divides."""
    if mean.op == "global_avg_pool":
        return {"axes": tuple(range(2, mean.outputs[0].rank)), "keepdims": True}
    return dict(mean.settings) if isinstance(mean.settings.get("axes"), tuple) else None


def _count(codes: Value, axes: tuple[float | Size, ...]) -> int | None:
    """Return how many elements axes have; None where that is not known."""
    extents = [codes.dims[axis % codes.rank] for axis in axes if isinstance(axis, int)]
    numbers = [extent for extent in extents if is_number(extent)]
    return math.prod(numbers) if len(numbers) == len(axes) else None
