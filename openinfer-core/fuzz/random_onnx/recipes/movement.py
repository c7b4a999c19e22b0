"""Operators that move elements, or make them."""

from __future__ import annotations

import math

import numpy as np
from onnx import helper, numpy_helper

from random_onnx.calls import TYPES, Call
from random_onnx.recipe_registry import draws

OPEN_END = (1 << 63) - 1
"""What exporters write for the end of a dimension."""

FLOATS_AND_INTS = (np.float32, np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_)


@draws("Concat")
def _concat(call: Call) -> None:
    first = call.take("inputs", ranks=(1, 2, 3, 4))
    axis = call.random.randrange(first.ndim)
    for _ in range(call.random.randint(0, 3)):
        shape = list(first.shape)
        shape[axis] = call.extent(least=0)
        call.take("inputs", shape=shape)
    call.attributes["axis"] = axis - (first.ndim if call.schema.since_version >= 11 and call.chance(0.4) else 0)


@draws("DepthToSpace")
def _depth_to_space(call: Call) -> None:
    block = call.random.choice((1, 2, 3))
    shape = (call.extent(), block * block * call.extent(most=3), call.extent(), call.extent())
    call.take("input", shape=shape)
    call.attributes["blocksize"] = block
    call.set("mode", call.random.choice(("DCR", "CRD")), 0.6)


@draws("SpaceToDepth")
def _space_to_depth(call: Call) -> None:
    block = call.random.choice((1, 2, 3))
    call.take("input", shape=(call.extent(), call.extent(), block * call.extent(), block * call.extent()))
    call.attributes["blocksize"] = block
    call.set("mode", call.random.choice(("DCR", "CRD")), 0.4)


@draws("Expand")
def _expand(call: Call) -> None:
    array = call.take("input")
    lead = [call.extent(most=3) for _ in range(call.random.randint(0, 2))]
    tail = [call.extent() if extent == 1 else call.random.choice((1, extent)) for extent in array.shape]
    drop = call.random.randint(0, len(tail)) if not lead and call.chance(0.3) else 0
    call.ints("shape", [*lead, *tail][drop:])


@draws("Reshape")
def _reshape(call: Call) -> None:
    array = call.take("data")
    extents = _factors(call, array.size)
    if call.flag("allowzero", 0.2):
        call.ints("shape", extents)
        return
    if array.size and extents and call.chance(0.5):
        extents[call.random.randrange(len(extents))] = -1
    extents = [
        0 if axis < array.ndim and extent == array.shape[axis] and call.chance(0.3) else extent
        for axis, extent in enumerate(extents)
    ]
    call.ints("shape", extents)


def _factors(call: Call, size: int) -> list[int]:
    """Return extents whose product is a size."""
    extents: list[int] = []
    rest = size
    for _ in range(call.random.randint(0, 4)):
        divisors = [n for n in range(1, 10) if rest and rest % n == 0] or [1]
        extents.append(call.random.choice(divisors))
        rest //= extents[-1] if rest else 1
    if rest != 1 or (not extents and call.chance(0.5)):
        extents.insert(call.random.randint(0, len(extents)), rest)
    return extents


@draws("Slice")
def _slice(call: Call) -> None:
    array = call.take("data", ranks=(1, 2, 3, 4, 5))
    axes = sorted(call.random.sample(range(array.ndim), call.random.randint(1, array.ndim)))
    starts = [_position(call, array.shape[axis]) for axis in axes]
    ends = [_position(call, array.shape[axis]) for axis in axes]
    call.ints("starts", starts)
    call.ints("ends", ends)
    is_leading = axes == list(range(len(axes)))
    if not is_leading or call.chance(0.7):
        can_be_negative = call.schema.since_version >= 10
        call.ints("axes", [axis - (array.ndim if can_be_negative and call.chance(0.3) else 0) for axis in axes])
        if call.has_input("steps") and call.chance(0.5):
            # Backward, onnxruntime takes the greatest number for the first element; ONNX clamps it to the last.
            steps = [call.random.choice((1, 1, 2, 3, -1, -2)) for _ in axes]
            call.ints("steps", [abs(step) if end == OPEN_END else step for step, end in zip(steps, ends, strict=True)])


def _position(call: Call, extent: int) -> int:
    return call.random.choice((0, 1, -1, extent, extent // 2, -extent, extent + 3, -extent - 2, OPEN_END, 2))


@draws("Split")
def _split(call: Call) -> None:
    array = call.take("input", ranks=(1, 2, 3, 4))
    axis = call.axis(array.ndim)
    extent = array.shape[axis or 0]
    count = call.random.randint(1, 4)
    call.outputs = count
    if extent % count or call.chance(0.6):
        bounds = sorted(call.random.randint(0, extent) for _ in range(count - 1))
        parts = [end - start for start, end in zip([0, *bounds], [*bounds, extent], strict=True)]
        if "num_outputs" not in call.schema.attributes or call.chance(0.7):
            call.ints("split", parts)
            return
    call.set("num_outputs", count)


@draws("Squeeze")
def _squeeze(call: Call) -> None:
    array = call.take("data")
    ones = [axis for axis, extent in enumerate(array.shape) if extent == 1]
    # Onnxruntime takes an empty list of axes for one that is left out, ONNX for no axes.
    if ones and call.chance(0.7):
        chosen = call.random.sample(ones, call.random.randint(1, len(ones)))
        negative = call.schema.since_version >= 11
        call.ints("axes", [axis - (array.ndim if negative and call.chance(0.4) else 0) for axis in chosen])


@draws("Unsqueeze")
def _unsqueeze(call: Call) -> None:
    array = call.take("data", ranks=(0, 1, 2, 3))
    count = call.random.randint(0 if call.chance(0.1) else 1, 2)
    axes = call.random.sample(range(array.ndim + count), count)
    negative = call.schema.since_version >= 11
    call.ints("axes", [axis - (array.ndim + count if negative and call.chance(0.4) else 0) for axis in axes])


@draws("Tile")
def _tile(call: Call) -> None:
    array = call.take("input")
    call.ints("repeats", [call.random.choice((1, 1, 2, 3, 0)) for _ in array.shape])


@draws("Transpose")
def _transpose(call: Call) -> None:
    array = call.take("data")
    if call.chance(0.8):
        call.attributes["perm"] = call.random.sample(range(array.ndim), array.ndim)


@draws("Trilu")
def _trilu(call: Call) -> None:
    call.take("input", ranks=(2, 3, 4))
    if call.chance(0.6):
        call.ints("k", call.random.randint(-4, 5))
    call.flag("upper")


@draws("Pad")
def _pad(call: Call) -> None:
    array = call.take("data", ranks=(1, 2, 3, 4))
    mode = call.random.choice(("constant", "constant", "edge", "reflect", "wrap"))
    if mode != "constant" or call.chance(0.5):
        call.attributes["mode"] = mode
    low = -1 if mode == "constant" and call.chance(0.3) else 0
    axes = list(range(array.ndim))
    if call.has_input("axes") and call.chance(0.3):
        axes = call.random.sample(axes, call.random.randint(1, array.ndim))
    pads = [call.random.randint(low, 2) for _ in range(2 * len(axes))]
    call.ints("pads", pads)
    if mode == "constant" and call.chance(0.6) and not call.set("value", 1.5) and call.has_input("constant_value"):
        call.take("constant_value", shape=(), fresh=True)
    if len(axes) < array.ndim or (call.has_input("axes") and call.chance(0.1)):
        call.ints("axes", [axis - (array.ndim if call.chance(0.3) else 0) for axis in axes])


@draws("ConstantOfShape")
def _constant_of_shape(call: Call) -> None:
    call.ints("input", call.shape())
    if call.chance(0.7):
        dtype = call.random.choice(list(TYPES.values()))
        call.attributes["value"] = numpy_helper.from_array(call.drawn(dtype, (1,)), "value")


@draws("Constant")
def _constant(call: Call) -> None:
    if "value_ints" in call.schema.attributes and call.chance(0.5):
        numbers = [call.random.randint(-3, 9) for _ in range(call.random.randint(0, 4))]
        name, value = call.random.choice(
            (
                ("value_int", 3),
                ("value_ints", numbers or [2]),
                ("value_float", 1.5),
                ("value_floats", [0.5, -2.0]),
            )
        )
        call.attributes[name] = value
        return
    dtype = np.dtype(call.random.choice(FLOATS_AND_INTS))
    call.attributes["value"] = numpy_helper.from_array(call.drawn(dtype, call.shape()), "value")


@draws("EyeLike")
def _eye_like(call: Call) -> None:
    call.take("input", ranks=(2,))
    call.set("k", call.random.randint(-3, 4), 0.5)
    dtype = call.random.choice((np.float32, np.float64, np.int64, np.int32, np.uint8))
    call.set("dtype", int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))), 0.4)


@draws("Range")
def _range(call: Call) -> None:
    dtype = call.dtype("start")
    start, step = call.random.choice((0, 1, -3, 5)), call.random.choice((1, 1, 2, -1, 3))
    limit = start + step * call.random.choice((0, 1, 4, 7)) - call.random.choice((0, 1))
    scale = call.random.choice((1, 0.5)) if dtype.kind == "f" else 1
    for name, number in (("start", start), ("limit", limit), ("delta", step)):
        call.add(name, np.array(number * scale, dtype), known=None if call.chance(0.2) else True)


@draws("Flatten")
def _flatten(call: Call) -> None:
    array = call.take("input", ranks=(1, 2, 3, 4, 5))
    low = -array.ndim if call.schema.since_version >= 11 else 0
    call.set("axis", call.random.randint(low, array.ndim), 0.8)


@draws("Shape")
def _shape(call: Call) -> None:
    array = call.take("data")
    call.set("start", call.random.randint(-array.ndim - 1, array.ndim), 0.5)
    call.set("end", call.random.randint(-array.ndim - 1, array.ndim + 1), 0.5)


@draws("Resize", "Upsample")
def _resize(call: Call) -> None:
    first = call.schema.inputs[0].name
    call.prefer(first, np.float32, np.float32, np.uint8, np.int8)
    spatial = call.random.choice((1, 2, 2, 2))
    shape = (call.extent(most=2), call.extent(most=3), *(call.extent() for _ in range(spatial)))
    array = call.take(first, shape=shape)
    scales = [1.0, 1.0, *(call.random.choice((0.5, 1.0, 2.0, 3.0, 1.5, 0.7)) for _ in range(spatial))]
    mode = call.random.choice(("nearest", "linear", *(("cubic",) if call.schema.since_version >= 11 else ())))
    call.set("mode", mode)
    if call.set("scales", [max(scale, 1.0) for scale in scales]):
        return
    if not call.has_input("sizes") or call.chance(0.5):
        call.add("scales", np.array(scales, np.float32), known=True)
    else:
        extents = [math.ceil(extent * scale) for extent, scale in zip(array.shape, scales, strict=True)]
        call.add("sizes", np.array(extents, np.int64), known=True)
        if call.schema.since_version < 13:
            call.add("scales", np.zeros(0, np.float32), known=True)
    if call.schema.since_version == 11:
        call.add("roi", np.zeros(0, np.float32), known=True)
    modes = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    call.set("coordinate_transformation_mode", call.random.choice(modes), 0.7)
    if mode == "nearest":
        nearest = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        call.set("nearest_mode", call.random.choice(nearest), 0.6)


@draws("CenterCropPad")
def _center_crop_pad(call: Call) -> None:
    array = call.take("input_data", ranks=(1, 2, 3))
    call.ints("shape", [call.extent() for _ in array.shape])
