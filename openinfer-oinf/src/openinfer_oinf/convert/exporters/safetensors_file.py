"""Writes safetensors files. Texts become `__metadata__`; other metadata and size variables have no place there."""

from __future__ import annotations

import json
import os

import numpy as np

from ...atomicfile import AtomicFile
from ...progress import advance
from ...reader import OinfFile
from ...rewrite import stored_blocks
from ...tensor import StoredTensor
from ..model import Blocks, Change
from ..values import ExportOptions, exported_blocks, exported_type, plain_changes, require_exportable

NAME = "safetensors"
SUFFIXES = (".safetensors",)

_CODES = {
    "bool": "BOOL",
    "f8": "F8_E5M2",
    "bf16": "BF16",
    **{f"i{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"F{bits}" for bits in (16, 32, 64)},
}


def export(file: OinfFile, target: str | os.PathLike[str], options: ExportOptions) -> tuple[Change, ...]:
    """Write all tensors with data; returns what is lost or altered. Raises `OinfError` and `OSError`."""
    tensors = [tensor for tensor in file.tensors() if tensor.has_data]
    require_exportable(tensors, options)
    texts, changes = _texts(file)
    # Larger elements first, so that all stay aligned without padding, as the format's own writer does.
    tensors.sort(key=lambda each: (-exported_type(each, options).bits, each.name))
    with AtomicFile.writing(target) as out:
        out.write_whole(_header(tensors, texts, options))
        for tensor in tensors:
            for block in _stored(tensor, options):
                out.write_whole(block)
    return (*plain_changes(file, tensors, options), *changes)


def _texts(file: OinfFile) -> tuple[dict[str, str], list[Change]]:
    texts: dict[str, str] = {}
    changes: list[Change] = []
    for name, value in file.metadata.items():
        if isinstance(value, str):
            texts[name.removesuffix(".utf8")] = value
        else:
            changes.append(Change("dropped", name, "metadata that is not text"))
    return texts, changes


def _header(tensors: list[StoredTensor], texts: dict[str, str], options: ExportOptions) -> bytes:
    entries: dict[str, object] = {"__metadata__": texts} if texts else {}
    start = 0
    for tensor in tensors:
        kind = exported_type(tensor, options)
        end = start + kind.stored_nbytes(tensor.size)
        entries[tensor.name] = {"dtype": _CODES[kind.name], "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    return len(text).to_bytes(8, "little") + text


def _stored(tensor: StoredTensor, options: ExportOptions) -> Blocks:
    if exported_type(tensor, options) == tensor.value_type:
        tensor.check_values()
        for block in stored_blocks(tensor):
            yield block
            advance(block.nbytes)
        return
    for block in exported_blocks(tensor, options):
        yield block.astype(block.dtype.newbyteorder("<"), copy=False).view(np.uint8)
