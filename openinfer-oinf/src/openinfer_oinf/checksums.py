"""Optional checksums: a SHA-256 of every tensor, kept as metadata that older readers take for an array.

The key `oinf.sha256` holds u8 of shape [tensors, 32]; row *i* is the SHA-256 of the stored bytes of tensor *i* of the
table followed by those of its quant payload, or zeros where it has neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from .errors import Finding
from .metadata import MetadataPayload, encode_metadata
from .reader import OinfFile
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


def checksum_findings(file: OinfFile) -> Iterator[Finding]:
    """What does not agree with the checksums of a file (E_CHECKSUM); a warning if it has none."""
    if CHECKSUM_KEY not in file.metadata:
        message = "the file has no checksums; OinfWriter(checksums=True) writes them"
        yield Finding(code="W_CHECKSUM", message=message, table="metadata", entry=CHECKSUM_KEY)
        return
    stored = file.metadata.typed(CHECKSUM_KEY)
    rows = stored.value
    if stored.dtype != "u8" or not isinstance(rows, np.ndarray) or rows.shape != (len(file), _DIGEST_BYTES):
        message = f"checksums are u8 of shape [{len(file)}, {_DIGEST_BYTES}]"
        yield Finding(code="E_CHECKSUM", message=message, table="metadata", entry=CHECKSUM_KEY)
        return
    for row, tensor in zip(rows, file.tensors(), strict=True):
        if row.tobytes() != stored_digest(tensor):
            yield tensor.finding("E_CHECKSUM", "the stored bytes do not agree with their checksum", tensor.offset)
