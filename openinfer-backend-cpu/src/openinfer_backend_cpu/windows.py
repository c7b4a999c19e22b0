"""Sliding windows over the spatial dimensions of convolutions and pools (``specification: operators.windows``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer.ops.windows import Window
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

MOST_PADDED, MOST_TIMES = 1 << 24, 8
"""Elements that a padded image may have in any event, and how many times those of the image and the result together.
Padding of any size is legal, and most of it is between the taps of every window where it is larger."""


def is_held(call: OpCall, extents: Sequence[int]) -> bool:
    """Whether a kernel may store the image of a call, padded to these spatial extents."""
    image, made = call.inputs[0], call.outputs[0]
    if image is None:
        return False
    held = math.prod((*made.shape[:1], max(image.shape[1], made.shape[1]), *extents))
    return held <= max(MOST_PADDED, MOST_TIMES * (image.count + made.count))


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a call, one entry per spatial dimension."""

    dims: tuple[Window, ...]

    @property
    def kernel(self) -> tuple[int, ...]:
        """Extent of a window, in taps."""
        return tuple(dim.kernel for dim in self.dims)

    @property
    def output(self) -> tuple[int, ...]:
        """Number of positions."""
        return tuple(dim.positions for dim in self.dims)

    @property
    def padded(self) -> tuple[int, ...]:
        """Extents that hold the padded input and every tap of every window."""
        return tuple(max(dim.size + dim.before + dim.after, _reach(dim)) for dim in self.dims)

    @property
    def pads(self) -> bool:
        """Whether there is anything around the input."""
        return self.padded != tuple(dim.size for dim in self.dims)

    def interior(self) -> tuple[slice, ...]:
        """Return the place of the input in the padded extents."""
        return tuple(slice(dim.before, dim.before + dim.size) for dim in self.dims)

    def taps(self) -> Iterator[tuple[slice, ...]]:
        """Yield, for each tap in row-major order, the slices of the padded extents that it sees."""
        for tap in product(*(range(dim.kernel) for dim in self.dims)):
            yield tuple(_seen(dim, t * dim.dilation) for dim, t in zip(self.dims, tap, strict=True))


def _reach(dim: Window) -> int:
    return (dim.positions - 1) * dim.stride + dim.dilation * (dim.kernel - 1) + 1


def _seen(dim: Window, first: int) -> slice:
    return slice(first, first + (dim.positions - 1) * dim.stride + 1, dim.stride)


def padded_input(
    x: Array, where: Windows, dtype: np.dtype[Any], border: Any, workspace: Workspace
) -> tuple[Array, list[BoundCall]]:
    """Return x [N, C, ...] in type ``dtype`` with a border around it, and the calls that bring it there."""
    if not where.pads and x.dtype == dtype:
        return x, []
    scratch = workspace.take((*x.shape[:2], *where.padded), dtype)
    inside = scratch[(slice(None), slice(None), *where.interior())]
    copy = partial(np.copyto, inside, x, casting="unsafe")
    return scratch, [*(partial(edge.fill, border) for edge in _edges(scratch, where)), copy]


def _edges(padded: Array, where: Windows) -> Iterator[Array]:
    """Yield the parts of the padded extents that are not of the input; corners come up twice."""
    for axis, dim in enumerate(where.dims, 2):
        for part in (slice(0, dim.before), slice(dim.before + dim.size, None)):
            edge = padded[(*(slice(None) for _ in range(axis)), part)]
            if edge.size:
                yield edge
