"""Bounds that a reader keeps while it reads a file it does not trust."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a reader accepts at most; sizes are in bytes. Pass a changed copy to `open_oinf` to raise one."""

    index_bytes: int = 256 * MIB
    entries_per_table: int = 4_194_304
    name_bytes: int = 1024
    ndim: int = 64
    product: int = (1 << 63) - 1
    eager_metadata_bytes: int = 16 * MIB
    eager_metadata_total: int = 64 * MIB
    findings: int = 1000
