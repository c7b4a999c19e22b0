"""Small valid containers that use every part of the format, and where their fields lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openinfer_oinf import (
    Bitset,
    OinfFile,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    ScalarValue,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
)
from openinfer_oinf.layout import FIELD_OFFSET
from openinfer_oinf.valuetypes import VALUE_TYPES

_QUANT_U32 = (0, 4, 8, 12, 48, 52)
_QUANT_U64 = (16, 24, 32, 40)


@dataclass(frozen=True)
class SeedFile:
    """A valid file, with the byte offsets of its 32-bit and 64-bit fields."""

    data: bytes
    words: tuple[int, ...]
    double_words: tuple[int, ...]


def seed_files() -> list[SeedFile]:
    """The files that mutations start from; equal in every run."""
    contents = [_empty(), _scalars(), _arrays(), _native(), _packed(), _quantised(), _declared(), _named()]
    blobs = [dataclass_to_oinf(each) for each in contents]
    blobs += [dataclass_to_oinf(each, version=1) for each in contents if each is not contents[5]]
    blobs += [dataclass_to_oinf(_native(), align=64), dataclass_to_oinf(_packed(), checksums=True)]
    blobs += [dataclass_to_oinf(_quantised(), align=16), dataclass_to_oinf(_quantised(), checksums=True)]
    return [_located(blob) for blob in blobs]


def _empty() -> dict[str, object]:
    return {}


def _scalars() -> dict[str, object]:
    numbers = {each.name: ScalarValue(min(1, each.high), each.name) for each in VALUE_TYPES if each.is_element}
    return {"sizevars": {"B": 4, "D": 0}, "metadata": {"mode": "fast", **numbers}}


def _arrays() -> dict[str, object]:
    return {
        "metadata": {
            "bits": Bitset([1, 0, 1]),
            "long": Bitset([1] * 17),
            "table": np.arange(6, dtype=np.int16).reshape(2, 3),
            "yes": np.array([True, False, True]),
            "four": ScalarValue([-8, 7, 1], "i4"),
            "text.utf8": "free text",
        }
    }


def _native() -> dict[str, object]:
    return {
        "sizevars": {"B": 2},
        "tensors": {
            "w0": np.array([[1.0, np.nan], [np.inf, -0.0]], np.float32),
            "w1": np.arange(3, dtype=np.int64),
            "w2": np.array([True, False, True]),
            "w3": TensorSpec([1.5, 2.5], dtype="bf16"),
            "w4": TensorSpec([1.5], dtype="f8"),
        },
    }


def _packed() -> dict[str, object]:
    return {
        "tensors": {
            "a": TensorSpec([-8, 7, 1], dtype="i4"),
            "b": TensorSpec([-1, 0, 1, 1, 0], dtype="t2"),
            "c": TensorSpec([-1, 1, 1], dtype="t1"),
            "d": TensorSpec([3, 0, 1], dtype="u2"),
        }
    }


def _quantised() -> dict[str, object]:
    per_channel = QuantParams("symmetric", QuantScale.per_channel(0, [0.5, 2]))
    both = QuantParams("asymmetric", QuantScale.per_tensor(0.25), QuantZeroPoint.per_tensor(-1))
    channels = QuantParams("asymmetric", QuantScale.per_channel(1, [1, 2]), QuantZeroPoint.per_channel(1, [0, 3]))
    return {
        "tensors": {
            "q0": TensorSpec(np.ones((2, 2), np.int8), quant=per_channel),
            "q1": TensorSpec([1, 2, 3], dtype="i4", quant=both),
            "q2": TensorSpec(np.ones((1, 2), np.uint8), quant=channels),
            "q3": UninitializedTensor("i8", (2,), quant=both),
        }
    }


def _declared() -> dict[str, object]:
    return {
        "tensors": {
            "none": np.zeros((0, 3), np.int32),
            "x": UninitializedTensor("f16", ()),
            "y": UninitializedTensor("f16", (0,)),
            "z": UninitializedTensor("f16", (2, 3, 4, 5, 6)),
        }
    }


def _named() -> dict[str, object]:
    names = ("a", "abcd", "abcde", "abcdefghijkl", "abcdefghijklm", "..")
    return {
        "sizevars": {name: at for at, name in enumerate(names)},
        "metadata": dict.fromkeys(names, 1),
        "tensors": {name: np.array([1], np.uint8) for name in names},
    }


def _located(blob: bytes) -> SeedFile:
    words = [FIELD_OFFSET[name] for name in ("version", "flags", "n_sizevars", "n_metadata", "n_tensors", "reserved")]
    sections = ("offset_sizevars", "offset_metadata", "offset_tensors", "offset_data", "file_size")
    double_words = [FIELD_OFFSET[name] for name in sections]
    with open_oinf(blob, verify="eager") as file:
        _locate_tables(file, words, double_words)
    return SeedFile(blob, tuple(words), tuple(double_words))


def _locate_tables(file: OinfFile, words: list[int], double_words: list[int]) -> None:
    for entry in file.index.sizevars:
        words.append(entry.position)
        double_words.append(_after_name(entry.position, entry.name))
    for row in file.index.metadata:
        fields = _after_name(row.position, row.name)
        words += [row.position, fields, fields + 4, row.offset, *([row.offset + 4] if row.nbytes >= 8 else [])]
        double_words += [fields + 8, fields + 16, *range(row.offset + 8, row.offset + row.nbytes - 7, 8)]
    for tensor in file.index.tensors:
        fields = _after_name(tensor.position, tensor.name)
        words += [tensor.position, fields, fields + 4, fields + 8]
        places = 2 * file.version
        double_words += range(fields + 12, fields + 12 + 8 * (len(tensor.shape) + places), 8)
        if tensor.quant_nbytes:
            words += [tensor.quant_offset + at for at in _QUANT_U32 if at < tensor.quant_nbytes]
            double_words += [tensor.quant_offset + at for at in _QUANT_U64]


def _after_name(position: int, name: str) -> int:
    return position + (4 + len(name) + 7) // 8 * 8
