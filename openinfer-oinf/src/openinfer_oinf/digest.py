"""Digests of a container: of the file as it is, and of its content whatever version and layout it has."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from .layout import HAS_DATA, HAS_QUANT, TENSOR_FIELDS, U32, U64, encode_string
from .progress import advance, expect
from .reader import OinfFile
from .source import require_regular_file
from .tensor import StoredTensor

_BLOCK = 1 << 20


def file_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 of all bytes of a file, in hexadecimal digits."""
    require_regular_file(Path(path))
    digest = hashlib.sha256()
    expect(Path(path).stat().st_size)
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def content_digest(file: OinfFile) -> str:
    """SHA-256 over names, types, shapes and values, sorted by name: equal for every version and alignment.

    Hashed are, for each entry, a letter for its table, the name as a String field, and: the value (size variables);
    type, length and payload (metadata); type, ndim, flags, dims, data and quant payload (tensors).
    """
    expect(file.file_size)
    digest = hashlib.sha256()
    for name in sorted(file.sizevars):
        digest.update(b"S" + encode_string(name) + U64.pack(file.sizevars[name]))
    for name in sorted(file.metadata):
        payload = file.metadata.payload(name)
        digest.update(b"M" + encode_string(name) + U32.pack(file.metadata.entry(name).tag) + U64.pack(len(payload)))
        digest.update(payload)
    for name in sorted(file):
        tensor = file.tensor(name)
        digest.update(b"T" + encode_string(name) + _signature(tensor))
        for block in tensor.byte_blocks():
            digest.update(block)
            advance(len(block))
        digest.update(tensor.quant_payload())
    return digest.hexdigest()


def _signature(tensor: StoredTensor) -> bytes:
    flags = HAS_DATA * tensor.has_data | HAS_QUANT * tensor.has_quant
    fields = TENSOR_FIELDS.pack(tensor.value_type.tag, tensor.ndim, flags)
    return fields + b"".join(U64.pack(dim) for dim in tensor.shape)
