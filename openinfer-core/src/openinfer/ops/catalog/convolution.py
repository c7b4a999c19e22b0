"""Convolution of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import DType
from openinfer.ir.types import TensorType
from openinfer.ops.accumulate import ACC, accumulated
from openinfer.ops.dtype_sets import FLOATS, INTEGERS
from openinfer.ops.schema import InputSpec, OpSchema, OpTypeError, Primitive, SettingSpec, SettingType
from openinfer.ops.shapes import integer, needed, shown
from openinfer.ops.windows import DILATION, PADDING, STRIDE, windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue

    Settings = Mapping[str, SettingValue]

CATEGORY = "convolution"
_BIASES = FLOATS | INTEGERS
_TYPES = _BIASES - {"i64", "u64"}
"""Integers need a wider accumulator, which the widest have not."""


def _check_types(given: Sequence[TensorType], settings: Settings) -> DType:
    """Return the output type: floats may be mixed, integers have one type and need ``acc``."""
    first = given[0].dtype
    if first.is_float and all(t.dtype.is_float for t in given):
        return accumulated(first, settings)
    if any(t.dtype is not first for t in given[:2]):
        raise OpTypeError(f"x and w are {given[0].dtype} and {given[1].dtype}", code="dtype-unsupported")
    if settings.get("acc") is None:
        raise OpTypeError(f"convolution of {first} needs acc, such as acc=i32", code="acc-rules")
    out = accumulated(first, settings)
    if any(t.dtype is not out for t in given[2:]):
        raise OpTypeError(f"bias is {given[2].dtype}, expected the accumulator {out}", code="dtype-unsupported")
    return out


def _conv2d_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, w, bias = needed(inputs), needed(inputs, 1), inputs[2] if len(inputs) > 2 else None
    out = _check_types([t for t in (x, w, bias) if t is not None], settings)
    if len(x.shape) != 4 or len(w.shape) != 4:
        raise OpTypeError(f"conv2d takes x [N,C,H,W] and w [O,C/groups,h,w], found {x} and {w}")
    groups = integer(settings.get("groups"), "groups")
    channels, kernels = x.shape[1], w.shape[0]
    if groups < 1 or channels % groups or kernels % groups or w.shape[1] != channels // groups:
        raise OpTypeError(
            f"{channels} channels in {groups} groups do not fit w {shown(w.shape)}: "
            "its dim 1 is channels per group, its dim 0 a multiple of groups"
        )
    if bias is not None and bias.shape != (kernels,):
        raise OpTypeError(f"bias is {bias}, expected one element per output channel: {shown((kernels,))}")
    positions = [window.positions for window in windows(x.shape[2:], w.shape[2:], settings)]
    return (TensorType(out, (x.shape[0], kernels, *positions)),)


CONV2D = OpSchema(
    name="conv2d",
    summary="sum of w over windows of x (padded with zeros) plus bias; cross-correlation, channels in groups",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", dtypes=_TYPES, doc="[N, C, H, W]"),
        InputSpec(name="w", dtypes=_TYPES, doc="[O, C/groups, h, w]"),
        InputSpec(name="bias", dtypes=_BIASES, optional=True, doc="[O]; with acc of that type"),
    ),
    dtypes=_TYPES,
    settings=(
        STRIDE,
        PADDING,
        DILATION,
        SettingSpec(
            name="groups",
            type=SettingType.INT,
            default=1,
            aliases=("group",),
            doc="groups of channels that do not mix",
        ),
        ACC,
    ),
    infer=_conv2d_types,
    definition=Primitive(),
    in_place=True,
    onnx="Conv",
)
