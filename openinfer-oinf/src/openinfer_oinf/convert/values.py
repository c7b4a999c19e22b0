"""Values of a container as other formats hold them: packed types unpacked, quantised ones as real values on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..arrays import Array
from ..errors import OinfError
from ..progress import advance
from ..reader import OinfFile
from ..tensor import StoredTensor
from ..valuetypes import ValueType, value_type
from .model import Change


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """`dequantize`: quantised tensors as f32; `native_only`: bf16 and f8 as f32, too."""

    dequantize: bool = False
    native_only: bool = False


def exported_type(tensor: StoredTensor, options: ExportOptions) -> ValueType:
    """The type that a tensor takes in another format: its own, or one that holds its values exactly."""
    kind = tensor.value_type
    if tensor.has_quant or (options.native_only and kind.name in ("bf16", "f8")):
        return value_type("f32")
    if kind.is_packed or kind.kind == "bitset":
        return value_type("u8" if kind.kind in ("uint", "bitset") else "i8")
    return kind


def exported_blocks(tensor: StoredTensor, options: ExportOptions) -> Iterator[Array]:
    """The values in C order, a block at a time, of a type that NumPy calculates with."""
    tensor.check_values()
    for block in tensor.real_blocks() if options.dequantize else tensor.number_blocks():
        yield block
        advance(tensor.value_type.stored_nbytes(block.size))


def require_exportable(tensors: Sequence[StoredTensor], options: ExportOptions) -> None:
    """Raise `OinfError` (E_QUANT) for quantised tensors, whose scales other formats cannot hold."""
    for tensor in tensors:
        if tensor.has_quant and not options.dequantize:
            message = "the format holds no scales and zero points; dequantize writes real values"
            raise OinfError(tensor.finding("E_QUANT", message, tensor.quant_offset))


def plain_changes(file: OinfFile, tensors: Sequence[StoredTensor], options: ExportOptions) -> Iterator[Change]:
    """What every format without size variables, declarations and small types loses or alters."""
    for name in file.sizevars:
        yield Change("dropped", name, "size variable")
    for tensor in file.tensors():
        if not tensor.has_data:
            yield Change("dropped", tensor.name, "a declaration without data")
    for tensor in tensors:
        kind = exported_type(tensor, options)
        if kind != tensor.value_type:
            quantised = "quantised " if tensor.has_quant else ""
            yield Change("cast", tensor.name, f"{quantised}{tensor.dtype} to {kind.name}")
