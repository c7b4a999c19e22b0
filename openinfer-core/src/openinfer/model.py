"""Models: named sizes, metadata and tensors, loaded when asked for (runtime specification, section 1)."""

from __future__ import annotations

import math
import operator
import threading
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from openinfer import symbolic
from openinfer.array_types import dtype_of_array, storage_dtype
from openinfer.diagnostics import did_you_mean
from openinfer.dtypes import BOOL, BY_NAME, F32, I64, DType
from openinfer.errors import ModelError
from openinfer.packing import pack
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import load_object

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.plugins.types import ModelFormatSpec

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class VarInfo:
    """A tensor of a model, without its payload. ``offset`` counts bytes from the start of the file, None in memory.

    ``quantised`` says that the model tells which reals its integers stand for (`Model.quantisation`).
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
    (packed types: their packed bytes)."""

    sizevars: Mapping[str, int]
    metadata: Mapping[str, str]
    tensors: Mapping[str, tuple[DType, tuple[int, ...], Array]]


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


class Model:
    """A model. Reading is lazy and may be done from several threads; results are read-only arrays.

    Of a quantised tensor ``W`` there are further tensors, made when they are asked for: ``W@scale`` and
    ``W@zero_point`` (where it has zero points), and its reals in any float type, such as ``W@f32``.

    Attributes:
        sizevars: named sizes.
        metadata: configuration values (scalars, strings, arrays).
        tensors: information on every tensor; no payload is read.
        path: file that the model was opened from; None where it was not.
    """

    def __init__(self, store: ModelStore, name: str = "<memory>", *, path: Path | None = None) -> None:
        self._store = store
        self.path = path
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, bool], Array] = {}
        self.name = name
        self.sizevars: Mapping[str, int] = MappingProxyType(dict(store.sizevars))
        self.tensors: Mapping[str, VarInfo] = store.tensors
        self.typed_metadata: Mapping[str, MetadataValue] = store.metadata

    @staticmethod
    def from_arrays(
        arrays: Mapping[str, Any] | None = None,
        *,
        sizevars: Mapping[str, int] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Model:
        """Return a model held in memory.

        Args:
            arrays: tensors; anything `numpy.asarray` takes, with an element type of OpenInfer.
            sizevars: named sizes.
            metadata: bools, integers, floats (held as f32), strings, or arrays.

        Raises:
            ModelError: an array has an element type that OpenInfer does not have.
        """
        return Model(_ArrayStore(arrays or {}, sizevars or {}, metadata or {}))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Values of the metadata, by name."""
        return {name: item.value for name, item in self.typed_metadata.items()}

    def size_of(self, name: str) -> int:
        """Return a named size.

        Raises:
            ModelError: ``unknown-sizevar``.
        """
        if name not in self.sizevars:
            raise _unknown("size variable", "sizevars", name, self.sizevars, self.name)
        return self.sizevars[name]

    def resolve_dim_value(self, dim: str) -> int:
        """Return the value of a dimension text such as ``"3*D"``.

        Raises:
            ModelError: the text is no dimension, names an unknown size, or is negative.
        """
        try:
            value = symbolic.evaluate(symbolic.parse(dim), self.size_of)
        except symbolic.SymbolicSyntaxError as error:
            raise ModelError(f"bad dimension {dim!r}: {error}", code="bad-dim") from error
        if value < 0:
            raise ModelError(f"dimension {dim!r} is {value}: it must not be negative", code="bad-dim")
        return value

    def resolve_shape(self, dims: Sequence[str]) -> tuple[int, ...]:
        """Return the values of dimension texts."""
        return tuple(self.resolve_dim_value(dim) for dim in dims)

    def resolve_len(self, dims: Sequence[str]) -> int:
        """Return the number of elements of dimension texts."""
        count = 1
        for extent in self.resolve_shape(dims):
            count *= extent
        return count

    def var_info(self, name: str) -> VarInfo | None:
        """Return what is known of a tensor without reading it, or None."""
        found = self.tensors.get(name)
        return self._part_info(name) if found is None and "@" in name else found

    def linked(self, name: str, dtype: DType) -> VarInfo | None:
        """Return the tensor that a variable of some type is linked to: of a quantised one its reals for a float."""
        info = self.var_info(name)
        reals = info is not None and info.quantised and dtype.is_float and not info.dtype.is_float
        return self.var_info(f"{name}@{dtype.name}") if reals else info

    def quantisation(self, name: str) -> Quantisation | None:
        """Return which reals the integers of a tensor stand for, or None where the model does not tell.

        Raises:
            ModelError: what the model tells is damaged.
        """
        info = self.tensors.get(name)
        if info is None or not info.quantised or not isinstance(self._store, QuantisedStore):
            return None
        return self._store.quantisation(name)

    def _part_info(self, name: str) -> VarInfo | None:
        whole, _, part = name.rpartition("@")
        info, found = self.tensors.get(whole), self.quantisation(whole)
        if info is None or found is None:
            return None
        if part in BY_NAME and BY_NAME[part].is_float:
            dtype, shape, has_data = BY_NAME[part], info.shape, info.has_data
        elif part == "scale" or (part == "zero_point" and found.zero_point is not None):
            dtype, shape, has_data = F32 if part == "scale" else info.dtype, found.scale.shape, True
        else:
            return None
        nbytes = dtype.storage_nbytes(math.prod(shape))
        return VarInfo(name=name, dtype=dtype, shape=shape, has_data=has_data, offset=None, nbytes=nbytes)

    def _part(self, name: str, *, packed: bool) -> Array:
        whole, _, part = name.rpartition("@")
        found = self._store.quantisation(whole) if isinstance(self._store, QuantisedStore) else None
        if found is None:
            raise _unknown("tensor", "tensors", name, self.tensors, self.name)
        if part == "scale":
            return _read_only(found.scale)
        if part == "zero_point":
            values = self._zero_point(whole, np.asarray(found.zero_point))
            return _read_only(pack(values, self.tensors[whole].dtype) if packed else values)
        return _dequantised(self._store.values(whole), found, BY_NAME[part])

    def _zero_point(self, name: str, values: Array) -> Array:
        dtype = self.tensors[name].dtype
        if values.size and not (dtype.minimum or 0) <= values.min() <= values.max() <= (dtype.maximum or 0):
            message = f"zero points of {name!r} of {self.name} do not fit {dtype}: use its reals, as a float"
            raise ModelError(message, file=self.name, table="tensors", name=name)
        return values.astype(storage_dtype(dtype))

    def load_tensor(self, name: str) -> Array:
        """Return a tensor, read-only; packed types as int8 or uint8 values, one per element.

        Raises:
            ModelError: there is no such tensor, or it has no data.
        """
        return self._load(name, packed=False)

    def load_raw(self, name: str) -> Array:
        """Return a tensor in storage form, read-only: packed types as their packed bytes, others as `load_tensor`.

        Raises:
            ModelError: there is no such tensor, or it has no data.
        """
        info = self.var_info(name)
        return self._load(name, packed=info is not None and info.dtype.is_packed)

    def _load(self, name: str, *, packed: bool) -> Array:
        info = self.var_info(name)
        if info is None:
            raise _unknown("tensor", "tensors", name, self.tensors, self.name)
        if not info.has_data:
            message = f"tensor {name!r} of {self.name} is declared without data"
            raise ModelError(message, code="unbound", file=self.name, table="tensors", name=name)
        with self._lock:
            if (name, packed) not in self._loaded:
                if name not in self.tensors:
                    array = self._part(name, packed=packed)
                else:
                    array = self._store.stored(name) if packed else self._store.values(name)
                self._loaded[name, packed] = array if packed else _checked(array, info, self.name)
            return self._loaded[name, packed]

    def load_metadata_tensor(self, name: str) -> Array | None:
        """Return a metadata scalar or array as an array of its element type, or None when there is none.

        Raises:
            ModelError: the metadata is a string.
        """
        item = self.typed_metadata.get(name)
        if item is None:
            return None
        if item.dtype == "str":
            message = f"metadata {name!r} of {self.name} is a string, expected a number"
            raise ModelError(message, file=self.name, table="metadata", name=name)
        return np.asarray(item.value, dtype=storage_dtype(BY_NAME[item.dtype]))

    def has_metadata_string(self, name: str) -> bool:
        """Return whether there is a string of that name in the metadata."""
        item = self.typed_metadata.get(name)
        return item is not None and item.dtype == "str"

    def load_metadata_string(self, name: str) -> str:
        """Return a metadata string.

        Raises:
            ModelError: there is none of that name.
        """
        if not self.has_metadata_string(name):
            raise _unknown("metadata string", "metadata", name, self.typed_metadata, self.name)
        return str(self.typed_metadata[name].value)

    def tensor_store(self) -> ModelStore:
        """Return the opened file behind this model."""
        return self._store

    def close(self) -> None:
        """Release the file; arrays that are still in use keep what they need."""
        with self._lock:
            self._loaded.clear()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        counts = f"{len(self.tensors)} tensors, {len(self.sizevars)} sizes, {len(self.typed_metadata)} metadata"
        return f"<Model {self.name}: {counts}>"


class ModelLoader:
    """Opens model files of any registered format."""

    @staticmethod
    def open(path: str | os.PathLike[str], *, environment: Environment | None = None) -> Model:
        """Open a model file without reading payloads.

        Raises:
            ModelError: the file is missing, of no known format, or invalid.
        """
        file = Path(path)
        try:
            with file.open("rb") as stream:
                head = stream.read(64)
        except OSError as error:
            message = f"cannot read model {str(file)!r}: {error.strerror or error}"
            raise ModelError(message, code="model-file", file=str(file)) from error
        formats = (environment or Environment.default()).model_formats
        chosen = _format_of(file, head, formats)
        store: ModelStore = load_object(chosen.open)(file)
        return Model(store, str(file), path=file)


def exact_size(value: object) -> int | None:
    """Return a size as an exact integer, or None when it is no integer (a bool is none)."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)  # pyright: ignore[reportArgumentType] -- what is no integer raises
    except TypeError:
        return None


def save_model(
    contents: ModelContents, path: str | os.PathLike[str], *, environment: Environment | None = None
) -> None:
    """Write a model file, in the format of the file name's ending, or in the only one there is.

    Raises:
        ModelError: no installed format can be written, or the file cannot be.
    """
    formats = [f for f in (environment or Environment.default()).model_formats.values() if f.save is not None]
    fitting = [f for f in formats if Path(path).suffix in f.suffixes] or formats[: len(formats) == 1]
    if not fitting or fitting[0].save is None:
        known = ", ".join(f"{f.name} ({', '.join(f.suffixes)})" for f in formats) or "none installed"
        raise ModelError(f"cannot tell in which format to write {str(path)!r}; known: {known}", code="model-format")
    load_object(fitting[0].save)(Path(path), contents)


def _format_of(file: Path, head: bytes, formats: Mapping[str, ModelFormatSpec]) -> ModelFormatSpec:
    by_magic = [f for f in formats.values() if f.magic and head.startswith(f.magic)]
    by_suffix = [f for f in formats.values() if file.suffix in f.suffixes]
    for candidates in (by_magic, by_suffix):
        if candidates:
            return candidates[0]
    known = ", ".join(f"{f.name} ({', '.join(f.suffixes)})" for f in formats.values()) or "none installed"
    message = f"{str(file)!r} is no model file of a known format; known: {known}"
    raise ModelError(message, code="model-format", file=str(file))


def _checked(array: Array, info: VarInfo, model: str) -> Array:
    if array.shape != info.shape:
        message = f"tensor {info.name!r} of {model} has shape {array.shape}, its entry says {info.shape}"
        raise ModelError(message, file=model, table="tensors", name=info.name)
    return array


_PIECE = 1 << 20
"""Elements that are dequantised at a time."""


def _dequantised(values: Array, found: Quantisation, dtype: DType) -> Array:
    """Return the reals of a quantised tensor as the operator ``dequantize_linear`` computes them."""
    wide = np.float64 if values.itemsize == 4 or dtype.name == "f64" else np.float32
    out = np.empty(values.shape, storage_dtype(dtype))
    source, target = (values[None], out[None]) if values.ndim == 0 else (values, out)
    spread = [-1 if axis == found.axis else 1 for axis in range(source.ndim)]
    scale = found.scale.astype(wide).reshape(spread)
    zero_point = None if found.zero_point is None else found.zero_point.astype(wide).reshape(spread)
    rows = max(1, _PIECE // max(1, math.prod(source.shape[1:])))
    with np.errstate(all="ignore"):
        for first in range(0, len(source), rows):
            piece = slice(first, first + rows)
            own = piece if found.axis == 0 else slice(None)
            real = source[piece].astype(wide)
            if zero_point is not None:
                real -= zero_point[own]
            target[piece] = (real * scale[own]).astype(out.dtype)
    out.flags.writeable = False
    return out


def _unknown(what: str, table: str, name: str, known: Mapping[str, Any], model: str) -> ModelError:
    hint = did_you_mean(name, known)
    message = f"{model} has no {what} {name!r}" + (f": {hint}" if hint else "")
    code = "unknown-sizevar" if table == "sizevars" else "unbound"
    return ModelError(message, code=code, file=model, table=table, name=name)


class _ArrayStore:
    """A model made of arrays."""

    def __init__(self, arrays: Mapping[str, Any], sizevars: Mapping[str, int], metadata: Mapping[str, Any]) -> None:
        self._arrays = {name: _read_only(np.asarray(value)) for name, value in arrays.items()}
        self.sizevars: Mapping[str, int] = {name: _size(name, value) for name, value in sizevars.items()}
        self.tensors: Mapping[str, VarInfo] = {name: _info(name, array) for name, array in self._arrays.items()}
        self.metadata: Mapping[str, MetadataValue] = {name: _metadata(name, value) for name, value in metadata.items()}

    def values(self, name: str) -> Array:
        return self._arrays[name]

    def stored(self, name: str) -> Array:
        return self._arrays[name].reshape(-1).view(np.uint8)

    def close(self) -> None:
        self._arrays.clear()


def _read_only(array: Array) -> Array:
    copy = np.array(array, order="C", copy=True)
    copy.flags.writeable = False
    return copy


def _info(name: str, array: Array) -> VarInfo:
    dtype = dtype_of_array(array)
    if dtype is None:
        raise ModelError(f"tensor {name!r} has element type {array.dtype}, which OpenInfer does not have")
    return VarInfo(name=name, dtype=dtype, shape=array.shape, has_data=True, offset=None, nbytes=array.nbytes)


def _size(name: str, value: object) -> int:
    size = exact_size(value)
    if size is None or size < 0:
        raise ModelError(f"size {name!r} is {value!r}, expected a non-negative integer", code="bad-dim")
    return size


def _metadata(name: str, value: Any) -> MetadataValue:
    if isinstance(value, str):
        return MetadataValue("str", value)
    if isinstance(value, bool):
        return MetadataValue(BOOL.name, value)
    if isinstance(value, int):
        if not (I64.minimum or 0) <= value <= (I64.maximum or 0):
            raise ModelError(f"metadata {name!r} is an integer that does not fit i64")
        return MetadataValue(I64.name, value)
    if isinstance(value, float):
        return MetadataValue(F32.name, value)
    array = np.asarray(value)
    dtype = dtype_of_array(array)
    if dtype is None:
        raise ModelError(f"metadata {name!r} has element type {array.dtype}, which OpenInfer does not have")
    return MetadataValue(dtype.name, array)
