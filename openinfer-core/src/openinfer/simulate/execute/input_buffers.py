"""Arrays that the host fills for inputs, and hands over with an insertion (``specification: runtime.host.18``)."""

from __future__ import annotations

import weakref
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import DeviceError, ShapeError
from openinfer.ir.types import TensorType
from openinfer.simulate.devices.backend import LendingBackend

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from openinfer.ir.resolved import ResolvedVar
    from openinfer.simulate.devices.backend import DeviceBackend

    Array: TypeAlias = npt.NDArray[Any]


class InputBuffers:
    """The arrays of one executor that the host has and may not have inserted yet."""

    def __init__(self, backend: DeviceBackend) -> None:
        self._backend = backend
        self._known: dict[int, weakref.ref[Array]] = {}

    def array(self, name: str, kind: TensorType) -> Array:
        """Return an array for a value of an input, with undefined elements: the device's, where it has memory for that.

        Raises:
            DeviceError: the device is closed; ``too-large``, there is no memory for it.
        """
        if isinstance(self._backend, LendingBackend) and not kind.dtype.is_packed:
            array = self._backend.lend(kind)
        else:
            # Packed elements are packed on insertion: the host has each in a byte of its own.
            array = _allocated(name, kind)
        number, arrays = id(array), self._known
        arrays[number] = weakref.ref(array, lambda _: arrays.pop(number, None))
        return array

    def hand_over(self, values: Iterable[object]) -> None:
        """Make the arrays among inserted values read-only: the device may still be reading them."""
        if not self._known:
            return
        for value in values:
            reference = self._known.get(id(value))
            array = None if reference is None else reference()
            if array is not None and array is value:
                array.flags.writeable = False


def _allocated(name: str, kind: TensorType) -> Array:
    try:
        return np.empty(kind.shape, storage_dtype(kind.dtype))
    except (MemoryError, ValueError) as error:  # NumPy's ValueError: more bytes than an address can count.
        message = f"an input buffer of `{name}`, {kind}, is more than this machine holds: {error}"
        raise DeviceError(message, code="too-large") from error


def shaped(variable: ResolvedVar, kind: TensorType, shape: Sequence[int] | None, free: frozenset[int]) -> TensorType:
    """Return the type of an input with the shape that one step is to have.

    Args:
        variable: the input.
        kind: its type with the usual sizes.
        shape: None: the usual one.
        free: axes whose extents steps give.

    Raises:
        ShapeError: ``insert-mismatch``, the rank differs, or the extent of an axis that is not free, or it is not a
            sequence of integers.
    """
    if shape is None:
        return kind
    try:
        wanted = tuple(index(extent) for extent in shape)
    except TypeError:
        message = f"an input buffer of `{variable.name}` has a shape of integers such as {list(kind.shape)}"
        raise ShapeError(f"{message}, found {type(shape).__name__}: {shape!r:.60}", code="insert-mismatch") from None
    fits = len(wanted) == len(kind.shape) and all(
        extent >= 0 and (axis in free or extent == declared)
        for axis, (extent, declared) in enumerate(zip(wanted, kind.shape, strict=False))
    )
    if not fits:
        message = f"`{variable.name}` is declared {kind}, an input buffer of shape {list(wanted)} was requested"
        raise ShapeError(message, code="insert-mismatch")
    return TensorType(kind.dtype, wanted)
