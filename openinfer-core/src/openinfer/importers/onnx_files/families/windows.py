"""Convolution and pooling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.families import volumes
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Setting, Value


def spatial(node: Node, *most: int) -> int:
    """Return the number of spatial dims of the first input, which has to be one of these."""
    dims = node.given(0).rank - 2
    if dims not in most:
        node.refuse(f"{dims} spatial dims, expected {' or '.join(map(str, most))}")
    return dims


def windows(node: Node, dims: int) -> dict[str, Setting]:
    """Return the settings of a window that differ from the defaults."""
    per_dim = ("kernel_shape", "strides", "dilations", "output_padding", "output_shape")
    for name, count in (*((name, dims) for name in per_dim), ("pads", 2 * dims)):
        if node.has(name) and len(node.get(name)) != count:
            node.refuse(f"{name}={node.get(name)}, expected {count} numbers for {dims} dims")
    settings: dict[str, Setting] = {}
    auto = node.get("auto_pad", "NOTSET").lower()
    if auto not in ("notset", "", "valid"):
        settings["padding"] = auto
    elif auto != "valid":
        pads = tuple(int(pad) for pad in node.get("pads", [0] * (2 * dims)))
        if any(pads):
            settings["padding"] = _short(pads)
    for theirs, ours in (("strides", "stride"), ("dilations", "dilation")):
        given = tuple(int(step) for step in node.get(theirs, [1] * dims))
        if any(step != 1 for step in given):
            settings[ours] = _short(given)
    return settings


def check_kernel(node: Node, w: Value) -> None:
    """Refuse an attribute ``kernel_shape`` that is not the shape of the windows of weights [..., kernel]."""
    given = node.get("kernel_shape")
    if given is not None and w.shape is not None and tuple(given) != w.shape[2:]:
        node.refuse(f"kernel_shape={list(given)}, but the weights have windows of {list(w.shape[2:])}")


def _short(numbers: tuple[int, ...]) -> Setting:
    """Return one number for all dims where they are equal."""
    return numbers[0] if len(set(numbers)) == 1 else numbers


def groups(node: Node) -> dict[str, Setting]:
    """Return the number of groups, where there are several."""
    number = int(node.get("group", 1))
    return {} if number == 1 else {"groups": number}


@translates("Conv")
def conv(node: Node) -> Value:
    """Return the first input's convolution with the second, plus the third along channels."""
    dims = spatial(node, 1, 2, 3)
    x, w = node.given(0), node.given(1)
    check_kernel(node, w)
    settings = windows(node, dims) | groups(node)
    if dims == 3:
        return volumes.convolved(node, x, w, node.input(2), settings)
    return node.call(f"conv{dims}d", x, w, node.input(2), **settings)


@translates("ConvTranspose")
def _conv_transpose(node: Node) -> Value:
    dims = spatial(node, 1, 2)
    x, w = node.given(0), node.given(1)
    check_kernel(node, w)
    settings = _transposed_windows(node, dims) | groups(node)
    if dims == 2:
        return node.call("conv_transpose2d", x, w, node.input(2), **settings)
    # A signal is an image of one row.
    image, kernel = (node.call("unsqueeze", value, axes=(2,)) for value in (x, w))
    rows = {name: with_row(value, name) for name, value in settings.items() if name != "groups"} | groups(node)
    return node.call("squeeze", node.call("conv_transpose2d", image, kernel, node.input(2), **rows), axes=(2,))


def with_row(value: Setting, name: str) -> Setting:
    """Return a setting of a window over a signal as one over an image of one row."""
    if isinstance(value, int):
        value = (value,)
    if not isinstance(value, tuple):
        return value
    if name == "padding":
        return (0, value[0], 0, value[-1])
    return (0 if name == "output_padding" else 1, value[0])


def _transposed_windows(node: Node, dims: int) -> dict[str, Setting]:
    """Return the settings of a transposed window; padding is computed from an output shape or an automatic rule."""
    settings = windows(node, dims)
    extra = [int(n) for n in node.get("output_padding", [0] * dims)]
    auto = node.get("auto_pad", "NOTSET")
    if node.has("output_shape") or auto in ("SAME_UPPER", "SAME_LOWER"):
        settings["padding"] = _padding_for_shape(node, dims, extra, lower=auto != "SAME_UPPER")
    if any(extra):
        settings["output_padding"] = tuple(extra)
    return settings


def _padding_for_shape(node: Node, dims: int, extra: list[int], *, lower: bool) -> Setting:
    sizes, kernel = node.shape(0)[2:], node.shape(1)[2:]
    stride = node.get("strides", [1] * dims)
    dilation = node.get("dilations", [1] * dims)
    wanted = node.get("output_shape") or [size * step for size, step in zip(sizes, stride, strict=True)]
    begin: list[int] = []
    end: list[int] = []
    for axis in range(dims):
        full = stride[axis] * (sizes[axis] - 1) + extra[axis] + (kernel[axis] - 1) * dilation[axis] + 1
        total = max(full - wanted[axis], 0)
        extra[axis] += max(wanted[axis] - full, 0)
        first = total - total // 2 if lower else total // 2
        begin.append(first)
        end.append(total - first)
    return (*begin, *end)


@translates("MaxPool")
def _max_pool(node: Node) -> tuple[Value, ...]:
    if len(node.source.outputs) > 1 and node.source.outputs[1]:
        node.refuse("the output Indices is not supported: OpenInfer has the greatest elements, not where they are")
    return (_pool(node, "max", node.given(0)),)


def _pool(node: Node, kind: str, x: Value, **settings: Setting) -> Value:
    """Return the pool of a signal, an image or a volume by the windows of a node."""
    dims = spatial(node, 1, 2, 3)
    settings |= _pooling(node, dims)
    if dims == 3:
        return volumes.pooled(node, f"{kind}_pool2d", x, settings)
    return node.call(f"{kind}_pool{dims}d", x, **settings)


def _pooling(node: Node, dims: int) -> dict[str, Setting]:
    settings: dict[str, Setting] = {"kernel": _short(tuple(int(k) for k in node.get("kernel_shape")))}
    settings |= windows(node, dims)
    return settings | ({"ceil_mode": True} if node.flag("ceil_mode") else {})


@translates("AveragePool")
def _avg_pool(node: Node) -> Value:
    _refuse_dilations(node)
    include: dict[str, Setting] = {"count_include_pad": True} if node.flag("count_include_pad") else {}
    return _pool(node, "avg", node.given(0), **include)


def _refuse_dilations(node: Node) -> None:
    if any(step != 1 for step in node.get("dilations", ())):
        node.refuse(f"dilations={list(node.get('dilations'))}, expected 1 for each dim")


@translates("LpPool")
def _lp_pool(node: Node) -> Value:
    """The root of as many times the mean as a window has elements; zeros around the image count as such."""
    _refuse_dilations(node)
    power, x = int(node.get("p", 2)), node.given(0)
    if power < 1 or node.flag("ceil_mode"):
        node.refuse(f"p={power}, expected at least 1" if power < 1 else "ceil_mode=1, expected 0")
    raised = node.call("square" if power == 2 else "abs", x)
    if power > 2:
        raised = node.call("pow", raised, node.number(power, x.dtype))
    mean = _pool(node, "avg", raised, count_include_pad=True)
    total = node.call("mul", mean, node.number(math.prod(node.get("kernel_shape")), x.dtype))
    if power == 2:
        return node.call("sqrt", total)
    return total if power == 1 else node.call("pow", total, node.number(1 / power, x.dtype))


@translates("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(node: Node) -> Value:
    return node.call("global_avg_pool" if node.op == "GlobalAveragePool" else "global_max_pool", node.given(0))


_RUNNING_SUM = (
    "LRN: ONNX Runtime adds and subtracts squares as its window moves along the channels, so that after values of more "
    "than about 1000 its results are off, or NaN; the program adds up the squares of each window"
)


@translates("LRN")
def _lrn(node: Node) -> Value:
    """Means over windows of channels: channels are the rows of an image."""
    x, size = node.given(0), int(node.get("size"))
    shape = node.shape(0)
    if 0 in shape:
        return node.call("identity", x)
    alpha, beta, bias = (float(node.get(name, value)) for name, value in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1)))
    if size > 1 and _RUNNING_SUM not in node.emit.notes:
        node.emit.notes.append(_RUNNING_SUM)
    image = node.reshaped(node.call("square", x), (shape[0], 1, shape[1], math.prod(shape[2:])))
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    mean = node.call("avg_pool2d", image, kernel=(size, 1), padding=(before, 0, after, 0), count_include_pad=True)
    scaled = node.call("mul", node.reshaped(mean, shape), node.number(alpha, x.dtype))
    base = node.call("add", scaled, node.number(bias, x.dtype))
    return node.call("div", x, node.call("pow", base, node.number(beta, x.dtype)))


@translates("Col2Im")
def _col2im(node: Node) -> Value:
    """Columns added to an image at the places where their windows lie; the padding around it is cut off."""
    image, block = node.plain_integers(1), node.plain_integers(2)
    if image is None or block is None or len(image) != 2:
        node.refuse("image_shape and block_shape are not of an image, expected 2 numbers each")
    batch, columns, positions = node.shape(0)
    channels = columns // math.prod(block)
    strides, dilations = (list(node.get(name, [1, 1])) for name in ("strides", "dilations"))
    pads = list(node.get("pads", [0, 0, 0, 0]))
    padded = [image[axis] + pads[axis] + pads[axis + 2] for axis in range(2)]
    rows, steps = _rows_of_windows(padded, block, strides, dilations)
    if steps != positions:
        node.refuse(f"columns for {positions} windows, expected {steps}, as many as the image has")
    x = node.reshaped(node.given(0), (batch * channels, math.prod(block) * positions))
    zeros = node.call("expand", node.number(0, x.dtype), shape=(math.prod(padded), batch * channels))
    updates = node.call("transpose", x, perm=(1, 0))
    summed = node.call("scatter_nd", zeros, node.numbers(rows[:, None]), updates, reduction="add")
    whole = node.reshaped(node.call("transpose", summed, perm=(1, 0)), (batch, channels, *padded))
    if not any(pads):
        return whole
    ends = tuple(start + extent for start, extent in zip(pads, image, strict=False))
    return node.call("slice", whole, starts=tuple(pads[:2]), ends=ends, axes=(2, 3))


def _rows_of_windows(
    padded: list[int], block: list[int], strides: list[int], dilations: list[int]
) -> tuple[Array, int]:
    """Return for each element of a window, and each window, its place in the padded image; and how many windows are."""
    axes: list[Array] = []
    for extent, size, stride, dilation in zip(padded, block, strides, dilations, strict=True):
        count = (extent - dilation * (size - 1) - 1) // stride + 1
        axes.append(dilation * np.arange(size)[:, None] + stride * np.arange(count))
    down, across = axes
    rows = down[:, None, :, None] * padded[1] + across[None, :, None, :]
    return rows.reshape(-1).astype(np.int64), down.shape[1] * across.shape[1]
