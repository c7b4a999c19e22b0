"""Windows over volumes, as windows over images: those of pools along their planes and then along their depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.sizes import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.node import Node
    from openinfer.importers.onnx_files.values import Setting, Value

    Settings = Mapping[str, Setting]


def pooled(node: Node, op: str, x: Value, settings: Settings) -> Value:
    """Return the pool of a volume [N, C, D, H, W]: greatest elements and means of a box are those of its planes'."""
    batch, channels, depth, height, width = x.dims
    planes = node.reshaped(x, (batch, channels * depth, height, width))
    inner = node.call(op, planes, **_planes(settings))
    height, width = inner.dims[2:]
    columns = node.reshaped(inner, (batch, channels, depth, height * width))
    outer = node.call(op, columns, **_depth(settings))
    return node.reshaped(outer, (batch, channels, outer.dims[2], height, width))


def convolved(node: Node, x: Value, w: Value, bias: Value | None, settings: Settings) -> Value:
    """Return the convolution of a volume: planes under a window along the depth are channels of an image."""
    kernel, along = _number(node, w.dims[2]), _depth(settings)
    step, dilation = (_first(along.get(name, 1)) for name in ("stride", "dilation"))
    padding = along.get("padding", 0)
    if isinstance(padding, str):
        node.refuse(f"auto_pad={padding.upper()} over 3 dims: export the model with pads")
    if isinstance(padding, tuple) and any(padding):
        before, _, after, _ = padding
        x = node.call("pad", x, pads=(0, 0, before, 0, 0, 0, 0, after, 0, 0))
    batch, channels, depth, height, width = x.dims
    reach = dilation * (kernel - 1) + 1
    places = (depth - reach) // step + 1
    parts = [
        node.call("slice", x, starts=(first,), ends=(first + depth - reach + 1,), axes=(2,), steps=(step,))
        for first in range(0, reach, dilation)
    ]
    windows = node.call("stack", *parts, axis=2) if len(parts) > 1 else node.call("unsqueeze", parts[0], axes=(2,))
    by_place = node.call("transpose", windows, perm=(0, 3, 1, 2, 4, 5))
    image = node.reshaped(by_place, (batch * places, channels * kernel, height, width))
    filters, group = w.dims[:2]
    weights = node.reshaped(w, (filters, group * kernel, *w.dims[3:]))
    planes = node.call("conv2d", image, weights, bias, **_planes(settings))
    apart = node.reshaped(planes, (batch, places, *planes.dims[1:]))
    return node.call("transpose", apart, perm=(0, 2, 1, 3, 4))


def _number(node: Node, extent: Size) -> int:
    if not is_number(extent):
        node.refuse_sizes("the depth of a window", extent)
    return extent


def _first(value: Setting) -> int:
    first = value[0] if isinstance(value, tuple) else value
    if not isinstance(first, int):
        raise TypeError(f"{first!r} is not a number of elements")
    return first


def _planes(settings: Settings) -> dict[str, Setting]:
    """Return the settings of a window over the last two of three dims."""
    made = dict(settings)
    for name, value in settings.items():
        if isinstance(value, tuple):
            made[name] = (*value[1:3], *value[4:])
    return made


def _depth(settings: Settings) -> dict[str, Setting]:
    """Return the settings of a window over the first of three dims, as one over the rows of an image."""
    made = dict(settings)
    for name in settings.keys() & {"kernel", "stride", "dilation"}:
        made[name] = (_first(settings[name]), 1)
    padding = settings.get("padding", "")
    if not isinstance(padding, str):
        before, after = (padding[0], padding[3]) if isinstance(padding, tuple) else (_first(padding),) * 2
        made["padding"] = (before, 0, after, 0)
    return made
