"""The three tables of a container as entries, with every check that needs no payload."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from struct import Struct
from typing import NamedTuple, TypeVar

from .errors import Finding, Findings
from .layout import (
    HAS_DATA,
    HAS_QUANT,
    KNOWN_FLAGS,
    METADATA_FIELDS,
    SMALLEST_METADATA,
    SMALLEST_SIZEVAR,
    SMALLEST_TENSOR,
    TENSOR_FIELDS,
    TENSOR_PLACES,
    U32,
    U64,
    Header,
)
from .limits import Limits
from .valuetypes import LAST_TAG, TENSOR_BITS

_NAME = re.compile(rb"[A-Za-z0-9._-]+")
_ALPHABET = bytes(code for code in range(128) if _NAME.fullmatch(bytes([code])))
_BITSET = 13


class SizevarEntry(NamedTuple):
    name: str
    position: int
    value: int


class MetadataEntry(NamedTuple):
    name: str
    position: int
    tag: int
    flags: int
    nbytes: int
    offset: int


class TensorEntry(NamedTuple):
    """A row of the tensor table; `position` is the file offset of the row."""

    name: str
    position: int
    tag: int
    shape: tuple[int, ...]
    flags: int
    nbytes: int
    offset: int
    quant_nbytes: int
    quant_offset: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Index:
    """Everything the tables of a file say."""

    header: Header
    sizevars: tuple[SizevarEntry, ...]
    metadata: tuple[MetadataEntry, ...]
    tensors: tuple[TensorEntry, ...]


class _UnreadableError(Exception):
    """The rest of a table cannot be read."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


@dataclass(slots=True)
class _Cursor:
    """A place in a table of `blob` (the file up to its data section)."""

    blob: bytes
    table: str
    position: int
    end: int
    limits: Limits
    findings: Findings

    def unreadable(self, code: str, message: str, offset: int, entry: str | None = None) -> _UnreadableError:
        return _UnreadableError(Finding(code=code, message=message, offset=offset, table=self.table, entry=entry))

    def report(self, code: str, message: str, offset: int, entry: str) -> None:
        self.findings.add(Finding(code=code, message=message, offset=offset, table=self.table, entry=entry))

    def name(self) -> str:
        """Read a name, leaving the cursor after its padding."""
        start, blob = self.position, self.blob
        if start + 8 > self.end:
            raise self.unreadable("E_TABLE_OVERRUN", "the table ends inside an entry", start)
        (length,) = U32.unpack_from(blob, start)
        text_end = start + 4 + length
        body = start + ((length + 11) & -8)
        if body > self.end:
            raise self.unreadable("E_STRING", f"a name of {length} bytes passes the end of its table", start)
        if length > self.limits.name_bytes:
            message = f"a name of {length} bytes is longer than Limits.name_bytes ({self.limits.name_bytes})"
            raise self.unreadable("E_LIMIT", message, start)
        raw = blob[start + 4 : text_end]
        name = raw.decode("ascii", "backslashreplace")
        if not _NAME.fullmatch(raw):
            message = "a name is made of one or more of the characters A-Z a-z 0-9 . _ -"
            self.report("E_NAME", message, start + 4, name)
        if any(blob[text_end:body]):
            self.report("E_PADDING", "the padding after a name is not zero", text_end, name)
        self.position = body
        return name

    def take(self, nbytes: int, name: str) -> int:
        """Step over `nbytes` bytes and return where they begin."""
        start = self.position
        if start + nbytes > self.end:
            raise self.unreadable("E_TABLE_OVERRUN", "the table ends inside an entry", start, name)
        self.position = start + nbytes
        return start


def read_tables(blob: bytes, header: Header, limits: Limits, findings: Findings) -> Index:
    """The entries of all three tables; what is wrong with them goes to `findings`."""

    def cursor(table: str, start: int, end: int) -> _Cursor:
        return _Cursor(blob, table, start, end, limits, findings)

    sizevars: list[SizevarEntry] = []
    metadata: list[MetadataEntry] = []
    tensors: list[TensorEntry] = []
    place = cursor("sizevars", header.offset_sizevars, header.offset_metadata)
    if _countable(place, header.n_sizevars, SMALLEST_SIZEVAR):
        _read_all(place, (_sizevar(place) for _ in range(header.n_sizevars)), sizevars, header.n_sizevars)
    place = cursor("metadata", header.offset_metadata, header.offset_tensors)
    if _countable(place, header.n_metadata, SMALLEST_METADATA):
        rows = (_metadata(place, header) for _ in range(header.n_metadata))
        _read_all(place, rows, metadata, header.n_metadata)
    place = cursor("tensors", header.offset_tensors, header.offset_data)
    if _countable(place, header.n_tensors, SMALLEST_TENSOR[header.version]):
        _read_all(place, _tensor_rows(place, header), tensors, header.n_tensors)
    _check_shared_names(findings, sizevars=sizevars, metadata=metadata, tensors=tensors)
    return Index(header, tuple(sizevars), tuple(metadata), tuple(tensors))


def _countable(cursor: _Cursor, count: int, smallest: int) -> bool:
    """Whether the section could hold so many entries: asked before any loop over them."""
    room = cursor.end - cursor.position
    limit = cursor.limits.entries_per_table
    if count > limit:
        message = f"{count} entries are more than Limits.entries_per_table ({limit})"
    elif count * smallest > room:
        message = f"{count} entries of at least {smallest} bytes do not fit in a section of {room} bytes"
    else:
        return True
    cursor.findings.add(
        Finding(code="E_COUNT", message=message, offset=cursor.position, table=cursor.table, found=count)
    )
    return False


_Entry = TypeVar("_Entry", SizevarEntry, MetadataEntry, TensorEntry)


def _read_all(cursor: _Cursor, rows: Iterator[_Entry], entries: list[_Entry], count: int) -> None:
    try:
        entries.extend(rows)
    except _UnreadableError as stop:
        # Rows before the one that cannot be read have been taken in; it may have no name to report.
        message = f"entry {len(entries) + 1} of {count}: {stop.finding.message}"
        cursor.findings.add(replace(stop.finding, message=message))
        return
    _check_table_end(cursor)
    _check_names(cursor, entries)


def _check_table_end(cursor: _Cursor) -> None:
    left = cursor.end - cursor.position
    if left > 7:
        code, message = "E_SECTION_GAP", f"{left} bytes between the table's end and the next section"
    elif any(cursor.blob[cursor.position : cursor.end]):
        code, message = "E_PADDING", "the padding after the table is not zero"
    else:
        return
    cursor.findings.add(Finding(code=code, message=message, offset=cursor.position, table=cursor.table))


def _check_names(cursor: _Cursor, entries: list[_Entry]) -> None:
    names = [entry.name for entry in entries]
    if len(set(names)) != len(names):
        seen: set[str] = set()
        for entry in entries:
            if entry.name in seen:
                cursor.report("E_DUPLICATE", "the name occurs twice in the table", entry.position, entry.name)
            seen.add(entry.name)
    elif len({name.lower() for name in names}) != len(names):
        _report_case(cursor, entries)
    if names != sorted(names):
        before, entry = next(pair for pair in pairwise(entries) if pair[1].name < pair[0].name)
        message = f"the table is not sorted by name: this one comes after {before.name!r}"
        cursor.report("W_ORDER", message, entry.position, entry.name)


def _report_case(cursor: _Cursor, entries: list[_Entry]) -> None:
    seen: dict[str, str] = {}
    for entry in entries:
        other = seen.setdefault(entry.name.lower(), entry.name)
        if other != entry.name:
            cursor.report("W_CASE", f"the name equals {other!r} ignoring case", entry.position, entry.name)


def _check_shared_names(
    findings: Findings,
    *,
    sizevars: list[SizevarEntry],
    metadata: list[MetadataEntry],
    tensors: list[TensorEntry],
) -> None:
    few = {entry.name for entry in (*sizevars, *metadata)}
    if len(few) == len(sizevars) + len(metadata) and few.isdisjoint([entry.name for entry in tensors]):
        return
    seen: dict[str, str] = {entry.name: "sizevars" for entry in sizevars}
    for table, entries in (("metadata", metadata), ("tensors", tensors)):
        for entry in entries:
            other = seen.setdefault(entry.name, table)
            if other != table:
                message = f"the name is in the {other} table, too"
                found = Finding(
                    code="W_SHARED_NAME", message=message, offset=entry.position, table=table, entry=entry.name
                )
                findings.add(found)


def _sizevar(cursor: _Cursor) -> SizevarEntry:
    position = cursor.position
    name = cursor.name()
    (value,) = U64.unpack_from(cursor.blob, cursor.take(8, name))
    return SizevarEntry(name, position, value)


def _metadata(cursor: _Cursor, header: Header) -> MetadataEntry:
    position = cursor.position
    name = cursor.name()
    fields = cursor.take(METADATA_FIELDS.size, name)
    entry = MetadataEntry(name, position, *METADATA_FIELDS.unpack_from(cursor.blob, fields))
    if not 1 <= entry.tag <= LAST_TAG:
        cursor.report("E_META_TYPE", f"unknown value type {entry.tag}", fields, name)
    if entry.flags != 0:
        cursor.report("E_META_FLAGS", f"metadata flags are {entry.flags}, not 0", fields + 4, name)
    _check_place(cursor, header, name, "value", entry.offset, entry.nbytes, fields + 16)
    return entry


def _check_place(cursor: _Cursor, header: Header, name: str, what: str, offset: int, nbytes: int, field: int) -> None:
    if offset % 8:
        cursor.report("E_ALIGN", f"{what} offset {offset} is not a multiple of 8", field, name)
    if not (header.offset_data <= offset and offset + nbytes <= header.file_size):
        message = (
            f"{what} bytes {offset}..{offset + nbytes} lie outside the data section "
            f"{header.offset_data}..{header.file_size}"
        )
        cursor.report("E_BOUNDS", message, field, name)


@cache
def _dims_struct(ndim: int) -> Struct:
    return Struct(f"<{ndim}Q")


def _tensor_rows(cursor: _Cursor, header: Header) -> Iterator[TensorEntry]:
    """The rows of the tensor table: runs of plain ones at once, the others field by field."""
    left = header.n_tensors
    while left:
        plain = _plain_tensors(cursor, header, left)
        yield from plain
        left -= len(plain)
        if left:
            yield _tensor(cursor, header)
            left -= 1


@cache
def _row_struct(ndim: int, places: int) -> Struct:
    return Struct(f"<III{ndim + places}Q")


def _plain_tensors(cursor: _Cursor, header: Header, count: int) -> list[TensorEntry]:
    """At most `count` rows of tensors with data and without quantisation, up to the first that raises a question.

    Nearly all rows of nearly all files are such, and opening is as quick as this loop; it checks everything that
    `_tensor` and `_diagnose` do. Zeros at the end of a name's field are its padding: no name ends in one.
    """
    blob, start, end, limits = cursor.blob, cursor.position, cursor.end, cursor.limits
    longest, ndims, product = limits.name_bytes, limits.ndim, limits.product
    first, last, places = header.offset_data, header.file_size, 2 * header.version
    number, entry, prod = U32.unpack_from, TensorEntry._make, math.prod
    entries: list[TensorEntry] = []
    while len(entries) < count and start + 8 <= end:
        (length,) = number(blob, start)
        body = start + ((length + 11) & -8)
        if not 0 < length <= longest or body + 12 > end:
            break
        raw = blob[start + 4 : body].rstrip(b"\0")
        (ndim,) = number(blob, body + 4)
        if len(raw) != length or raw.translate(None, _ALPHABET) or ndim > ndims:
            break
        row = _row_struct(ndim, places)
        if body + row.size > end:
            break
        values: tuple[int, ...] = row.unpack_from(blob, body)
        tag, flags, shape = values[0], values[2], values[3 : 3 + ndim]
        nbytes, offset, *quant = values[3 + ndim :]
        bits = prod(shape) * (TENSOR_BITS[tag] if tag <= LAST_TAG and tag != _BITSET else 0)
        if flags != HAS_DATA or not 0 < bits <= product or nbytes != (bits + 7) >> 3 or any(quant):
            break
        if offset % 8 or offset < first or offset + nbytes > last:
            break
        name = raw.decode("ascii")
        entries.append(entry((name, start, tag, shape, flags, nbytes, offset, *(quant or (0, 0)))))
        start = body + row.size
    cursor.position = start
    return entries


def _tensor(cursor: _Cursor, header: Header) -> TensorEntry:
    position = cursor.position
    name = cursor.name()
    blob = cursor.blob
    fields = cursor.take(12, name)
    tag, ndim, flags = TENSOR_FIELDS.unpack_from(blob, fields)
    if ndim > cursor.limits.ndim:
        message = f"{ndim} dimensions are more than Limits.ndim ({cursor.limits.ndim})"
        raise cursor.unreadable("E_NDIM", message, fields + 4, name)
    places = TENSOR_PLACES[header.version]
    dims_at = cursor.take(8 * ndim + places.size, name)
    shape = _dims_struct(ndim).unpack_from(blob, dims_at)
    where = places.unpack_from(blob, dims_at + 8 * ndim)
    if header.version == 1:
        where += (0, 0)
    entry = TensorEntry(name, position, tag, shape, flags, *where)
    _diagnose(cursor, header, entry, fields)
    return entry


def _diagnose(cursor: _Cursor, header: Header, entry: TensorEntry, fields: int) -> None:
    name, flags = entry.name, entry.flags
    places = fields + 12 + 8 * len(entry.shape)
    bits = TENSOR_BITS[entry.tag] if entry.tag <= LAST_TAG else 0
    if not bits:
        cursor.report("E_DTYPE", f"value type {entry.tag} is not a tensor type", fields, name)
    if entry.tag == _BITSET:
        cursor.report("W_BITSET", "a bitset tensor is read as one byte per element", fields, name)
    product = math.prod(dim for dim in entry.shape if dim)
    overflow = product > cursor.limits.product or product * max(bits, 1) > 8 * cursor.limits.product
    if overflow:
        cursor.report("E_DIM_OVERFLOW", f"the dimensions {entry.shape} are too large", fields + 12, name)
    if flags & ~KNOWN_FLAGS[header.version]:
        cursor.report("E_TENSOR_FLAGS", f"unknown bits in the flags {flags:#x}", fields + 8, name)
    if flags & HAS_DATA:
        _check_place(cursor, header, name, "data", entry.offset, entry.nbytes, places + 8)
        expected = (entry.size * bits + 7) >> 3
        if bits and not overflow and entry.nbytes != expected:
            message = f"{entry.nbytes} bytes of data where type and shape {entry.shape} need {expected}"
            cursor.report("E_DATA_SIZE", message, places, name)
    elif entry.offset or entry.nbytes:
        cursor.report("E_NODATA", "a tensor without data has a data offset or size", places, name)
    if header.version == 2:
        _diagnose_quant(cursor, header, entry, places + 16)


def _diagnose_quant(cursor: _Cursor, header: Header, entry: TensorEntry, field: int) -> None:
    if entry.flags & HAS_QUANT:
        _check_place(cursor, header, entry.name, "quant", entry.quant_offset, entry.quant_nbytes, field + 8)
    elif entry.quant_offset or entry.quant_nbytes:
        message = "a tensor without quantisation has a quant offset or size"
        cursor.report("E_NOQUANT", message, field, entry.name)
