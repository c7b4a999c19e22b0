"""Sliding windows over the spatial dimensions of convolutions and pools (``ops.md``, section 5.6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    BoundCall: TypeAlias = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Where windows lie; one entry per spatial dimension in every tuple.

    Attributes:
        size, output: extents of the input and of the output.
        kernel: extent of a window, in taps.
        stride, dilation: steps between windows and between taps.
        before, after: padding that was asked for, in elements.
    """

    size: tuple[int, ...]
    output: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def padded(self) -> tuple[int, ...]:
        """Extents that hold the padded input and every tap of every window."""
        spans = zip(self.output, self.stride, self.dilation, self.kernel, strict=True)
        reach = [(out - 1) * step + gap * (taps - 1) + 1 for out, step, gap, taps in spans]
        sides = zip(self.size, self.before, self.after, reach, strict=True)
        return tuple(max(size + before + after, needed) for size, before, after, needed in sides)

    @property
    def pads(self) -> bool:
        """Whether some tap may lie outside the input."""
        return self.padded != self.size

    def interior(self) -> tuple[slice, ...]:
        """Return the place of the input in the padded extents."""
        return tuple(slice(before, before + size) for before, size in zip(self.before, self.size, strict=True))

    def taps(self) -> Iterator[tuple[slice, ...]]:
        """Yield, for each tap in row-major order, the slices of the padded extents that it sees."""
        for tap in product(*(range(extent) for extent in self.kernel)):
            places = zip(tap, self.dilation, self.stride, self.output, strict=True)
            yield tuple(slice(t * gap, t * gap + (out - 1) * step + 1, step) for t, gap, step, out in places)


def windows(
    settings: Mapping[str, Any], size: tuple[int, ...], kernel: tuple[int, ...] | None, output: tuple[int, ...]
) -> Windows:
    """Return the windows of a call; ``kernel`` None reads the setting of that name."""
    rank = len(size)
    extents = kernel if kernel is not None else _per_dimension(settings["kernel"], rank)
    stride = _per_dimension(settings.get("stride", 1), rank)
    dilation = _per_dimension(settings.get("dilation", 1), rank)
    spans = zip(output, stride, dilation, extents, size, strict=True)
    missing = tuple(max((out - 1) * step + gap * (taps - 1) + 1 - own, 0) for out, step, gap, taps, own in spans)
    before, after = _padding(settings.get("padding", 0), missing)
    return Windows(
        size=size, output=output, kernel=extents, stride=stride, dilation=dilation, before=before, after=after
    )


def _per_dimension(value: Any, rank: int) -> tuple[int, ...]:
    return (int(value),) * rank if isinstance(value, int) else tuple(cast("tuple[int, ...]", value))


def _padding(value: Any, missing: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = len(missing)
    none = (0,) * rank
    if value is None or value == "valid":
        return none, none
    small, large = tuple(m // 2 for m in missing), tuple(m - m // 2 for m in missing)
    if value == "same_upper":
        return small, large
    if value == "same_lower":
        return large, small
    if isinstance(value, int) or len(value) <= rank:
        both = _per_dimension(value, rank)
        return both, both
    return tuple(value[:rank]), tuple(value[rank:])


def padded_input(x: Array, where: Windows, dtype: np.dtype[Any], border: Any) -> tuple[Array, list[BoundCall]]:
    """Return x [N, C, ...] in type ``dtype`` with a border around it, and the calls that bring it there."""
    if not where.pads and x.dtype == dtype:
        return x, []
    scratch = np.full((*x.shape[:2], *where.padded), border, dtype)
    inside = scratch[(slice(None), slice(None), *where.interior())]
    return scratch, [partial(np.copyto, inside, x, casting="unsafe")]
