"""A writer of container files that shares no code with the package: the oracle and the source of broken files."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest

HEADER = ("magic", "version", "flags", "n_sizevars", "n_metadata", "n_tensors", "reserved")
OFFSETS = ("offset_sizevars", "offset_metadata", "offset_tensors", "offset_data", "file_size")


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 8)


def string(text: bytes) -> bytes:
    return padded(struct.pack("<I", len(text)) + text)


@dataclass
class RawTensor:
    name: bytes
    tag: int
    dims: tuple[int, ...]
    data: bytes | None
    quant: bytes | None = None
    flags: int | None = None
    nbytes: int | None = None
    offset: int | None = None
    quant_nbytes: int | None = None
    quant_offset: int | None = None
    ndim: int | None = None


@dataclass
class RawMetadata:
    key: bytes
    tag: int
    data: bytes
    flags: int = 0
    nbytes: int | None = None
    offset: int | None = None


@dataclass
class RawFile:
    """Every field may be overridden; what is not, follows the format description."""

    version: int = 2
    sizevars: list[tuple[bytes, int]] = field(default_factory=list)
    metadata: list[RawMetadata] = field(default_factory=list)
    tensors: list[RawTensor] = field(default_factory=list)
    header: dict[str, object] = field(default_factory=dict)
    before_data: bytes = b""
    after_data: bytes = b""
    padding: bytes = b"\0\0\0"

    def metadata_nbytes(self) -> int:
        return sum(len(string(each.key)) + 24 for each in self.metadata)

    def tensors_nbytes(self) -> int:
        fixed = 28 if self.version == 1 else 44
        return sum(len(string(each.name)) + fixed + 8 * len(each.dims) for each in self.tensors)

    def build(self) -> bytes:
        sizevars = b"".join(string(name) + struct.pack("<Q", value) for name, value in self.sizevars)
        offset_metadata = 72 + len(sizevars)
        offset_tensors = offset_metadata + self.metadata_nbytes()
        offset_data = offset_tensors + self.tensors_nbytes()
        offset_data += -offset_data % 8
        data = bytearray(self.before_data)

        def place(payload: bytes) -> int:
            offset = offset_data + len(data)
            data.extend(padded(payload))
            return offset

        metadata = b"".join(
            string(each.key)
            + struct.pack(
                "<IIQQ",
                each.tag,
                each.flags,
                len(each.data) if each.nbytes is None else each.nbytes,
                place(each.data) if each.offset is None else each.offset,
            )
            for each in self.metadata
        )
        tensors = b"".join(self.tensor_row(each, place) for each in self.tensors)
        data.extend(self.after_data)
        values: dict[str, object] = {
            "magic": b"OINF\0",
            "version": self.version,
            "flags": 0,
            "n_sizevars": len(self.sizevars),
            "n_metadata": len(self.metadata),
            "n_tensors": len(self.tensors),
            "reserved": 0,
            "offset_sizevars": 72,
            "offset_metadata": offset_metadata,
            "offset_tensors": offset_tensors,
            "offset_data": offset_data,
            "file_size": offset_data + len(data),
        } | self.header
        head = struct.pack("<5sIIIIIIQQQQQ", *(values[name] for name in HEADER + OFFSETS)) + self.padding
        return padded(head + sizevars + metadata + tensors).ljust(offset_data, b"\0") + bytes(data)

    def tensor_row(self, each: RawTensor, place) -> bytes:
        offset = 0 if each.data is None else place(each.data)
        quant_offset = 0 if each.quant is None else place(each.quant)
        flags = (each.data is not None) + 2 * (each.quant is not None)
        places = [
            len(each.data or b"") if each.nbytes is None else each.nbytes,
            offset if each.offset is None else each.offset,
            len(each.quant or b"") if each.quant_nbytes is None else each.quant_nbytes,
            quant_offset if each.quant_offset is None else each.quant_offset,
        ][: 2 * self.version]
        return (
            string(each.name)
            + struct.pack(
                "<III",
                each.tag,
                len(each.dims) if each.ndim is None else each.ndim,
                flags if each.flags is None else each.flags,
            )
            + struct.pack(f"<{len(each.dims)}Q", *each.dims)
            + struct.pack(f"<{len(places)}Q", *places)
        )


class Raw:
    """What tests build broken files from."""

    File = RawFile
    Tensor = RawTensor
    Metadata = RawMetadata
    string = staticmethod(string)
    padded = staticmethod(padded)

    @staticmethod
    def quant(
        scheme=2, scale_mode=1, zp_mode=1, reserved=0, scale_axis=0, zp_axis=0, scales=(0.5,), zeros=(-1,), **counts
    ) -> bytes:
        head = struct.pack(
            "<IIIIQQQQ",
            scheme,
            scale_mode,
            zp_mode,
            reserved,
            scale_axis,
            counts.get("scale_count", len(scales)),
            zp_axis,
            counts.get("zp_count", len(zeros)),
        )
        return padded(head + struct.pack(f"<{len(scales)}f", *scales) + struct.pack(f"<{len(zeros)}i", *zeros))


@pytest.fixture(scope="session")
def raw() -> type[Raw]:
    return Raw


@pytest.fixture
def bars_at_once(monkeypatch):
    """Progress bars are shown from the first byte on, not after seconds."""
    for interval in ("_SECONDS_BEFORE", "_SECONDS_BETWEEN"):
        monkeypatch.setattr(f"openinfer_oinf.progress.{interval}", 0)
