"""Executor caches, and the variables that alias their memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import ShapeError
from openinfer.ir.resolved import Filled
from openinfer.ir.types import TensorType
from openinfer.packing import pack, unpack
from openinfer.scalars import converted
from openinfer.simulate.state.cache import Cache, overlaps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.ir.resolved import ResolvedVar
    from openinfer.model import Model
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer.simulate.state.cache import Slot
    from openinfer.simulate.state.entries import Index, Region
    from openinfer.simulate.state.varying import Varying

    Array: TypeAlias = npt.NDArray[Any]


class SharedCache:
    """A cache between buffers: reads without copies where the device can, writes that disturb no reader."""

    def __init__(self, cache: Cache, backend: DeviceBackend) -> None:
        self.cache = cache
        self._backend = backend
        self._is_packed = cache.dtype.is_packed
        self._shown: dict[Varying, Region] = {}

    def show(self, slots: Sequence[Slot], target: Varying) -> None:
        """Give a variable the entries that an access reads, with their shape.

        Raises:
            CacheIndexError, CacheLimitError: nothing can be there.
        """
        array, region = self.cache.read(slots)
        kind = TensorType(self.cache.kind.dtype, array.shape)
        target.hold(self._backend.upload(kind, self._stored(array)), partial(self._shown.pop, target, None))
        self._shown[target] = region

    def read(self, slots: Sequence[Slot], target: Buffer) -> None:
        """Copy what an access reads to a buffer.

        Raises:
            CacheIndexError, CacheLimitError: nothing can be there.
            ShapeError: it has another shape.
        """
        array = self.cache.read(slots).array
        if array.shape != target.type.shape:
            entry_type = TensorType(self.cache.dtype, array.shape)
            raise ShapeError(f"`{self.cache.name}` yields {entry_type} here, the target is {target.type}")
        self._backend.write(target, self._stored(array))

    def write(self, slots: Sequence[Slot], source: Buffer) -> None:
        """Store the content of a buffer.

        Raises:
            CacheIndexError, CacheLimitError: nothing can be there.
            ShapeError: the value has another shape than the entry.
        """
        array = self._backend.read(source)
        if self._is_packed:
            array = unpack(array.view(np.uint8), source.type.dtype, source.type.shape)
        if self._shown:
            for target in [target for target, region in self._shown.items() if overlaps(region, slots)]:
                target.detach()
        self.cache.write(slots, array)

    def reset(self, slots: Sequence[Slot] = ()) -> None:
        """Remove entries, all of them without indices.

        Raises:
            CacheIndexError, CacheLimitError: nothing can be there.
        """
        self._detach_all()
        self.cache.reset(slots)

    def load(self, counts: Sequence[int], contents: Array | Mapping[Index, Array]) -> None:
        """Replace everything by what `Cache.check` has accepted."""
        self._detach_all()
        self.cache.load(counts, contents)

    def _detach_all(self) -> None:
        for target in list(self._shown):
            target.detach()

    def fetch(self, slots: Sequence[Slot]) -> tuple[TensorType, Array]:
        """Return a copy of what an access reads, in storage form; nothing is created and nothing grows."""
        array = np.array(self.cache.read(slots, grows=False).array, order="C", copy=True)
        return TensorType(self.cache.dtype, array.shape), self._stored(array)

    def _stored(self, array: Array) -> Array:
        """Return elements in storage form: in C order, packed types packed."""
        if self._is_packed:
            return pack(array, self.cache.dtype)
        return array if array.flags.c_contiguous else np.array(array, order="C")


def make_cache(variable: ResolvedVar, model: Model) -> Cache:
    """Return the cache of a variable in its initial state."""
    if variable.decl is None:
        raise TypeError(f"`{variable.name}` is a temporary")
    dtype = variable.type.dtype
    initial = variable.initial
    value = initial.value if isinstance(initial, Filled) else -1 if dtype.name == "t1" else 0
    fill = np.array(converted(dtype, value)).astype(storage_dtype(dtype))
    pristine = None if initial is None or isinstance(initial, Filled) else model.load_tensor(initial.name)
    return Cache(variable.decl, variable.type, fill, pristine)
