"""Reading and checking the 72 bytes that begin a container."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .errors import Finding, Findings, OinfError
from .layout import FIELD_OFFSET, HEADER_BYTES, MAGIC, VERSIONS, Header
from .limits import Limits
from .source import ByteSource

_TEXT_FORM = re.compile(rb"\s*[A-Za-z_][\w.]*\s*:=")
_BREAKS = str.maketrans("", "", "\t\n\r")


def _wrong(code: str, message: str, field: str, found: object = None, expected: object = None) -> Finding:
    return Finding(
        code=code,
        message=message,
        offset=FIELD_OFFSET[field],
        table="header",
        entry=field,
        found=found,
        expected=expected,
    )


def read_header(source: ByteSource, limits: Limits, findings: Findings) -> Header:
    """The header of a file, once its sections are known to lie in order inside the file.

    Raises `OinfError` with all that is wrong when the tables cannot be found from it.
    """
    blob = bytes(source.view(0, min(source.size, HEADER_BYTES)))
    if blob[: len(MAGIC)] != MAGIC[: len(blob)]:
        raise OinfError(_no_magic(blob))
    if len(blob) < HEADER_BYTES:
        message = f"{source.size} bytes are too few for a container, which has at least {HEADER_BYTES}"
        raise OinfError(Finding(code="E_TRUNCATED", message=message, offset=source.size))
    header = Header.unpack(blob)
    if header.version not in VERSIONS:
        message = f"format version {header.version} is not known; this reader knows 1 and 2"
        raise OinfError(_wrong("E_VERSION", message, "version"))
    findings.extend(_zero_fields(header))
    fatal = [*_size_findings(header, source.size), *_section_findings(header, limits)]
    findings.extend(fatal)
    if fatal:
        findings.raise_errors()
    return header


def _no_magic(blob: bytes) -> Finding:
    """The finding about a file that is not a container, by how it begins."""
    if _TEXT_FORM.match(blob):
        message = "this looks like the text form that came before the binary format; write it again as a container"
        return _wrong("E_MAGIC", message, "magic")
    if blob and blob.decode("latin-1").translate(_BREAKS).isprintable() and blob.isascii():
        return _wrong("E_MAGIC", "this is text, not an .oinf container", "magic")
    return _wrong("E_MAGIC", "not an .oinf container: it begins with other bytes", "magic", blob[: len(MAGIC)], MAGIC)


def _zero_fields(header: Header) -> Iterator[Finding]:
    if header.flags != 0:
        yield _wrong("E_HEADER_FLAGS", "header flags are set", "flags", header.flags, 0)
    if header.reserved != 0:
        yield _wrong("E_RESERVED", "the reserved header field is set", "reserved", header.reserved, 0)
    if any(header.padding):
        yield _wrong("E_PADDING", "header padding is not zero", "padding")


def _size_findings(header: Header, actual: int) -> Iterator[Finding]:
    if header.file_size != actual:
        message = "the file does not have the size that its header states (cut short, or something appended)"
        yield _wrong("E_FILE_SIZE", message, "file_size", actual, header.file_size)
    if header.file_size % 8:
        yield _wrong("E_ALIGN", "the file size is not a multiple of 8", "file_size", header.file_size, "8*n")


def _section_findings(header: Header, limits: Limits) -> Iterator[Finding]:
    low = HEADER_BYTES
    for field in ("offset_sizevars", "offset_metadata", "offset_tensors", "offset_data"):
        offset: int = getattr(header, field)
        if offset % 8:
            yield _wrong("E_ALIGN", "a section does not start at a multiple of 8", field, offset, "8*n")
        if not low <= offset <= header.file_size:
            expected = f"{low}..{header.file_size}"
            yield _wrong("E_SECTION_ORDER", "a section lies outside its order", field, offset, expected)
        low = max(low, offset)
    if header.offset_sizevars > HEADER_BYTES:
        gap = header.offset_sizevars - HEADER_BYTES
        yield _wrong("E_SECTION_GAP", f"{gap} bytes between header and sizevars", "offset_sizevars")
    if header.offset_data - HEADER_BYTES > limits.index_bytes:
        message = f"the index takes {header.offset_data - HEADER_BYTES} bytes (Limits.index_bytes)"
        yield _wrong("E_LIMIT", message, "offset_data", None, f"at most {limits.index_bytes}")
