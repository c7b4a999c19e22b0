"""What a model file holds, and what a model format yields of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from openinfer.dtypes import DType

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class VarInfo:
    """A tensor of a model, without its payload. ``offset`` counts bytes from the start of the file, None in memory.

    ``quantised`` says that the model states which reals its integers stand for (`Model.quantisation`).
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    has_data: bool
    offset: int | None
    nbytes: int
    quantised: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantisation:
    """Which reals the integers of a tensor stand for: real = scale * (stored - zero point).

    Attributes:
        axis: dim that scales and zero points go along; None: there is one of each for the tensor.
        scale: f32, of rank 0 or one per index of the axis.
        zero_point: i32, in the shape of ``scale``; None for 0.
    """

    axis: int | None
    scale: Array
    zero_point: Array | None = None


@dataclass(frozen=True, slots=True)
class MetadataValue:
    """A metadata entry: ``dtype`` is the name of an element type or ``"str"``; an array holds elements of it."""

    dtype: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelContents:
    """What goes into a model file: named sizes, metadata strings, and tensors with element type, shape and stored form
    (packed types: their packed bytes), or a function that returns the stored form when it is written.

    Attributes:
        checksums: whether the file is to have a checksum of each tensor, where the format has them.
    """

    sizevars: Mapping[str, int]
    metadata: Mapping[str, str]
    tensors: Mapping[str, tuple[DType, tuple[int, ...], Array | Callable[[], Array]]]
    checksums: bool = False


class ModelStore(Protocol):
    """What a model format yields; its ``open`` function raises `ModelError` for a file that it cannot read."""

    @property
    def sizevars(self) -> Mapping[str, int]: ...
    @property
    def metadata(self) -> Mapping[str, MetadataValue]: ...
    @property
    def tensors(self) -> Mapping[str, VarInfo]: ...

    def values(self, name: str) -> Array:
        """Return a tensor read-only: packed types unpacked to int8 or uint8, bf16 and f8 as ml_dtypes."""
        ...

    def stored(self, name: str) -> Array:
        """Return the stored bytes of a tensor as a read-only uint8 view."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class QuantisedStore(Protocol):
    """A `ModelStore` some of whose tensors are quantised (`VarInfo.quantised`)."""

    def quantisation(self, name: str) -> Quantisation:
        """Return what the integers of a quantised tensor stand for."""
        ...
