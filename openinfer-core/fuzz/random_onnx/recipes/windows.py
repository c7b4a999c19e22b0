"""Convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from random_onnx.calls import Call
from random_onnx.recipe_registry import draws


def windows(call: Call, kernel: Sequence[int], *, dilated: bool = True) -> None:
    """Draw padding, strides and dilations of a window."""
    dims = len(kernel)
    auto = call.random.choice(("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if call.chance(0.3):
        call.attributes["auto_pad"] = auto
    if call.attributes.get("auto_pad", "NOTSET") == "NOTSET" and call.chance(0.6):
        symmetric = [call.random.randint(0, max(extent - 1, 0)) for extent in kernel]
        other = [call.random.randint(0, max(extent - 1, 0)) for extent in kernel]
        call.attributes["pads"] = [*symmetric, *(symmetric if call.chance(0.5) else other)]
    if call.chance(0.6):
        call.attributes["strides"] = [call.random.choice((1, 2, 2, 3)) for _ in range(dims)]
    if dilated and call.chance(0.3):
        call.set("dilations", [call.random.choice((1, 2, 3)) for _ in range(dims)])


def _image(call: Call, channels: int, kernel: Sequence[int]) -> tuple[int, ...]:
    return (call.extent(most=3), channels, *(extent + call.extent(least=0, most=5) for extent in kernel))


def _kernel(call: Call) -> list[int]:
    return [call.extent(most=3) for _ in range(call.random.choice((1, 1, 2, 2, 2, 2, 3)))]


def _channels(call: Call, name: str, image: str) -> tuple[int, int, list[int], int]:
    """Draw an image; return its channels, those of the result, the kernel and the number of groups."""
    del name
    groups, kernel = call.random.choice((1, 1, 2, 3)), _kernel(call)
    taken, made = groups * call.extent(most=2), groups * call.extent(most=3)
    call.take(image, shape=_image(call, taken, kernel))
    return taken, made, kernel, groups


@draws("Conv")
def _conv(call: Call) -> None:
    taken, made, kernel, groups = _channels(call, "Conv", "X")
    call.take("W", shape=(made, taken // groups, *kernel))
    call.maybe("B", shape=(made,))
    windows(call, kernel)
    if groups > 1 or call.chance(0.2):
        call.attributes["group"] = groups
    call.set("kernel_shape", kernel, 0.5)


@draws("ConvTranspose")
def _conv_transpose(call: Call) -> None:
    taken, made, kernel, groups = _channels(call, "ConvTranspose", "X")
    call.take("W", shape=(taken, made // groups, *kernel))
    call.maybe("B", shape=(made,))
    windows(call, kernel)
    if groups > 1:
        call.attributes["group"] = groups
    strides = call.attributes.get("strides", [1] * len(kernel))
    if call.attributes.get("auto_pad", "").startswith("SAME"):
        # Where a kernel is shorter than its stride, onnxruntime cannot pad by less than nothing: its result is shorter
        # than ONNX says.
        strides = [min(stride, extent) for stride, extent in zip(strides, kernel, strict=True)]
        call.attributes["strides"] = strides
    if call.chance(0.3):
        call.attributes["output_padding"] = [call.random.randint(0, stride - 1) for stride in strides]


@draws("ConvInteger")
def _conv_integer(call: Call) -> None:
    taken, made, kernel, groups = _channels(call, "ConvInteger", "x")
    call.take("w", shape=(made, taken // groups, *kernel))
    call.maybe("x_zero_point", shape=(), fresh=True)
    if "x_zero_point" in call.inputs:
        call.maybe("w_zero_point", shape=(), fresh=True)
    windows(call, kernel)
    if groups > 1:
        call.attributes["group"] = groups


@draws("MaxPool", "AveragePool", "LpPool")
def _pool(call: Call) -> None:
    kernel = _kernel(call)
    call.take("X", shape=_image(call, call.extent(most=3), kernel))
    call.attributes["kernel_shape"] = kernel
    windows(call, kernel)
    call.flag("ceil_mode", 0.3)
    call.flag("count_include_pad", 0.4)
    call.set("p", call.random.choice((1, 2, 3)), 0.5)
    if call.schema.max_output > 1 and call.chance(0.1):
        call.outputs = 2


@draws("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(call: Call) -> None:
    call.take("X", ranks=(3, 4, 5))
    call.set("p", call.random.choice((1, 2, 3)), 0.4)


@draws("LRN")
def _lrn(call: Call) -> None:
    call.take("X", ranks=(3, 4))
    call.attributes["size"] = call.random.choice((1, 2, 3, 5))
    for name, number in (("alpha", 0.5), ("beta", 0.5), ("bias", 2.0)):
        call.set(name, number, 0.5)


@draws("Col2Im")
def _col2im(call: Call) -> None:
    block = [call.extent(most=3) for _ in range(2)]
    image = [extent + call.extent(least=0, most=4) for extent in block]
    strides = [call.random.choice((1, 2)) for _ in range(2)]
    pads = [call.random.randint(0, 1) for _ in range(4)] if call.chance(0.4) else [0] * 4
    steps = [(image[axis] + pads[axis] + pads[axis + 2] - block[axis]) // strides[axis] + 1 for axis in range(2)]
    call.take("input", shape=(call.extent(most=2), math.prod(block) * call.extent(most=2), math.prod(steps)))
    call.add("image_shape", np.array(image, np.int64), known=True)
    call.add("block_shape", np.array(block, np.int64), known=True)
    call.attributes["strides"] = strides
    if any(pads):
        call.attributes["pads"] = pads
