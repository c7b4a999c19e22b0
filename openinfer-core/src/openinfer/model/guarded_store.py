"""Models as third parties' formats open them, with every call guarded and what they return checked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.dtypes import DType
from openinfer.model.store import MetadataValue, ModelStore, Quantisation, QuantisedStore, VarInfo
from openinfer.plugins.crossing import crossing, fault, guarded_methods, members, shown, wrong

if TYPE_CHECKING:
    from openinfer.model.store import Array
    from openinfer.plugins.crossing import Owner


class GuardedStore:
    """Stands for the `openinfer.model.ModelStore` of a third party; a `QuantisedStore` where that is one.

    What it holds is read once, when it is opened.

    Raises:
        PluginError: something of it is missing, or has another form.
    """

    def __init__(self, owner: Owner, what: str, store: object) -> None:
        self._owner, self._what = owner, what
        names = list(members(ModelStore))
        with crossing(owner, f"reading the tables of {what}"):
            given = cast("Any", store)
            sizevars, metadata, tensors = _table(given.sizevars), _table(given.metadata), _table(given.tensors)
            names += members(QuantisedStore) if hasattr(given, "quantisation") else ()
        self.sizevars = self._sound("sizevars", sizevars, _is_size, "sizes by name")
        self.metadata = self._sound("metadata", metadata, _is_metadata, "MetadataValue by name")
        self.tensors = self._sound("tensors", tensors, _is_tensor, "VarInfo by name")
        self._methods = guarded_methods(owner, what, store, names)
        if "quantisation" in self._methods:
            self.quantisation = self._quantisation

    def values(self, name: str) -> Array:
        """Return a tensor; see `ModelStore.values`."""
        return self._array("values", name)

    def stored(self, name: str) -> Array:
        """Return the stored bytes of a tensor; see `ModelStore.stored`."""
        return self._array("stored", name)

    def close(self) -> None:
        """Release the file."""
        self._methods["close"]()

    def _quantisation(self, name: str) -> Quantisation:
        found = self._methods["quantisation"](name)
        if type(found) is not Quantisation:
            raise fault(self._owner, f"quantisation of {self._what} {wrong(found, 'a Quantisation')}")
        return found

    def _array(self, method: str, name: str) -> Array:
        found = self._methods[method](name)
        if not isinstance(found, np.ndarray):
            raise fault(self._owner, f"{method}({name!r}) of {self._what} {wrong(found, 'an array')}")
        return cast("Array", found)

    def _sound(self, table: str, found: dict[Any, Any] | None, is_sound: Any, expected: str) -> Mapping[str, Any]:
        """Return a table after checking every entry."""
        if found is None:
            raise fault(self._owner, f"{table} of {self._what} is not a mapping, expected {expected}")
        odd = next((entry for entry in found.items() if not is_sound(*entry)), None)
        if odd is not None:
            raise fault(self._owner, f"{table} of {self._what}: found {shown(odd)}, expected {expected}")
        return MappingProxyType(found)


def _table(found: Any) -> dict[Any, Any] | None:
    return dict(cast("Mapping[Any, Any]", found)) if isinstance(found, Mapping) else None


def _is_size(name: object, size: object) -> bool:
    return type(name) is str and type(size) is int and 0 <= size < 2**63


def _is_metadata(name: object, value: object) -> bool:
    if type(name) is not str or type(value) is not MetadataValue or type(value.dtype) is not str:
        return False
    return isinstance(value.value, str | bool | int | float | np.generic | np.ndarray)


def _is_tensor(name: object, info: object) -> bool:
    if type(name) is not str or type(info) is not VarInfo or type(info.dtype) is not DType:
        return False
    if type(info.name) is not str or info.name != name or {type(info.has_data), type(info.quantised)} != {bool}:
        return False
    shape: Any = info.shape
    if type(shape) is not tuple or (info.offset is not None and not _is_size("", info.offset)):
        return False
    return all(_is_size("", size) for size in (info.nbytes, *cast("tuple[object, ...]", shape)))
