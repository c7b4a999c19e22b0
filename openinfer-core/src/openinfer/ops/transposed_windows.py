"""Windows of a transposed convolution: the results to which each element of an image contributes (``specification:
operators.windows``)."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from openinfer.affine import Index, Within
from openinfer.dims import surely
from openinfer.ir.types import LARGEST_SIZE
from openinfer.ops.schema import OpTypeError, SettingSpec, SettingType
from openinfer.ops.shapes import integers, shown
from openinfer.ops.windows import given_paddings, per_dim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue

    Settings = Mapping[str, SettingValue]

OUTPUT_PADDING = SettingSpec(
    name="output_padding",
    type=SettingType.INT_OR_LIST,
    default=0,
    doc="places that the result has more at its end, one for all dims or one per dim",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposedWindow:
    """A window along one dim: element ``i`` adds with tap ``k`` to ``i * stride + k * dilation - before``."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    more: int

    @property
    def extent(self) -> int:
        """Places from the first tap to the last."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def whole(self) -> int:
        """Places that are added to, and those that the result has more, before anything is cut off."""
        return self.stride * (self.size - 1) + self.extent + self.more

    @property
    def positions(self) -> int:
        """Places of the result."""
        return self.whole - self.before - self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """Positions of the result along one dim, and the taps that add to each: all variables are of a builder.

    Attributes:
        position: where the result is stored.
        axis: the number of the tap among those that add to a position, which is summed over.
        tap: the tap; at and beyond the kernel there is none.
        element: the element of the image that the tap brings there.
        conditions: where a tap and its element meet the position at all.
    """

    position: Index
    axis: Var
    tap: Index
    element: Index
    conditions: tuple[Within, ...]


def phases(k: Builder, window: TransposedWindow) -> Iterator[Taps]:
    """Yield what is added up along a dim: no sum has terms for the zeros between the elements of the image.

    A position is ``stride u + r``. Tap ``i`` adds to it where ``r + before - i dilation`` is a multiple of the stride,
    so that its taps are those from some first one on, ``stride / gcd(stride, dilation)`` apart. Positions with the last
    remainders have one place less where the stride does not divide their number: they come separately.
    """
    # One element meets its taps with any stride, one tap its elements with any dilation.
    stride = 1 if surely(lambda: window.size <= 1) else window.stride
    dilation = 1 if surely(lambda: window.kernel <= 1) else window.dilation
    common = gcd(stride, dilation)
    apart, each = stride // common, dilation // common
    whole, rest = divmod(window.positions, stride)
    for first, last, count in ((0, rest, whole + 1), (rest, stride, whole)):
        remainders = last - first
        if any(surely(lambda extent=extent: extent == 0) for extent in (remainders, count)):
            continue
        u = k.axis(count)
        r = Index() if surely(lambda extent=remainders: extent == 1) else Index.of(k.axis(remainders))
        met = r + first + window.before
        axis = k.axis(-(-window.kernel // apart))
        start = met // common * pow(each, -1, apart) % apart
        tap = start + axis * apart
        back = -(-(apart - 1) * dilation // stride)
        element = u + (met - start * dilation + back * stride) // stride - back - axis * each
        meets = Within(met % common, Index.of(1))
        yield Taps(
            position=u * stride + r + first,
            axis=axis,
            tap=tap,
            element=element,
            conditions=(meets, Within(tap, Index.of(window.kernel))),
        )


def transposed_windows(image: Sequence[int], kernel: Sequence[int], settings: Settings) -> tuple[TransposedWindow, ...]:
    """Return the windows of a transposed convolution, one per spatial dim.

    Raises:
        OpTypeError: a setting has another length than there are dims or an illegal value, or nothing is left.
    """
    rank = len(image)
    strides, dilations = per_dim(settings, "stride", rank), per_dim(settings, "dilation", rank)
    more = _output_paddings(settings, strides, dilations)
    found: list[TransposedWindow] = []
    for axis, (size, taps) in enumerate(zip(image, kernel, strict=True)):
        window = TransposedWindow(
            size=size,
            kernel=taps,
            stride=strides[axis],
            dilation=dilations[axis],
            before=0,
            after=0,
            more=more[axis],
        )
        found.append(_padded(window, settings, axis, rank))
    return tuple(found)


def _padded(window: TransposedWindow, settings: Settings, axis: int, rank: int) -> TransposedWindow:
    if window.whole > LARGEST_SIZE:
        message = (
            f"{window.size} elements and {window.kernel} taps add to {window.whole} places, more than {LARGEST_SIZE}"
        )
        raise OpTypeError(message, code="too-large")
    before, after = _sides(window, settings, axis, rank)
    if window.size < 1 or window.kernel < 1 or window.whole - before - after < 1:
        raise OpTypeError(
            f"{window.size} elements and {window.kernel} taps add to {window.whole} places; "
            f"padding {before} and {after} leaves none",
            settings=("padding",),
        )
    return TransposedWindow(
        size=window.size,
        kernel=window.kernel,
        stride=window.stride,
        dilation=window.dilation,
        before=before,
        after=after,
        more=window.more,
    )


def _sides(window: TransposedWindow, settings: Settings, axis: int, rank: int) -> tuple[int, int]:
    """Return what is cut off; a name makes the result ``stride`` times as large as the image."""
    name = settings.get("padding", 0)
    if not isinstance(name, str):
        return given_paddings(settings, rank)[axis]
    if name == "valid":
        return 0, 0
    total = window.whole - window.stride * window.size
    if name not in ("same_upper", "same_lower") or total < 0:
        raise OpTypeError(
            f"setting 'padding' is {name!r} for {window.kernel} taps and stride {window.stride}; "
            "the names are 'valid', and where taps reach over the stride 'same_upper' and 'same_lower'",
            code="setting-type",
            settings=("padding",),
        )
    lesser = total // 2
    return (lesser, total - lesser) if name == "same_upper" else (total - lesser, lesser)


def _output_paddings(settings: Settings, strides: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    values = integers(settings.get("output_padding", 0), "output_padding")
    if len(values) == 1:
        values *= len(strides)
    limits = [max(pair) for pair in zip(strides, dilations, strict=True)]
    if len(values) != len(strides) or any(not 0 <= v < limit for v, limit in zip(values, limits, strict=True)):
        raise OpTypeError(
            f"setting 'output_padding' is {shown(values)}, expected 0 to {shown([limit - 1 for limit in limits])}: "
            "less than stride or dilation",
            code="setting-type",
            settings=("output_padding",),
        )
    return values
