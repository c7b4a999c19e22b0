"""Checks of what lies in the data section: placement, metadata payloads and quant payloads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from .errors import Finding, Findings
from .layout import HAS_QUANT, LONGEST_GAP, U32, U64, is_name, up8
from .limits import Limits
from .quantpayload import HEADER as QUANT_HEADER
from .quantpayload import header_problems, padding_of
from .source import ByteSource
from .tables import Index, MetadataEntry, TensorEntry
from .valuecheck import reader_of, value_problem
from .valuetypes import LAST_TAG, by_tag

Problems = Iterator[tuple[str, str]]


class _Range(NamedTuple):
    start: int
    end: int
    table: str
    name: str


# Start and end of bytes after a payload that have to be zero: its padding, and what alignment left free.
Gap = tuple[int, int]
Gaps = dict[str, list[Gap]]


def check_placement(index: Index, source: ByteSource, findings: Findings) -> Gaps:
    """Find payloads that overlap and bytes of the data section that belong to nothing.

    Returns the gaps after payloads of tensors, by name. Their bytes stay unread: with many tensors, reading each
    would fetch a page of the data section for every one.
    """
    header = index.header
    gaps: Gaps = {}
    before = (header.offset_data, header.offset_data, "header", "")
    end = header.offset_data
    for current in sorted(_ranges(index)):
        start, stop = current[:2]
        if start < end:
            message = f"the payload overlaps that of {before[3]!r} ({before[2]} table)"
            findings.add(_at("E_OVERLAP", message, _Range(*current)))
        elif start > end:
            if before[2] == "tensors" and start - end < LONGEST_GAP:
                gaps.setdefault(before[3], []).append((end, start))
            else:
                _check_gap(source, _Range(*before), start, findings, gaps)
        if stop > end:
            before, end = current, stop
    if header.file_size > end:
        _check_last_gap(source, _Range(*before), header.file_size, findings, gaps)
    return gaps


def _ranges(index: Index) -> list[tuple[int, int, str, str]]:
    ranges = [(each.offset, each.offset + each.nbytes, "metadata", each.name) for each in index.metadata if each.nbytes]
    for name, _, _, _, _, nbytes, offset, quant_nbytes, quant_offset in index.tensors:
        if nbytes:
            ranges.append((offset, offset + nbytes, "tensors", name))
        if quant_nbytes:
            ranges.append((quant_offset, quant_offset + quant_nbytes, "tensors", name))
    return ranges


def _at(code: str, message: str, place: _Range) -> Finding:
    return Finding(code=code, message=message, offset=place.start, table=place.table, entry=place.name)


def _check_last_gap(source: ByteSource, before: _Range, end: int, findings: Findings, gaps: Gaps) -> None:
    padded = min(up8(before.end), end)
    if padded < end:
        message = f"{end - padded} bytes after the last payload belong to nothing"
        findings.add(_at("E_HOLE", message, _Range(before.end, end, before.table, before.name)))
    if padded > before.end:
        _check_gap(source, before, padded, findings, gaps)


def _check_gap(source: ByteSource, before: _Range, end: int, findings: Findings, gaps: Gaps) -> None:
    gap, place = (before.end, end), _Range(before.end, end, before.table, before.name)
    hole = end - min(up8(before.end), end)
    if hole >= LONGEST_GAP:
        findings.add(_at("E_HOLE", f"{hole} bytes after a payload belong to nothing", place))
    if before.table == "tensors":
        gaps.setdefault(before.name, []).append(gap)
        return
    for code, message in gap_problems(gap, source):
        findings.add(_at(code, message, place))


def gap_problems(gap: Gap, source: ByteSource) -> Problems:
    """Codes and messages of what a gap holds that is not zero; long ones have been reported already."""
    start, end = gap
    padded = min(up8(start), end)
    if any(source.view(start, padded - start)):
        yield "E_PADDING", "the padding after a payload is not zero"
    hole = end - padded
    if 0 < hole < LONGEST_GAP and any(source.view(padded, hole)):
        yield "E_HOLE", f"{hole} bytes after a payload belong to nothing"


def check_metadata(index: Index, source: ByteSource, limits: Limits, findings: Findings) -> None:
    """Check every metadata payload: sizes always, values as far as the eager limits reach."""
    budget = limits.eager_metadata_total
    for entry in index.metadata:
        eager = entry.nbytes <= min(limits.eager_metadata_bytes, budget)
        budget -= entry.nbytes if eager else 0
        for code, message in metadata_problems(entry, source, limits, values=eager):
            findings.add(Finding(code=code, message=message, offset=entry.offset, table="metadata", entry=entry.name))


def metadata_problems(entry: MetadataEntry, source: ByteSource, limits: Limits, *, values: bool) -> Problems:
    """Codes and messages of what is wrong with one metadata payload; value bytes are read on request."""
    kind = by_tag(entry.tag)
    if kind.kind == "str":
        yield from _string_problems(entry, source, limits)
    elif kind.kind == "bitset":
        yield from _bitset_problems(entry, source, values=values)
    elif kind.kind == "ndarray":
        yield from _array_problems(entry, source, limits, values=values)
    elif entry.nbytes != kind.stored_nbytes(1):
        yield "E_META_SIZE", f"{entry.nbytes} bytes where a {kind.name} takes {kind.stored_nbytes(1)}"
    else:
        problem = value_problem(reader_of(source.view(entry.offset, entry.nbytes)), kind, 1)
        if problem:
            yield "E_VALUE", problem


def _string_problems(entry: MetadataEntry, source: ByteSource, limits: Limits) -> Problems:
    length = U32.unpack(source.view(entry.offset, 4))[0] if entry.nbytes >= 8 else -1
    if length < 0 or entry.nbytes != up8(4 + length):
        yield "E_META_SIZE", f"{entry.nbytes} bytes do not hold exactly a string of {length} bytes"
        return
    if entry.nbytes > limits.eager_metadata_bytes:
        yield "E_LIMIT", f"a string of {length} bytes is longer than Limits.eager_metadata_bytes"
        return
    raw = bytes(source.view(entry.offset + 4, entry.nbytes - 4))
    if not is_name(raw[:length].decode("latin-1")):
        yield "E_VALUE", "a string value is made of one or more of the characters A-Z a-z 0-9 . _ -"
    if any(raw[length:]):
        yield "E_PADDING", "the padding after a string value is not zero"


def _bitset_problems(entry: MetadataEntry, source: ByteSource, *, values: bool) -> Problems:
    if entry.nbytes < 8:
        yield "E_META_SIZE", f"{entry.nbytes} bytes where a bitset takes at least 8"
        return
    head = source.view(entry.offset, 8)
    (count,), (nbytes,) = U32.unpack_from(head, 0), U32.unpack_from(head, 4)
    if nbytes != (count + 7) // 8 or entry.nbytes != up8(8 + nbytes):
        yield "E_META_SIZE", f"{entry.nbytes} bytes, {nbytes} of them bits, where a bitset of {count} was expected"
        return
    if not values:
        return
    stored = source.view(entry.offset + 8, entry.nbytes - 8)
    if count % 8 and stored[nbytes - 1] >> count % 8:
        yield "E_VALUE", "bits after the last of a bitset are not zero"
    if any(stored[nbytes:]):
        yield "E_PADDING", "the padding after a bitset is not zero"


def _array_problems(entry: MetadataEntry, source: ByteSource, limits: Limits, *, values: bool) -> Problems:
    if entry.nbytes < 8:
        yield "E_META_SIZE", f"{entry.nbytes} bytes where an array takes at least 8"
        return
    head = source.view(entry.offset, 8)
    (tag,), (ndim,) = U32.unpack_from(head, 0), U32.unpack_from(head, 4)
    if not 1 <= tag <= LAST_TAG or not by_tag(tag).is_element:
        yield "E_META_TYPE", f"value type {tag} is not an element type of arrays"
        return
    if ndim > limits.ndim:
        yield "E_NDIM", f"{ndim} dimensions are more than Limits.ndim ({limits.ndim})"
        return
    start = 8 + 8 * ndim
    if entry.nbytes < start:
        yield "E_META_SIZE", f"{entry.nbytes} bytes where an array of {ndim} dimensions takes at least {start}"
        return
    dims = source.view(entry.offset + 8, 8 * ndim)
    shape = tuple(U64.unpack_from(dims, 8 * axis)[0] for axis in range(ndim))
    element = by_tag(tag)
    product = math.prod(dim for dim in shape if dim)
    if product > limits.product or product * element.bits > 8 * limits.product:
        yield "E_DIM_OVERFLOW", f"the dimensions {shape} are too large"
        return
    nbytes = element.stored_nbytes(math.prod(shape))
    if entry.nbytes != up8(start + nbytes):
        yield "E_META_SIZE", f"{entry.nbytes} bytes where {element.name}{list(shape)} takes {up8(start + nbytes)}"
    elif values:
        stored = source.view(entry.offset + start, entry.nbytes - start)
        problem = value_problem(reader_of(stored[:nbytes]), element, math.prod(shape))
        if problem:
            yield "E_VALUE", problem
        if any(stored[nbytes:]):
            yield "E_PADDING", "the padding after an array is not zero"


def check_quant_headers(index: Index, source: ByteSource, findings: Findings) -> None:
    """Check the fixed part and the padding of every quant payload; scales and zero points stay unread."""
    for entry in index.tensors:
        if entry.flags & HAS_QUANT:
            for code, message in _quant_problems(entry, source):
                findings.add(
                    Finding(code=code, message=message, offset=entry.quant_offset, table="tensors", entry=entry.name)
                )


def _quant_problems(entry: TensorEntry, source: ByteSource) -> Problems:
    if entry.quant_nbytes < QUANT_HEADER.size:
        yield "E_QUANT", f"{entry.quant_nbytes} bytes where a quant payload takes at least {QUANT_HEADER.size}"
        return
    head = bytes(source.view(entry.quant_offset, QUANT_HEADER.size))
    problems = list(header_problems(head, entry.quant_nbytes, entry.shape))
    for problem in problems:
        yield "E_QUANT", problem
    if problems:
        return
    used = padding_of(head)
    if any(source.view(entry.quant_offset + used, entry.quant_nbytes - used)):
        yield "E_PADDING", "the padding after a quant payload is not zero"
