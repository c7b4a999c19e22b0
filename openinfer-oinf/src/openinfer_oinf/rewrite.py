"""Writing a container again: another version, another alignment, sorted tables."""

from __future__ import annotations

from collections.abc import Iterator

from .arrays import Array, as_bytes
from .checksums import CHECKSUM_KEY
from .errors import CheckLevel
from .progress import expect
from .reader import OinfFile, open_oinf
from .source import Openable
from .tensor import StoredTensor
from .valuetypes import by_tag
from .writer import OinfWriter, WriteTarget


def rewrite_oinf(
    source: Openable, target: WriteTarget, *, version: int = 2, align: int = 8, check: CheckLevel = "strict"
) -> None:
    """Write what a file holds in canonical order and layout; stored bytes are kept bit for bit.

    With `check="compat"` the source may break rules that do not endanger memory safety. Raises `OinfError`, also for
    quantised tensors in version 1, and `OSError`.
    """
    with open_oinf(source, check=check) as file:
        rewrite_file(file, target, version=version, align=align)


def rewrite_file(file: OinfFile, target: WriteTarget, *, version: int = 2, align: int = 8) -> None:
    """As `rewrite_oinf`, from an open file."""
    expect(file.file_size)
    with writer_like(file, target, version, align) as writer:
        copy_tables(file, writer)
        for tensor in file.tensors():
            declare_like(writer, tensor)
        for tensor in file.tensors():
            if tensor.has_data:
                writer.write_raw(tensor.name, stored_blocks(tensor))


def writer_like(file: OinfFile, target: WriteTarget, version: int, align: int) -> OinfWriter:
    """A writer that lets through what a reader does, with checksums if the file has them."""
    return OinfWriter(
        target,
        version=version,
        align=align,
        checksums=all(part.checksums.exist for part in file.parts),
        allow_case_collisions=True,
        allow_any_scale=True,
    )


def copy_tables(file: OinfFile, writer: OinfWriter) -> None:
    """Copy size variables and metadata, but for checksums, which the writer computes."""
    for name, value in file.sizevars.items():
        writer.sizevar(name, value)
    for key in file.metadata:
        if key == CHECKSUM_KEY:
            continue
        writer.metadata_raw(key, by_tag(file.metadata.entry(key).tag), file.metadata.payload(key))


def declare_like(writer: OinfWriter, tensor: StoredTensor) -> None:
    """Declare a tensor as it is in another file."""
    writer.declare(tensor.name, tensor.value_type, tensor.shape, data=tensor.has_data, quant=tensor.quant)


def stored_blocks(tensor: StoredTensor) -> Iterator[Array]:
    """The stored bytes of a tensor as the blocks that a writer takes."""
    return (as_bytes(block) for block in tensor.byte_blocks())
