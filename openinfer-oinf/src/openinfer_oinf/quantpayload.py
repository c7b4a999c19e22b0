"""Bytes of a quant payload, both ways (``specification: container.values.5``)."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

import numpy as np

from .arrays import as_bytes
from .layout import up8
from .quant import QuantParams, QuantScale, QuantZeroPoint
from .valuetypes import ValueType

HEADER = Struct("<IIIIQQQQ")
_SCHEMES = {1: "symmetric", 2: "asymmetric"}
PER_TENSOR, PER_CHANNEL = 1, 2


def encode_quant(quant: QuantParams) -> bytes:
    """The payload, its padding included; `quant` has a non-negative axis."""
    zero_point = quant.zero_point
    mode = PER_TENSOR if quant.scale.axis is None else PER_CHANNEL
    axis = quant.scale.axis or 0
    zeros = b"" if zero_point is None else zero_point.values.astype("<i4").tobytes()
    head = HEADER.pack(
        1 if quant.scheme == "symmetric" else 2,
        mode,
        0 if zero_point is None else mode,
        0,
        axis,
        quant.scale.values.size,
        0 if zero_point is None else axis,
        len(zeros) // 4,
    )
    payload = head + quant.scale.values.astype("<f4").tobytes() + zeros
    return payload.ljust(up8(len(payload)), b"\0")


def header_problems(head: bytes, nbytes: int, shape: tuple[int, ...]) -> Iterator[str]:
    """What the first 48 bytes of a payload of `nbytes` bytes have wrong, for a tensor of `shape`."""
    scheme, scale_mode, zp_mode, reserved, scale_axis, scale_count, zp_axis, zp_count = HEADER.unpack(head)
    if scheme not in _SCHEMES:
        yield f"scheme {scheme} is neither 1 (symmetric) nor 2 (asymmetric)"
    if scale_mode not in (PER_TENSOR, PER_CHANNEL):
        yield f"scale mode {scale_mode} is neither 1 (per tensor) nor 2 (per channel)"
    if zp_mode not in (0, scale_mode):
        yield f"zero point mode {zp_mode} does not go with scale mode {scale_mode}"
    if scheme == 1 and zp_mode != 0:
        yield "a symmetric scheme has a zero point"
    if reserved != 0:
        yield f"the reserved field is {reserved}, not 0"
    yield from _part_problems("scale", scale_mode, scale_axis, scale_count, shape)
    yield from _part_problems("zero point", zp_mode, zp_axis, zp_count, shape)
    if zp_mode == PER_CHANNEL and zp_axis != scale_axis:
        yield f"zero point axis {zp_axis} differs from scale axis {scale_axis}"
    if nbytes != up8(HEADER.size + 4 * scale_count + 4 * zp_count):
        yield f"{nbytes} bytes do not hold exactly {scale_count} scales and {zp_count} zero points"


def _part_problems(what: str, mode: int, axis: int, count: int, shape: tuple[int, ...]) -> Iterator[str]:
    if mode != PER_CHANNEL:
        if axis != 0:
            yield f"{what} axis is {axis} although it is not per channel"
        if count != mode:
            yield f"{what} count is {count}, not {mode}"
    elif axis >= len(shape):
        yield f"{what} axis {axis} of a tensor with {len(shape)} dimensions"
    elif count != shape[axis]:
        yield f"{what} count is {count}, not {shape[axis]} as dimension {axis}"


def padding_of(head: bytes) -> int:
    """Where the padding of a payload with a sound header begins."""
    fields = HEADER.unpack(head)
    return HEADER.size + 4 * fields[5] + 4 * fields[7]


def decode_quant(payload: memoryview) -> QuantParams:
    """The parameters of a payload whose header has been found sound."""
    scheme, mode, zp_mode, _, axis, scale_count, _, zp_count = HEADER.unpack(payload[: HEADER.size])
    channel_axis = axis if mode == PER_CHANNEL else None
    values = as_bytes(payload)[HEADER.size :]
    scales = values[: 4 * scale_count].view("<f4").astype(np.float32)
    zeros = values[4 * scale_count : 4 * (scale_count + zp_count)].view("<i4").astype(np.int32)
    for array in (scales, zeros):
        array.flags.writeable = False
    zero_point = QuantZeroPoint(channel_axis, zeros) if zp_mode else None
    return QuantParams("symmetric" if scheme == 1 else "asymmetric", QuantScale(channel_axis, scales), zero_point)


def value_findings(quant: QuantParams, value_type: ValueType) -> Iterator[tuple[str, str]]:
    """Codes and messages about the values of sound parameters: what a reader warns of or refuses."""
    scales = quant.scale.values
    if not np.isfinite(scales).all():
        yield "E_QUANT_VALUE", f"scale {int(np.flatnonzero(~np.isfinite(scales))[0])} is NaN or infinite"
    elif not (scales > 0).all():
        yield "W_QUANT_VALUE", f"scale {int(np.flatnonzero(scales <= 0)[0])} is zero or negative"
    if not value_type.is_integer:
        yield "W_QUANT_DTYPE", f"quantisation parameters on a tensor of {value_type.name}"
    elif quant.zero_point is not None:
        zeros = quant.zero_point.values
        if ((zeros < value_type.low) | (zeros > value_type.high)).any():
            yield "W_QUANT_VALUE", f"a zero point lies outside {value_type.low}..{value_type.high}"
