"""Windows that slide along a dim, placed one after the other: where they are, and so how many there are.

Nothing is computed here by a formula that a schema or kernel has too: windows are put down until one may not be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """The windows along one dim.

    Attributes:
        size: elements of the image.
        after: padding after them.
        starts: where each window begins; below 0 is padding.
        taps: distances of the elements of a window from its beginning; none where the window is empty.
    """

    size: int
    after: int
    starts: tuple[int, ...]
    taps: tuple[int, ...]

    def reads(self, position: int) -> list[tuple[int, int]]:
        """Return the numbers of taps that meet the image at a position, each with the place that it reads."""
        places = [(number, self.starts[position] + tap) for number, tap in enumerate(self.taps)]
        return [(number, place) for number, place in places if 0 <= place < self.size]

    def covers(self, position: int) -> int:
        """Return the number of taps that meet the image or its padding."""
        return sum(self.starts[position] + tap < self.size + self.after for tap in self.taps)


def per_dim(value: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return a setting for each dim."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * rank if len(given) == 1 else given


def slides(settings: Settings, image: Sequence[int], kernel: Sequence[int]) -> list[Slide]:
    """Return the windows of a convolution or pooling, for each spatial dim."""
    rank = len(image)
    steps = per_dim(settings["stride"], rank), per_dim(settings.get("dilation", 1), rank)
    ceiled = bool(settings.get("ceil_mode"))
    found: list[Slide] = []
    for axis, (size, count, stride, dilation) in enumerate(zip(image, kernel, *steps, strict=True)):
        taps = tuple(number * dilation for number in range(count))
        # An empty window ends as far in front of its beginning as the rule of sizes says.
        end = (count - 1) * dilation + 1
        named = _same(settings["padding"], size, stride, end)
        before, after = margins(settings["padding"], rank, axis) if named is None else named
        starts = _starts(size, before, after, stride, end, ceiled=ceiled)
        found.append(Slide(size=size, after=after, starts=starts, taps=taps))
    return found


def margins(padding: Any, rank: int, axis: int) -> tuple[int, int]:
    """Return the padding before and after a dim: given in numbers, or none."""
    if isinstance(padding, str):
        return 0, 0
    given = per_dim(padding, rank)
    return given[:rank][axis], given[-rank:][axis]


def halved(total: int, name: str) -> tuple[int, int]:
    """Return padding in two parts; the odd one is at the end for "same_upper", at the start for "same_lower"."""
    less, more = total // 2, total - total // 2
    return (less, more) if name == "same_upper" else (more, less)


def _same(padding: Any, size: int, stride: int, end: int) -> tuple[int, int] | None:
    """Return the padding of a name that asks for a window at every ``stride``-th element; None for other padding."""
    if padding not in ("same_upper", "same_lower"):
        return None
    last = max(range(0, size, stride), default=0)
    return halved(max(last + end - size, 0), padding)


def _starts(size: int, before: int, after: int, stride: int, end: int, *, ceiled: bool) -> tuple[int, ...]:
    """Return where windows begin, which end at a distance: as long as they end inside image and padding.

    With ``ceiled``, one more reads on where the last of these ended; the last of all is left out if it begins after
    the image.
    """
    found = list[int]()
    start = -before
    while start + end <= size + after:
        found.append(start)
        start += stride
    if ceiled and found:
        if found[-1] + end < size + after:
            found.append(start)
        if found[-1] >= size:
            found.pop()
    return tuple(found)
