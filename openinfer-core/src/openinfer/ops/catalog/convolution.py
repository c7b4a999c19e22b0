"""Convolutions: of images and of rows, and the transposed one that undoes their strides."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from openinfer.affine import Index, Within
from openinfer.dims import surely
from openinfer.dtypes import BY_NAME, DType
from openinfer.ir.types import TensorType
from openinfer.ops.accumulate import ACC, accumulated, accumulator
from openinfer.ops.calls import compute_type
from openinfer.ops.contractions import product_of, rounded, summed
from openinfer.ops.dtype_sets import FLOATS, INTEGERS
from openinfer.ops.lifting import lifted, lifted_settings
from openinfer.ops.mixed_floats import widest
from openinfer.ops.schema import (
    Composite,
    Compute,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import integer, needed, optional, shown
from openinfer.ops.transposed_windows import OUTPUT_PADDING, phases, transposed_windows
from openinfer.ops.windows import DILATION, PADDING, STRIDE, windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder, Value
    from openinfer.compute import Operand as BuiltOperand
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Decomposer, InferTypes

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
        raise OpTypeError(f"convolution of {first} needs acc, such as acc=i32", code="acc-rules", settings=("acc",))
    out = accumulated(first, settings)
    if any(t.dtype is not out for t in given[2:]):
        raise OpTypeError(f"bias is {given[2].dtype}, expected the accumulator {out}", code="dtype-unsupported")
    return out


def _conv_types(op: str, rank: int) -> InferTypes:
    letters = "HW" if rank == 2 else "L"

    def infer(
        inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
    ) -> tuple[TensorType, ...]:
        del declared
        x, w, bias = needed(inputs), needed(inputs, 1), optional(inputs, 2)
        out = _check_types([t for t in (x, w, bias) if t is not None], settings)
        if len(x.shape) != rank + 2 or len(w.shape) != rank + 2:
            dims = ",".join(letters)
            raise OpTypeError(f"takes x [N,C,{dims}] and w [O,C/groups,{dims.lower()}], found {x} and {w}", of=op)
        groups = integer(settings.get("groups"), "groups")
        channels, kernels = x.shape[1], w.shape[0]
        if groups < 1 or channels % groups or kernels % groups or w.shape[1] != channels // groups:
            raise OpTypeError(
                f"{channels} channels in {groups} groups do not fit w {shown(w.shape)}: "
                "its dim 1 is channels per group, its dim 0 a multiple of groups",
                settings=("groups",),
            )
        _check_bias(bias, kernels)
        positions = [window.positions for window in windows(x.shape[2:], w.shape[2:], settings)]
        return (TensorType(out, (x.shape[0], kernels, *positions)),)

    return infer


def _check_bias(bias: TensorType | None, kernels: int) -> None:
    if bias is not None and bias.shape != (kernels,):
        raise OpTypeError(f"bias is {bias}, expected one element per output channel: {shown((kernels,))}")


def _summed_in(call: OpCall) -> DType:
    """Return the type that a convolution is summed in: the widest of floats, or the accumulator."""
    given = [type_.dtype for type_ in call.inputs if type_ is not None]
    if not given[0].is_float or call.settings.get("acc") is not None:
        return compute_type(accumulator(given[0], call.settings))
    return widest(given)


def _conv2d(k: Builder, call: OpCall) -> None:
    x, w, *bias = k.given
    (y,), total, window = k.outputs, _summed_in(call), sliding(k, call)
    value = summed(k, product_of((w[window.weight], window.read(x)), total), window.taps)
    if bias:
        value = value + bias[0][window.at[1]].cast(total)
    y[window.at] = rounded(value, call.settings, y.dtype)


@dataclass(frozen=True, slots=True)
class Sliding:
    """What an element of a convolution of images sums up along ``taps``.

    Attributes:
        at: the place of the result.
        weight: the place of the weight of a tap.
        element: the place of the image that it meets, which may lie in the padding.
        inside: the conditions that it does not.
    """

    at: tuple[Index, ...]
    weight: tuple[Index, ...]
    element: tuple[Index, ...]
    inside: tuple[Within, ...]
    taps: tuple[Var, ...]

    def read(self, x: BuiltOperand) -> Value:
        """Return the element of the image, 0 in the padding."""
        return x.within(*self.element, fill=0)


def sliding(k: Builder, call: OpCall) -> Sliding:
    """Return the sums of a convolution by its first inputs and settings.

    ``y[n, g O + o, p, q]`` sums ``w[g O + o, c, i, j] x[n, g C + c, p stride + i dilation - before, ...]``.
    """
    image, kernel, out = needed(call.inputs).shape, needed(call.inputs, 1).shape, call.outputs[0].shape
    rows, columns = windows(image[2:], kernel[2:], call.settings)
    groups = integer(call.settings.get("groups"), "groups")
    g, channel = _channels(k, groups, kernel[0] // groups)
    n, p, q = map(Index.of, k.axes(out[0], *out[2:]))
    c, i, j = taps = k.axes(*kernel[1:])
    row, column = rows.place(p, i), columns.place(q, j)
    return Sliding(
        at=(n, channel, p, q),
        weight=(channel, Index.of(c), Index.of(i), Index.of(j)),
        element=(n, g * kernel[1] + c, row, column),
        inside=(Within(row, Index.of(image[2])), Within(column, Index.of(image[3]))),
        taps=taps,
    )


def _channels(k: Builder, groups: int, each: int) -> tuple[Index, Index]:
    """Return the group and the output channel: without an axis for a single group, or for the one channel of each."""
    g = Index.of(k.axis(groups)) if groups > 1 else Index()
    return g, g if groups > 1 and surely(lambda: each == 1) else g * each + k.axis(each)


def _conv_transpose2d_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, w, bias = needed(inputs), needed(inputs, 1), optional(inputs, 2)
    if len(x.shape) != 4 or len(w.shape) != 4:
        raise OpTypeError(f"takes x [N,C,H,W] and w [C,O/groups,h,w], found {x} and {w}", of="conv_transpose2d")
    groups = integer(settings.get("groups"), "groups")
    if groups < 1 or x.shape[1] % groups or w.shape[0] != x.shape[1]:
        raise OpTypeError(
            f"{x.shape[1]} channels in {groups} groups do not fit w {shown(w.shape)}: its dim 0 is channels",
            settings=("groups",),
        )
    kernels = w.shape[1] * groups
    _check_bias(bias, kernels)
    positions = [window.positions for window in transposed_windows(x.shape[2:], w.shape[2:], settings)]
    return (TensorType(x.dtype, (x.shape[0], kernels, *positions)),)


def _conv_transpose2d(k: Builder, call: OpCall) -> None:
    """Each place of the result sums the products of the elements and taps that meet there, one stage per `phases`."""
    x, w, *bias = k.given
    (y,), total = k.outputs, _summed_in(call)
    image, kernel, out = needed(call.inputs).shape, needed(call.inputs, 1).shape, call.outputs[0].shape
    groups = integer(call.settings.get("groups"), "groups")
    depth = image[1] // groups
    down, across = transposed_windows(image[2:], kernel[2:], call.settings)
    for rows, columns in product(phases(k, down), phases(k, across)):
        n, c, o = k.axes(out[0], depth, kernel[1])
        g = Index.of(k.axis(groups)) if groups > 1 else Index()
        # Neither factor is read where the other one is not: 0 times an infinity would be NaN.
        meeting = (*rows.conditions, *columns.conditions)
        inside = (Within(rows.element, Index.of(image[2])), Within(columns.element, Index.of(image[3])))
        element = x.within(n, g * depth + c, rows.element, columns.element, fill=0, where=meeting)
        tap = w.within(g * depth + c, o, rows.tap, columns.tap, fill=0, where=(*meeting, *inside))
        value = summed(k, product_of((tap, element), total), (c, rows.axis, columns.axis))
        channel = g * kernel[1] + o
        if bias:
            value = value + bias[0][channel].cast(total)
        y[n, channel, rows.position, columns.position] = value.cast(y.dtype)


def _conv1d(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    x, w, *bias = (value for value in inputs if value is not None)
    images = [steps.reshape(value, lifted(steps.type_of(value)).shape) for value in (x, w)]
    found = steps.op("conv2d", *images, *bias, **lifted_settings(settings))
    kind = steps.type_of(found).shape
    return (steps.reshape(found, (*kind[:2], kind[3])),)


def _convolution_inputs(x: str, w: str) -> tuple[InputSpec, ...]:
    return (
        InputSpec(name="x", dtypes=_TYPES, doc=x),
        InputSpec(name="w", dtypes=_TYPES, doc=w),
        InputSpec(name="bias", dtypes=_BIASES, optional=True, doc="[O]; with acc of that type"),
    )


_GROUPS = SettingSpec(
    name="groups",
    type=SettingType.INT,
    default=1,
    aliases=("group",),
    doc="groups of channels that do not mix",
)
_WIDER = {"i8": "i32", "i16": "i32", "i32": "i64", "u8": "u32", "u16": "u32", "u32": "u64"}


def _examples(*shapes: tuple[int, ...], **settings: SettingValue) -> tuple[OpExample, ...]:
    """Return an example for floats, and one for each type of integers with a wider accumulator."""
    plain = OpExample(inputs=tuple(Operand(shape=shape) for shape in shapes), settings=settings, dtypes=FLOATS)
    more = tuple(
        OpExample(
            inputs=tuple(Operand(shape=s, dtype=wide if n == 2 else None) for n, s in enumerate(shapes)),
            settings={**settings, "acc": BY_NAME[wide]},
            dtypes=frozenset({narrow}),
        )
        for narrow, wide in _WIDER.items()
    )
    return (plain, *more)


CONV2D = OpSchema(
    name="conv2d",
    summary="sum of w over windows of x (padded with zeros) plus bias; cross-correlation, channels in groups",
    category=CATEGORY,
    inputs=_convolution_inputs("[N, C, H, W]", "[O, C/groups, h, w]"),
    dtypes=_TYPES,
    settings=(STRIDE, PADDING, DILATION, _GROUPS, ACC),
    infer=_conv_types("conv2d", 2),
    definition=Compute(_conv2d),
    in_place=True,
    onnx="Conv",
    examples=(
        *_examples((1, 3, 5, 7), (4, 3, 3, 3), (4,), padding=1),
        *_examples((2, 4, 7, 5), (6, 2, 2, 3), stride=(2, 1), padding=(1, 0, 0, 2), dilation=(1, 2), groups=2),
        *_examples((1, 3, 6, 6), (3, 1, 3, 3), padding="same_upper", stride=2, groups=3),
        *_examples((1, 2, 3, 3), (0, 2, 1, 1)),
    ),
)
CONV1D = OpSchema(
    name="conv1d",
    summary="sum of w over windows of x (padded with zeros) plus bias; cross-correlation, channels in groups",
    category=CATEGORY,
    inputs=_convolution_inputs("[N, C, L]", "[O, C/groups, l]"),
    dtypes=_TYPES,
    settings=(STRIDE, PADDING, DILATION, _GROUPS, ACC),
    infer=_conv_types("conv1d", 1),
    definition=Composite(_conv1d),
    in_place=True,
    onnx="Conv",
    examples=(
        *_examples((2, 3, 9), (4, 3, 3), (4,), padding=1),
        *_examples((1, 4, 11), (6, 2, 3), stride=2, padding=(2, 0), dilation=2, groups=2),
        *_examples((1, 2, 7), (2, 1, 4), padding="same_lower", groups=2),
    ),
)
CONV_TRANSPOSE2D = OpSchema(
    name="conv_transpose2d",
    summary="each element of x times w, added up at its window of the result, plus bias: the transpose of conv2d",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", dtypes=FLOATS, doc="[N, C, H, W]"),
        InputSpec(name="w", dtypes=FLOATS, doc="[C, O/groups, h, w]"),
        InputSpec(name="bias", dtypes=FLOATS, optional=True, doc="[O]"),
    ),
    dtypes=FLOATS,
    settings=(STRIDE, PADDING, DILATION, _GROUPS, OUTPUT_PADDING),
    infer=_conv_transpose2d_types,
    definition=Compute(_conv_transpose2d),
    in_place=True,
    onnx="ConvTranspose",
    examples=(
        OpExample(inputs=(Operand(shape=(1, 3, 4, 5)), Operand(shape=(3, 2, 3, 3)), Operand(shape=(2,)))),
        OpExample(
            inputs=(Operand(shape=(2, 4, 3, 3)), Operand(shape=(4, 3, 2, 3))),
            settings={"stride": (2, 3), "padding": (0, 1, 1, 0), "output_padding": (1, 0), "groups": 2},
        ),
        OpExample(
            inputs=(Operand(shape=(1, 1, 6, 4)), Operand(shape=(1, 2, 2, 2))),
            settings={"stride": 1, "dilation": 2, "padding": (3, 1)},
        ),
        OpExample(
            inputs=(Operand(shape=(1, 2, 3, 3)), Operand(shape=(2, 1, 4, 3))),
            settings={"stride": 2, "padding": "same_upper"},
        ),
        OpExample(
            inputs=(Operand(shape=(1, 2, 3, 3)), Operand(shape=(2, 1, 1, 1), dtype="f16")), settings={"stride": 2}
        ),
    ),
)
