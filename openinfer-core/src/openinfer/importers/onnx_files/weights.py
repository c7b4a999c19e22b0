"""The weights of an imported model, read from the original file on demand."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.elements import stored_form
from openinfer.ir.types import TensorType
from openinfer.model import VarInfo
from openinfer.packing import pack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.onnx_files.source import Array, Payload
    from openinfer.model import MetadataValue


class WeightStore:
    """Tensors as core reads models (`openinfer.model.ModelStore`)."""

    def __init__(self, payloads: Mapping[str, Payload], sizes: Mapping[str, int]) -> None:
        self._payloads = dict(payloads)
        self.sizevars: Mapping[str, int] = dict(sizes)
        self.metadata: Mapping[str, MetadataValue] = MappingProxyType({})
        self.tensors: Mapping[str, VarInfo] = {name: _info(name, payload) for name, payload in payloads.items()}

    def values(self, name: str) -> Array:
        """Return a tensor read-only; packed types one element per byte."""
        payload = self._payloads[name]
        array = stored_form(np.asarray(payload.load()), payload.dtype).reshape(payload.shape).view()
        array.flags.writeable = False
        return array

    def stored(self, name: str) -> Array:
        """Return the stored bytes of a tensor, packed types packed."""
        values, dtype = self.values(name), self._payloads[name].dtype
        if dtype.is_packed:
            return pack(values, dtype)
        return np.ascontiguousarray(values).reshape(-1).view(np.uint8)

    def close(self) -> None:
        self._payloads.clear()


def _info(name: str, payload: Payload) -> VarInfo:
    kind = TensorType(payload.dtype, payload.shape)
    return VarInfo(name=name, dtype=payload.dtype, shape=payload.shape, has_data=True, offset=None, nbytes=kind.nbytes)
