"""Images of TFLite have their channels last, those of OpenInfer's convolutions first.

A value that is made from channels-first planes remembers them, so that layers one after the other, and what works on
single elements between them, need no transposition. Calls that nobody reads are dropped later.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from openinfer.importers.onnx_files.emitter import Emitter

CHANNELS_FIRST = (0, 3, 1, 2)

CHANNELS_LAST = (0, 2, 3, 1)


class ImageOrder:
    """Values with channels last, and the same with channels first."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        # Values are kept too, so that their identities stay their own.
        self._planes: dict[int, tuple[Value, Value]] = {}

    @contextmanager
    def inner(self) -> Generator[None]:
        """Forget what is made inside of ``with``: values of a branch or a loop are not there outside of it."""
        outer, self._planes = self._planes, dict(self._planes)
        try:
            yield
        finally:
            self._planes = outer

    def has_planes(self, image: Value) -> bool:
        """Whether an image is there with channels first."""
        return id(image) in self._planes

    def planes(self, image: Value) -> Value:
        """Return an image with channels first."""
        held = self._planes.get(id(image))
        if held is None:
            held = self._planes[id(image)] = image, permuted(self._emit, image, CHANNELS_FIRST)
        return held[1]

    def aligned(self, value: Value) -> Value | None:
        """Return a value as it broadcasts against images with channels first; None where it is none."""
        if value.rank == 4:
            return self.planes(value)
        if value.rank == 0 or value.dims == (1,):
            return value
        if value.rank == 1:
            return self._emit.op("reshape", value, shape=(*value.dims, 1, 1))
        return None

    def name(self, image: Value, name: str) -> None:
        """Name an image, and its planes after it."""
        image.name = name
        if self.has_planes(image) and not self.planes(image).name:
            # The ending sets the two apart in reports; programs leave it out.
            self.planes(image).name = f"{name}_output_0"

    def image(self, planes: Value) -> Value:
        """Return planes as an image with channels last."""
        made = permuted(self._emit, planes, CHANNELS_LAST)
        self._planes[id(made)] = made, planes
        return made


def permuted(emit: Emitter, value: Value, order: Sequence[int]) -> Value:
    """Return a value with its dims in another order: known numbers are moved at import, dims of 1 by a reshape."""
    if list(order) == sorted(order):
        return value
    if value.payload is not None:
        payload = value.payload
        shape = tuple(payload.shape[axis] for axis in order)
        moved = Payload(payload.dtype, shape, lambda: np.ascontiguousarray(payload.load().transpose(order)))
        return Value(value.name, value.dtype, shape, moved)
    kept = [axis for axis in order if not (is_number(value.dims[axis]) and value.dims[axis] == 1)]
    if kept == sorted(kept):
        return emit.op("reshape", value, shape=tuple(value.dims[axis] for axis in order))
    return emit.op("transpose", value, perm=tuple(order))
