"""Writing a container again: another version, another alignment, sorted tables, quantised tensors."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .arrays import Array, as_bytes
from .checksums import CHECKSUM_KEY
from .errors import CheckLevel
from .progress import advance
from .quant import Scheme
from .quantization import QuantizationError, QuantizedArray, quantization_error, quantize_array
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
    with _writer_like(file, target, version, align) as writer:
        copy_tables(file, writer)
        for tensor in file.tensors():
            declare_like(writer, tensor)
        for tensor in file.tensors():
            if tensor.has_data:
                writer.write_raw(tensor.name, stored_blocks(tensor))


def _writer_like(file: OinfFile, target: WriteTarget, version: int, align: int) -> OinfWriter:
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
    """Declare a tensor as it stands in another file."""
    writer.declare(tensor.name, tensor.value_type, tensor.shape, data=tensor.has_data, quant=tensor.quant)


def stored_blocks(tensor: StoredTensor) -> Iterator[Array]:
    """The stored bytes of a tensor as the blocks that a writer takes."""
    return (as_bytes(block) for block in tensor.byte_blocks())


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions:
    """How and which tensors are quantised: float tensors whose names match `include` and not `exclude`."""

    dtype: str = "i8"
    scheme: Scheme = "symmetric"
    axis: int | None = None
    clip: float | None = None
    include: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()

    def applies_to(self, tensor: StoredTensor) -> bool:
        if not tensor.has_data or tensor.value_type.kind != "float" or tensor.has_quant:
            return False
        if self.axis is not None and not -tensor.ndim <= self.axis < tensor.ndim:
            return False
        return _matches(tensor.name, self.include) and not _matches(tensor.name, self.exclude)

    def quantize(self, tensor: StoredTensor) -> tuple[QuantizedArray, QuantizationError]:
        real = tensor.dequantize("f64")
        quantized = quantize_array(real, self.dtype, scheme=self.scheme, axis=self.axis, clip=self.clip)
        return quantized, quantization_error(real, quantized)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def quantize_oinf(source: Openable, target: WriteTarget, options: QuantizeOptions) -> dict[str, QuantizationError]:
    """Write a file again with its matching float tensors quantised; returns the error of each, by name.

    Tensors are quantised one at a time, twice (for their scales, then for their values), so that memory holds one.
    """
    errors: dict[str, QuantizationError] = {}
    with open_oinf(source) as file, _writer_like(file, target, 2, 8) as writer:
        copy_tables(file, writer)
        for tensor in file.tensors():
            if options.applies_to(tensor):
                quantized, errors[tensor.name] = options.quantize(tensor)
                advance(tensor.nbytes // 2)
                writer.declare(tensor.name, quantized.dtype, tensor.shape, quant=quantized.quant)
            else:
                declare_like(writer, tensor)
        for tensor in file.tensors():
            if tensor.name in errors:
                writer.write(tensor.name, options.quantize(tensor)[0].values)
            elif tensor.has_data:
                writer.write_raw(tensor.name, stored_blocks(tensor))
    return errors
