"""A model: named sizes, metadata and tensors, loaded when requested (``specification: runtime.models``)."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from openinfer import symbolic
from openinfer.array_types import storage_dtype
from openinfer.boundary import public_methods
from openinfer.diagnostics import counted, near_or_known
from openinfer.dtypes import BITSET, BY_NAME, U8
from openinfer.errors import ModelError
from openinfer.model.arrays import ArrayStore
from openinfer.model.quantised import part_info, part_values
from openinfer.model.store import QuantisedStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from openinfer.dtypes import DType
    from openinfer.model.store import Array, MetadataValue, ModelStore, Quantisation, VarInfo


@public_methods
class Model:
    """A model. Reading is lazy and may be done from several threads; results are read-only arrays.

    Of a quantised tensor ``W`` there are further tensors, made when they are requested: ``W@scale`` and
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
        """Return a model in memory.

        Args:
            arrays: tensors; anything `numpy.asarray` takes, with an element type of OpenInfer.
            sizevars: named sizes.
            metadata: bools, integers, floats (stored as f32), strings, or arrays.

        Raises:
            ModelError: an array has an element type that OpenInfer does not have.
            TypeError: something that is not a mapping was given.
        """
        for argument, values in (("arrays", arrays), ("sizevars", sizevars), ("metadata", metadata)):
            if values is not None and not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"{argument}: expected a mapping from names to values, found {type(values).__name__}")
            unnamed = next((name for name in values or () if not isinstance(name, str)), None)  # pyright: ignore[reportUnnecessaryIsInstance]
            if unnamed is not None:
                raise TypeError(f"{argument}: expected names that are str, found {unnamed!r}")
        return Model(ArrayStore(arrays or {}, sizevars or {}, metadata or {}))

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
            ModelError: the text is not a dimension, names an unknown size, or is negative.
        """
        try:
            value = symbolic.evaluate(symbolic.parse(dim), self.size_of)
        except symbolic.SymbolicSyntaxError as error:
            raise ModelError(f"bad dimension {dim!r}: {error}", code="bad-dim") from error
        except symbolic.DivisionError as error:
            raise ModelError(f"bad dimension {dim!r}: {error}", code="bad-division") from error
        if value < 0:
            raise ModelError(f"dimension {dim!r} is {value}: it must not be negative", code="bad-dim")
        return value

    def resolve_shape(self, dims: Sequence[str]) -> tuple[int, ...]:
        """Return the values of dimension texts."""
        return tuple(self.resolve_dim_value(dim) for dim in dims)

    def resolve_len(self, dims: Sequence[str]) -> int:
        """Return the number of elements of dimension texts."""
        return math.prod(self.resolve_shape(dims))

    def var_info(self, name: str) -> VarInfo | None:
        """Return what is known of a tensor without reading it, or None."""
        if name in self.tensors or "@" not in name:
            return self.tensors.get(name)
        whole, _, part = name.rpartition("@")
        found = self.quantisation(whole)
        return None if found is None else part_info(self.tensors[whole], found, part)

    def linked(self, name: str, dtype: DType) -> VarInfo | None:
        """Return the tensor that a variable of some type is linked to: of a quantised one its reals for a float.

        Bytes stand for bitsets, of which files have no tensors.
        """
        info = self.var_info(name)
        if info is None:
            return None
        if dtype is BITSET and info.dtype is U8:
            return replace(info, dtype=BITSET)
        reals = info.quantised and dtype.is_float and not info.dtype.is_float
        return self.var_info(f"{name}@{dtype.name}") if reals else info

    def quantisation(self, name: str) -> Quantisation | None:
        """Return which reals the integers of a tensor stand for, or None where the model does not say.

        Raises:
            ModelError: what the model says about it is damaged.
        """
        info = self.tensors.get(name)
        if info is None or not info.quantised or not isinstance(self._store, QuantisedStore):
            return None
        return self._store.quantisation(name)

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
                array = self._read(name, packed=packed)
                self._loaded[name, packed] = array if packed else _checked(array, info, self.name)
            return self._loaded[name, packed]

    def _read(self, name: str, *, packed: bool) -> Array:
        whole, _, part = name.rpartition("@")
        found = None if name in self.tensors else self.quantisation(whole)
        if found is not None:
            info = self.tensors[whole]
            return part_values(info, found, part, self._store.values, packed=packed, model=self.name)
        return self._store.stored(name) if packed else self._store.values(name)

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
        """Return the opened file of this model."""
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

    def counts(self) -> str:
        """Return how many tensors, sizes and values of metadata there are."""
        counts = f"{counted(len(self.tensors), 'tensor')}, {counted(len(self.sizevars), 'size')}"
        return f"{counts}, {len(self.typed_metadata)} metadata"

    def __repr__(self) -> str:
        return f"<Model {self.name}: {self.counts()}>"

    def _repr_html_(self) -> str:
        from openinfer.draw import model_html

        return model_html(self)


def _checked(array: Array, info: VarInfo, model: str) -> Array:
    if array.shape != info.shape:
        message = f"tensor {info.name!r} of {model} has shape {array.shape}, its entry says {info.shape}"
        raise ModelError(message, file=model, table="tensors", name=info.name)
    return array


def _unknown(what: str, table: str, name: str, known: Mapping[str, Any], model: str) -> ModelError:
    message = f"{model} has no {what} {name!r}: {near_or_known(name, known)}"
    code = "unknown-sizevar" if table == "sizevars" else "unbound"
    return ModelError(message, code=code, file=model, table=table, name=name)
