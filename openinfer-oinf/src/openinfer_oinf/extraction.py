"""One tensor of a container as a `.npy` file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .atomicfile import AtomicFile
from .progress import advance, expect
from .reader import OinfFile


def extract_npy(file: OinfFile, name: str, path: str | os.PathLike[str], *, dequantized: bool = False) -> None:
    """Write a tensor in NumPy's format, a block at a time, replacing `path` in one step.

    bf16 and f8 become float32, which holds them exactly; packed types int8 or uint8; `dequantized` writes real values
    as float32. Raises `AbsentNameError`, `OinfError` (E_UNINITIALIZED, E_VALUE) and `OSError`.
    """
    tensor = file.tensor(name)
    expect(tensor.nbytes)
    tensor.check_values()
    first = tensor.numbers(0, min(1, tensor.size))
    dtype: np.dtype[Any] = np.dtype(np.float32) if dequantized else first.dtype
    with AtomicFile.writing(path) as target:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tensor.shape}
        np.lib.format.write_array_header_2_0(target.file, header)
        for block in tensor.real_blocks() if dequantized else tensor.number_blocks():
            target.write_whole(block.astype(dtype, copy=False))
            advance(tensor.value_type.stored_nbytes(block.size))
