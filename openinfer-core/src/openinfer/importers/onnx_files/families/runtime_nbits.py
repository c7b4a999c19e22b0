"""Products with weights that ONNX Runtime packs into 4 or 8 bits, block by block."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import BY_NAME
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import contributed
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array

BLOCKS = (16, 32, 64, 128, 256)


@contributed("MatMulNBits", attributes="K N accuracy_level bits block_size weight_prepacked")
def _matmul_nbits(node: Node) -> Value:
    """x [..., K] by the transpose of weights [N, K]: each block of a row has a scale, and perhaps a zero point."""
    node.refuse_inputs(g_idx=4)
    node.require("weight_prepacked", 0)
    bits, size = int(node.get("bits", 4)), int(node.get("block_size"))
    if bits not in (4, 8) or size not in BLOCKS:
        node.refuse(f"bits={bits} in blocks of {size}; expected 4 or 8 bits in blocks of {', '.join(map(str, BLOCKS))}")
    rows, length = int(node.get("N")), int(node.get("K"))
    blocks = -(-length // size)
    x, packed, scales, zeros = node.given(0), node.given(1), node.given(2), node.input(3)
    if not packed.is_known or (zeros is not None and not zeros.is_known):
        node.refuse("weights that the running program computes: they are unpacked at import")
    if blocks * size > length:
        # The last block of a row is full, whatever lies there: zeros of x leave it out.
        after = (0,) * (2 * x.rank - 1)
        x = node.call("pad", x, pads=(*after, blocks * size - length))
    weights = _unpacked(packed, bits, (rows, blocks * size), zeros is None)
    scale = node.reshaped(scales, (rows, blocks))
    if zeros is not None and zeros.dtype.is_float:
        node.refuse(f"zero points of {zeros.dtype}, expected u8")
    zero = None if zeros is None else _unpacked(zeros, bits, (rows, blocks), False)
    return node.call("qmatmul", x, weights, scale, zero, node.input(5), group_size=size, trans_w=True)


def _unpacked(value: Value, bits: int, shape: tuple[int, int], is_centred: bool) -> Value:
    """Return packed numbers as a matrix, read when it is needed; centred ones are signed, less the middle."""
    dtype = BY_NAME[f"{'i' if is_centred else 'u'}{bits}"]
    payload = Payload(dtype, shape, partial(_numbers, value.known, bits, shape, is_centred))
    return Value(value.name, dtype, tuple(shape), payload)


def _numbers(packed: Payload, bits: int, shape: tuple[int, int], is_centred: bool) -> Array:
    """Return numbers whose rows start at whole bytes, the first of two in the lower half of a byte."""
    numbers = packed.load().reshape(shape[0], -1)
    if bits == 4:
        numbers = np.stack([numbers & 15, numbers >> 4], axis=-1).reshape(shape[0], -1)
    numbers = numbers[:, : shape[1]]
    return (numbers.astype(np.int16) - (1 << bits - 1)).astype(np.int8) if is_centred else numbers
