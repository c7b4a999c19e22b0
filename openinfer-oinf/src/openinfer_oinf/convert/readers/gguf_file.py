"""Reads GGUF files (extra `gguf`). Dimensions are stored innermost first there, and are reversed.

Block types hold a scale for every 32 to 256 elements, which a container cannot express for the shape: they come as f32,
or, on request and for Q8_0 and Q4_0, as integers of shape [blocks, 32] with a scale for each block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...encoding import encode
from ...packing import pack
from ...quant import QuantParams, QuantScale
from ...valuetypes import value_type
from ..ggufcheck import check_gguf
from ..model import BLOCK_NBYTES, Blocks, Change, ReadOptions, SourceModel, SourceTensor, optional_module, source_error

NAME = "gguf"
SUFFIXES = (".gguf",)

_PLAIN = {"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"}
_BLOCK = 32
_EXACT = {"Q8_0": ("i8", 34), "Q4_0": ("i4", 18)}
# What the library raises for files that are not sound.
_BROKEN = (ValueError, KeyError, IndexError, TypeError, ArithmeticError, AttributeError, MemoryError)


def recognises(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    return head.startswith(b"GGUF")


def read(path: Path, options: ReadOptions) -> SourceModel:
    """The tensors and key-value pairs of a file. Raises `OinfError` (E_SOURCE, E_EXTRA) and `OSError`."""
    gguf = optional_module("gguf", "reading GGUF files")
    check_gguf(path)
    model = SourceModel(nbytes=path.stat().st_size)
    try:
        # An offset that wraps around would lead to other bytes of the file.
        with np.errstate(over="raise"):
            reader: Any = gguf.GGUFReader(str(path))
        for field in reader.fields.values():
            _add_field(model, field)
        for tensor in reader.tensors:
            _add(model, gguf, tensor, options)
    except _BROKEN as error:
        raise source_error(f"not a sound GGUF file: {type(error).__name__}: {error}") from error
    return model


def _add_field(model: SourceModel, field: Any) -> None:
    name = str(field.name)
    if name.startswith("GGUF."):
        return
    kinds = [each.name for each in field.types]
    value = field.contents()
    if kinds == ["STRING"]:
        model.metadata[f"{name}.utf8"] = value
    elif kinds in (["BOOL"], ["INT8"]) or (len(kinds) == 1 and kinds[0] in _NUMBERS):
        model.metadata[name] = np.array(value, _NUMBERS[kinds[0]])
    elif len(kinds) == 2 and kinds[0] == "ARRAY" and kinds[1] in _NUMBERS:
        model.metadata[name] = np.array(value, _NUMBERS[kinds[1]])
    else:
        model.changes.append(Change("dropped", name, f"a value of type {' of '.join(kinds)}"))


_NUMBERS = {
    "BOOL": "?",
    "FLOAT32": "f4",
    "FLOAT64": "f8",
    **{f"{sign}INT{bits}": f"{sign.lower() or 'i'}{bits // 8}" for sign in ("U", "") for bits in (8, 16, 32, 64)},
}


def _add(model: SourceModel, gguf: Any, tensor: Any, options: ReadOptions) -> None:
    name, kind_name = str(tensor.name), str(tensor.tensor_type.name)
    shape = tuple(int(dim) for dim in reversed(tensor.shape.tolist()))
    raw = tensor.data.reshape(-1).view(np.uint8)
    if kind_name in _PLAIN:
        kind = value_type(kind_name.lower())
        if raw.size != kind.stored_nbytes(math.prod(shape)):
            raise source_error(f"{raw.size} bytes do not hold {kind.name}{list(shape)}", name)
        model.tensors.append(SourceTensor(name=name, kind=kind, shape=shape, stored=lambda: iter([raw])))
    elif options.exact_blocks and kind_name in _EXACT:
        _add_exact(model, name, kind_name, shape, raw)
    else:
        _add_dequantised(model, gguf, tensor, shape, options)


def _add_exact(model: SourceModel, name: str, kind_name: str, shape: tuple[int, ...], raw: Any) -> None:
    dtype, width = _EXACT[kind_name]
    kind = value_type(dtype)
    blocks = raw.reshape(-1, width)
    scales = blocks[:, :2].copy().view("<f2").reshape(-1).astype(np.float32)
    change = Change("cast", name, f"{kind_name}{list(shape)} to {dtype}[{len(blocks)}, {_BLOCK}] with a scale each")

    def stored() -> Blocks:
        step = BLOCK_NBYTES // width
        for start in range(0, len(blocks), step):
            codes = blocks[start : start + step, 2:]
            if kind_name == "Q8_0":
                yield np.ascontiguousarray(codes).reshape(-1)
                continue
            # Low halves of the bytes are elements 0 to 15 of a block, high halves 16 to 31; codes are values + 8.
            values = np.concatenate([codes & 15, codes >> 4], axis=1).astype(np.int8) - np.int8(8)
            yield pack(values, kind)

    model.metadata[f"{name}.shape"] = np.array(shape, np.uint64)
    model.tensors.append(
        SourceTensor(
            name=name,
            kind=kind,
            shape=(len(blocks), _BLOCK),
            stored=stored,
            quant=QuantParams("symmetric", QuantScale.per_channel(0, scales)),
            changes=(change,),
        )
    )


def _add_dequantised(model: SourceModel, gguf: Any, tensor: Any, shape: tuple[int, ...], options: ReadOptions) -> None:
    name, kind_name = str(tensor.name), str(tensor.tensor_type.name)
    decode: Callable[[Any, Any], Any] = gguf.quants.dequantize

    def dequantize(blocks: Any) -> Any:
        # Scales may be infinite or NaN, which are kept.
        with np.errstate(all="ignore"):
            return decode(blocks, tensor.tensor_type)

    rows = tensor.data.reshape(-1, tensor.data.shape[-1])
    try:
        width = dequantize(rows[:1]).shape[-1]
    except NotImplementedError:
        model.refuse(options, name, f"blocks of {kind_name}, which the library gguf cannot decode")
        return
    if width * len(rows) != math.prod(shape):
        raise source_error(f"{len(rows)} rows of {width} values do not make {list(shape)}", name)

    def stored() -> Blocks:
        step = max(1, BLOCK_NBYTES // (4 * max(width, 1)))
        for start in range(0, len(rows), step):
            values = dequantize(rows[start : start + step])
            yield encode(np.ascontiguousarray(values, np.float32).reshape(-1), value_type("f32"))

    change = Change("cast", name, f"{kind_name} to f32 by decoding its blocks")
    kind = value_type("f32")
    model.tensors.append(SourceTensor(name=name, kind=kind, shape=shape, stored=stored, changes=(change,)))
