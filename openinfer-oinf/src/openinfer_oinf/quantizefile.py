"""Writing a container again with float tensors quantised, in memory for a block whatever the size of a tensor."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .arrays import Array, widened
from .errors import USAGE, Finding, OinfError
from .progress import advance, expect
from .quant import QuantParams, Scheme, real_range
from .quantization import (
    ErrorSums,
    QuantizationError,
    Wide,
    bounded,
    checked_clip,
    checked_type,
    parameters,
    stored_numbers,
)
from .reader import OinfFile, open_oinf
from .rewrite import copy_tables, declare_like, stored_blocks, writer_like
from .source import Openable
from .tensor import StoredTensor
from .valuetypes import ValueType
from .writer import OinfWriter, WriteTarget

_BLOCK = 1 << 18  # elements; each is in memory in several forms of 8 bytes


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions:
    """How and which tensors are quantised: float tensors whose names match `include` and not `exclude`.

    Vectors and scalars, and tensors in which every element would have a scale of its own, lose more than they save:
    they stay as they are, unless `include` has their very name.
    """

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
        if not self._saves(tensor) and tensor.name not in self.include:
            return False
        return _matches(tensor.name, self.include) and not _matches(tensor.name, self.exclude)

    def _saves(self, tensor: StoredTensor) -> bool:
        return tensor.ndim > 1 and (self.axis is None or tensor.shape[self.axis] < tensor.size)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def quantize_oinf(source: Openable, target: WriteTarget, options: QuantizeOptions) -> dict[str, QuantizationError]:
    """Write a file again with its matching float tensors quantised; returns the error of each, by name.

    Tensors are read twice, for their scales and for their values, a block at a time. Raises `OinfError`: E_USAGE when
    no tensor matches, E_VALUE for NaN and infinities, and as `quantize_array`; `OSError`.
    """
    kind, clip = checked_type(options.dtype, options.scheme), checked_clip(options.clip)
    errors: dict[str, QuantizationError] = {}
    with (
        open_oinf(source) as file,
        writer_like(file, target, 2, 8) as writer,
    ):
        expect(sum(_work(tensor, kind, options) for tensor in file.tensors()))
        chosen = _declare_all(file, writer, kind, clip, options)
        for tensor in file.tensors():
            quant = chosen.get(tensor.name)
            if quant is not None:
                sums = ErrorSums()
                writer.write(tensor.name, _stored(tensor, kind, quant, clip, sums))
                errors[tensor.name] = sums.error()
            elif tensor.has_data:
                writer.write_raw(tensor.name, stored_blocks(tensor))
    return errors


def _work(tensor: StoredTensor, kind: ValueType, options: QuantizeOptions) -> int:
    """Bytes that are read, read again, and written of a tensor; only written where it stays as it is."""
    return 2 * tensor.nbytes + kind.stored_nbytes(tensor.size) if options.applies_to(tensor) else tensor.nbytes


def _declare_all(
    file: OinfFile, writer: OinfWriter, kind: ValueType, clip: float | None, options: QuantizeOptions
) -> dict[str, QuantParams]:
    """Declare every tensor; returns the parameters of those that are to be quantised."""
    copy_tables(file, writer)
    chosen: dict[str, QuantParams] = {}
    for tensor in file.tensors():
        if options.applies_to(tensor):
            axis = None if options.axis is None else options.axis % tensor.ndim
            quant = chosen[tensor.name] = parameters(*_ranges(tensor, axis, clip), kind, options.scheme, axis)
            writer.declare(tensor.name, kind, tensor.shape, quant=quant)
        else:
            declare_like(writer, tensor)
    if not chosen:
        patterns = ", ".join(options.include)
        message = (
            f"none of {len(file)} tensors is a float tensor with such an axis and a name that matches {patterns}; "
            "tensors of rank 1 have to be named"
        )
        raise OinfError(Finding(code=USAGE, message=message, table="tensors"))
    return chosen


class ChannelBlock(NamedTuple):
    """Elements from `first` on in C order, as `shape` [around, channels, within] of `channels` of an axis."""

    first: int
    shape: tuple[int, int, int]
    channels: slice

    @property
    def last(self) -> int:
        return self.first + math.prod(self.shape)


def channel_blocks(shape: tuple[int, ...], axis: int | None, limit: int = _BLOCK) -> Iterator[ChannelBlock]:
    """Blocks of at most `limit` elements that cover a tensor in C order; one channel for all of it without an axis."""
    outer = 1 if axis is None else math.prod(shape[:axis])
    count = 1 if axis is None else shape[axis]
    inner = math.prod(shape if axis is None else shape[axis + 1 :])
    if not outer * count * inner:
        return
    if count * inner <= limit:
        step = limit // (count * inner)
        for at in range(0, outer, step):
            yield ChannelBlock(at * count * inner, (min(step, outer - at), count, inner), slice(0, count))
        return
    group = max(1, limit // inner)
    for at in range(outer):
        for channel in range(0, count, group):
            taken = min(group, count - channel)
            first = (at * count + channel) * inner
            for start in range(0, inner, limit):
                part = (1, taken, min(limit, inner - start))
                yield ChannelBlock(first + start, part, slice(channel, channel + taken))


def _real_blocks(tensor: StoredTensor, axis: int | None, clip: float | None) -> Iterator[tuple[ChannelBlock, Wide]]:
    for block in channel_blocks(tensor.shape, axis):
        real = widened(tensor.numbers(block.first, block.last))
        try:
            real = bounded(real, clip).reshape(block.shape)
        except OinfError as error:
            raise OinfError(tensor.finding(error.code, error.first.message, tensor.offset)) from error
        yield block, real
        advance(tensor.value_type.stored_nbytes(real.size))


def _ranges(tensor: StoredTensor, axis: int | None, clip: float | None) -> tuple[Wide, Wide]:
    """Least and greatest value of each channel, both widened to hold 0."""
    tensor.check()
    low, high = (np.zeros(1 if axis is None else tensor.shape[axis]) for _ in range(2))
    for block, real in _real_blocks(tensor, axis, clip):
        low[block.channels] = np.minimum(low[block.channels], real.min(axis=(0, 2)))
        high[block.channels] = np.maximum(high[block.channels], real.max(axis=(0, 2)))
    return low, high


def _stored(
    tensor: StoredTensor, kind: ValueType, quant: QuantParams, clip: float | None, sums: ErrorSums
) -> Iterator[Array]:
    """Stored numbers, block by block; how far they are from the real ones goes to `sums`."""
    for block, real in _real_blocks(tensor, quant.scale.axis, clip):

        def spread(values: Array, channels: slice = block.channels) -> Array:
            return values[channels].reshape(1, -1, 1)

        stored = stored_numbers(real, quant, kind, spread).reshape(-1)
        original = real.reshape(-1) if clip is None else widened(tensor.numbers(block.first, block.last))
        sums.add(original, real_range(stored, quant, tensor.shape, block.first))
        yield stored
