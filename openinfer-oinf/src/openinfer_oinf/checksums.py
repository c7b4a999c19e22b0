"""Optional checksums: a SHA-256 of every tensor, kept as metadata that older readers take for an array.

The key `oinf.sha256` holds u8 of shape [tensors, 32]; row *i* is the SHA-256 of the stored bytes of tensor *i* of the
table followed by those of its quant payload, or zeros where it has neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .errors import Finding, OinfError
from .metadata import MetadataPayload, encode_metadata
from .progress import advance, expect

if TYPE_CHECKING:
    from .reader import MetadataView, OinfFile
    from .tensor import StoredTensor

RESERVED_PREFIX = "oinf."
CHECKSUM_KEY = "oinf.sha256"
_DIGEST_BYTES = 32


def checksum_payload(rows: Sequence[bytes]) -> MetadataPayload:
    """The metadata value for digests in table order; an empty one stands for a tensor that stores nothing."""
    joined = b"".join(row or bytes(_DIGEST_BYTES) for row in rows)
    return encode_metadata(CHECKSUM_KEY, np.frombuffer(joined, np.uint8).reshape(len(rows), _DIGEST_BYTES))


def stored_digest(tensor: StoredTensor) -> bytes:
    """The digest of what a tensor stores, zeros if that is nothing."""
    if not tensor.has_data and not tensor.has_quant:
        return bytes(_DIGEST_BYTES)
    digest = hashlib.sha256()
    for block in tensor.byte_blocks():
        digest.update(block)
    digest.update(tensor.quant_payload())
    return digest.digest()


class Checksums:
    """The checksums of a file by tensor, read when they are first requested."""

    def __init__(self, metadata: MetadataView, names: Iterable[str]) -> None:
        self._metadata = metadata
        self._names = names

    @property
    def exist(self) -> bool:
        return CHECKSUM_KEY in self._metadata

    @cached_property
    def digests(self) -> dict[str, bytes]:
        """SHA-256 by name of tensor. Raises `OinfError` (E_CHECKSUM) when the entry has another type or shape."""
        stored = self._metadata.typed(CHECKSUM_KEY)
        names, rows = list(self._names), stored.value
        if stored.dtype != "u8" or not isinstance(rows, np.ndarray) or rows.shape != (len(names), _DIGEST_BYTES):
            message = f"checksums are u8 of shape [{len(names)}, {_DIGEST_BYTES}]"
            raise OinfError(Finding(code="E_CHECKSUM", message=message, table="metadata", entry=CHECKSUM_KEY))
        return {name: row.tobytes() for name, row in zip(names, rows, strict=True)}

    def check(self, tensor: StoredTensor) -> None:
        """Raise `OinfError` (E_CHECKSUM) when a tensor does not agree with its checksum, if the file has them."""
        if self.exist and self.digests[tensor.name] != stored_digest(tensor):
            raise OinfError(_disagreement(tensor))


def _disagreement(tensor: StoredTensor) -> Finding:
    return tensor.finding("E_CHECKSUM", "the stored bytes do not agree with their checksum", tensor.offset)


def checksum_findings(file: OinfFile) -> Iterator[Finding]:
    """What does not agree with the checksums of a file or its shards (E_CHECKSUM); a warning where there are none."""
    for part in file.parts:
        yield from _part_findings(part)


def _part_findings(file: OinfFile) -> Iterator[Finding]:
    if not file.checksums.exist:
        message = "the file has no checksums; OinfWriter(checksums=True) writes them"
        yield Finding(code="W_CHECKSUM", message=message, table="metadata", entry=CHECKSUM_KEY)
        return
    try:
        digests = file.checksums.digests
    except OinfError as error:
        yield error.first
        return
    expect(file.file_size)
    for tensor in file.tensors():
        if digests[tensor.name] != stored_digest(tensor):
            yield _disagreement(tensor)
        advance(tensor.nbytes)
