"""Sliding windows over an image: strides, padding, number of positions (``specification: operators.windows``).

Backends use `windows` too, so that an operator's shape rule and its kernels cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.dims import surely
from openinfer.ir.types import LARGEST_SIZE
from openinfer.ops.schema import OpTypeError, SettingSpec, SettingType
from openinfer.ops.shapes import integers, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.ir.resolved import SettingValue

    Settings = Mapping[str, SettingValue]

STRIDE = SettingSpec(
    name="stride",
    type=SettingType.INT_OR_LIST,
    default=1,
    aliases=("strides",),
    doc="steps of the window, one for all dims or one per dim",
)
PADDING = SettingSpec(
    name="padding",
    type=SettingType.PADDING,
    default=0,
    aliases=("pads",),
    doc='zeros around the image: one for all sides, one per dim, all begins then all ends, or "valid", "same_upper", '
    '"same_lower"',
)
DILATION = SettingSpec(
    name="dilation",
    type=SettingType.INT_OR_LIST,
    default=1,
    aliases=("dilations",),
    doc="distance between the elements of the window, one for all dims or one per dim",
)
KERNEL = SettingSpec(
    name="kernel", type=SettingType.INT_OR_LIST, doc="size of the window, one for all dims or one per dim"
)
CEIL_MODE = SettingSpec(
    name="ceil_mode",
    type=SettingType.BOOL,
    default=False,
    doc="whether a window that leaves the image at its end counts, as long as it begins inside image and padding",
)
_NAMED_PADDING = ("valid", "same_upper", "same_lower")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window along one dim: position ``o``, element ``k`` reads ``o * stride + k * dilation - before``.

    Reads outside ``0 <= place < size`` are of the padding.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    positions: int

    @property
    def always_reads(self) -> bool:
        """Whether every position reads at least one element of the image."""
        if surely(lambda: self.positions == 0):
            return True
        if not self.kernel or (self.positions - 1) * self.stride - self.before >= self.size:
            return False
        # Positions in front of the image reach it by their first element that is not in front of it.
        if -(-self.before // self.dilation) >= self.kernel:
            return False
        if self.dilation == 1 or self.dilation <= self.size:
            return self.dilation <= self.size
        in_front = min(self.positions, -(-self.before // self.stride))
        different = min(in_front, self.dilation // gcd(self.stride, self.dilation))
        if different > self.size:
            return False
        return all((p * self.stride - self.before) % self.dilation < self.size for p in range(different))

    @property
    def reading(self) -> range:
        """The elements of the window that read the image at one position or more; all if there is no position."""
        if surely(lambda: self.positions == 0):
            return dims.range(self.kernel)
        last = (self.positions - 1) * self.stride
        first = dims.max(0, -((last - self.before) // self.dilation))
        end = dims.min(self.kernel, (self.size - 1 + self.before) // self.dilation + 1)
        return dims.range(first, dims.max(first, end))

    def place(self, position: Index | Var, tap: Index | Var) -> Index:
        """Return the place of the image that an element of the window reads at a position, as an index."""
        return position * self.stride + tap * self.dilation - self.before

    def places(self, position: int) -> range:
        """Return the places of the image that a position reads, also those outside it."""
        start = position * self.stride - self.before
        return range(start, start + self.kernel * self.dilation, self.dilation)


def windows(image: Sequence[int], kernel: Sequence[int], settings: Settings) -> tuple[Window, ...]:
    """Return the windows of a convolution or pooling, one per spatial dim.

    Raises:
        OpTypeError: a setting has another length than there are dims or an illegal value, or no window fits.
    """
    rank = len(image)
    strides, dilations = per_dim(settings, "stride", rank), per_dim(settings, "dilation", rank)
    paddings = _paddings(image, kernel, strides, dilations, settings)
    ceil_mode = bool(settings.get("ceil_mode"))
    return tuple(
        _window(*dim, *sides, ceil_mode=ceil_mode)
        for dim, sides in zip(zip(image, kernel, strides, dilations, strict=True), paddings, strict=True)
    )


def per_dim(settings: Settings, name: str, rank: int, default: int = 1) -> tuple[int, ...]:
    """Return a setting with one positive integer per spatial dim; a single one stands for all.

    Raises:
        OpTypeError: ``setting-type``.
    """
    values = integers(settings.get(name, default), name)
    if len(values) == 1:
        values *= rank
    if len(values) != rank or min(values) < 1:
        raise OpTypeError(
            f"setting {name!r} takes one positive integer or {rank}, found {shown(values)}",
            code="setting-type",
            settings=(name,),
        )
    return values


def _window(size: int, kernel: int, stride: int, dilation: int, before: int, after: int, *, ceil_mode: bool) -> Window:
    extent = dilation * (kernel - 1) + 1
    room = size + before + after - extent
    if room < 0:
        raise OpTypeError(
            f"a window of {extent} does not fit into {size} with padding {before} and {after}",
            settings=("kernel", "dilation", "padding"),
        )
    if size + before + after > LARGEST_SIZE:
        message = f"{size} with padding {before} and {after} is more than the {LARGEST_SIZE} places that a dim may have"
        raise OpTypeError(message, code="too-large", settings=("padding",))
    positions = room // stride + 1
    if ceil_mode:
        positions = _ceiled(room, size + before, stride, is_short=surely(lambda: after <= extent))
    return Window(
        size=size,
        kernel=kernel,
        # What is stepped over once has a step of any size: one that an address cannot hold would go on to kernels.
        stride=1 if surely(lambda: positions <= 1) else stride,
        dilation=1 if surely(lambda: kernel <= 1) else dilation,
        before=before,
        after=after,
        positions=positions,
    )


def _ceiled(room: int, end: int, stride: int, *, is_short: bool) -> int:
    """Return how many windows there are up to the first that reaches the end, less one that begins at ``end`` or later.

    With ``is_short``, padding after the image of at most one window, all of them but that one begin before ``end``.
    """
    positions = -(-room // stride) + 1
    beginning = dims.min(positions, -(-end // stride))
    return beginning if is_short else dims.max(positions - 1, beginning)


def _paddings(
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    settings: Settings,
) -> list[tuple[int, int]]:
    padding = settings.get("padding", 0)
    if isinstance(padding, str):
        return [_named_padding(padding, *dim) for dim in zip(image, kernel, strides, dilations, strict=True)]
    return given_paddings(settings, len(image))


def given_paddings(settings: Settings, rank: int) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial dim that is given in numbers.

    Raises:
        OpTypeError: ``setting-type``.
    """
    values = integers(settings.get("padding", 0), "padding")
    if min(values, default=0) < 0 or len(values) not in (1, rank, 2 * rank):
        raise OpTypeError(
            f"setting 'padding' takes 1, {rank} or {2 * rank} integers of at least 0, found {shown(values)}",
            code="setting-type",
            settings=("padding",),
        )
    sides = values * 2 * rank if len(values) == 1 else values * 2 if len(values) == rank else values
    return list(zip(sides[:rank], sides[rank:], strict=True))


def _named_padding(name: str, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    if name not in _NAMED_PADDING:
        known = ", ".join(map(repr, _NAMED_PADDING))
        raise OpTypeError(
            f"setting 'padding' is {name!r}; the names are {known}", code="setting-type", settings=("padding",)
        )
    if name == "valid":
        return 0, 0
    positions = -(-size // stride)
    total = dims.max((positions - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    lesser = total // 2
    return (lesser, total - lesser) if name == "same_upper" else (total - lesser, lesser)
