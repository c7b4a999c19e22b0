"""The whole layout of a file from names, types and shapes alone, before any payload is at hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .errors import Finding, OinfError
from .layout import (
    HAS_DATA,
    HAS_QUANT,
    HEADER_BYTES,
    METADATA_FIELDS,
    TENSOR_FIELDS,
    TENSOR_PLACES,
    U64,
    VERSIONS,
    Header,
    align_up,
    encode_string,
    up8,
)
from .metadata import MetadataPayload
from .quant import QuantParams
from .quantpayload import encode_quant
from .valuetypes import ValueType


@dataclass(frozen=True, kw_only=True)
class TensorDeclaration:
    """What a file says of a tensor before its values: `shape` in elements, `quant` with a plain axis."""

    name: str
    dtype: ValueType
    shape: tuple[int, ...]
    has_data: bool = True
    quant: QuantParams | None = None

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.dtype.stored_nbytes(self.count) if self.has_data else 0


@dataclass(frozen=True)
class Placement:
    """Where a payload goes: offset and size in bytes; `data` where it is known beforehand."""

    offset: int
    nbytes: int
    data: bytes = b""


@dataclass(frozen=True, kw_only=True)
class FilePlan:
    """A complete layout: the bytes before the data section, and a place for every payload."""

    version: int
    index: bytes
    metadata: Mapping[str, Placement]
    tensors: Mapping[str, Placement]
    quants: Mapping[str, Placement]
    file_size: int


class _Layout:
    """Gives out places in the data section, one after the other."""

    def __init__(self, start: int) -> None:
        self.end = start

    def place(self, nbytes: int, alignment: int = 8, data: bytes = b"") -> Placement:
        # An empty payload takes no room, so there is nothing to align for.
        offset = align_up(self.end, alignment if nbytes else 8)
        self.end = up8(offset + nbytes)
        return Placement(offset, nbytes, data)


def plan_file(
    sizevars: Mapping[str, int],
    metadata: Mapping[str, MetadataPayload],
    tensors: Iterable[TensorDeclaration],
    *,
    version: int = 2,
    align: int = 8,
) -> FilePlan:
    """Lay out a file; equal arguments in any order give equal plans.

    `align` is the alignment of tensor data in bytes, a power of two from 8 to 4096. Raises `OinfError`: E_VERSION,
    E_ALIGN, and E_QUANT where version 1 is to hold quantisation parameters.
    """
    _check_options(version, align)
    declared = sorted(tensors, key=lambda each: each.name)
    keys = sorted(metadata)
    sizevar_table = b"".join(encode_string(name) + U64.pack(sizevars[name]) for name in sorted(sizevars))
    metadata_nbytes = sum(len(encode_string(key)) + METADATA_FIELDS.size for key in keys)
    tensors_nbytes = sum(_row_nbytes(each, version) for each in declared)
    offset_metadata = HEADER_BYTES + len(sizevar_table)
    offset_tensors = offset_metadata + metadata_nbytes
    offset_data = up8(offset_tensors + tensors_nbytes)
    layout = _Layout(offset_data)
    values = {key: layout.place(len(metadata[key].data), data=metadata[key].data) for key in keys}
    places = [_place_tensor(each, layout, version, align) for each in declared]
    header = Header(
        version=version,
        n_sizevars=len(sizevars),
        n_metadata=len(keys),
        n_tensors=len(declared),
        offset_metadata=offset_metadata,
        offset_tensors=offset_tensors,
        offset_data=offset_data,
        file_size=layout.end,
    )
    metadata_table = b"".join(_metadata_row(key, metadata[key].tag, values[key]) for key in keys)
    tensor_table = b"".join(_tensor_row(each, version, *where) for each, where in zip(declared, places, strict=True))
    index = header.pack() + sizevar_table + metadata_table + tensor_table
    return FilePlan(
        version=version,
        index=index.ljust(offset_data, b"\0"),
        metadata=values,
        tensors={each.name: data for each, (data, _) in zip(declared, places, strict=True) if each.has_data},
        quants={each.name: quant for each, (_, quant) in zip(declared, places, strict=True) if quant.nbytes},
        file_size=layout.end,
    )


def _check_options(version: int, align: int) -> None:
    if version not in VERSIONS:
        raise OinfError(Finding(code="E_VERSION", message=f"format version {version} cannot be written; 1 and 2 can"))
    if align not in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
        message = f"alignment {align} is not a power of two from 8 to 4096"
        raise OinfError(Finding(code="E_ALIGN", message=message))


def _row_nbytes(declared: TensorDeclaration, version: int) -> int:
    fixed = TENSOR_FIELDS.size + TENSOR_PLACES[version].size
    return len(encode_string(declared.name)) + fixed + 8 * len(declared.shape)


def _metadata_row(key: str, tag: int, place: Placement) -> bytes:
    return encode_string(key) + METADATA_FIELDS.pack(tag, 0, place.nbytes, place.offset)


_NOWHERE = Placement(0, 0)


def _place_tensor(
    declared: TensorDeclaration, layout: _Layout, version: int, align: int
) -> tuple[Placement, Placement]:
    if declared.quant is not None and version == 1:
        message = "version 1 has no room for quantisation parameters; write version 2"
        raise OinfError(Finding(code="E_QUANT", message=message, table="tensors", entry=declared.name))
    data = layout.place(declared.nbytes, align) if declared.has_data else _NOWHERE
    if declared.quant is None:
        return data, _NOWHERE
    payload = encode_quant(declared.quant)
    return data, layout.place(len(payload), data=payload)


def _tensor_row(declared: TensorDeclaration, version: int, data: Placement, quant: Placement) -> bytes:
    flags = (HAS_DATA if declared.has_data else 0) | (HAS_QUANT if quant.nbytes else 0)
    places = [data.nbytes, data.offset, quant.nbytes, quant.offset]
    return (
        encode_string(declared.name)
        + TENSOR_FIELDS.pack(declared.dtype.tag, len(declared.shape), flags)
        + b"".join(U64.pack(dim) for dim in declared.shape)
        + TENSOR_PLACES[version].pack(*places[: 2 * version])
    )
