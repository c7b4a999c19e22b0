"""Earlier module name: alignment, names and String fields of containers."""

from __future__ import annotations

# Makes the package importable from a checkout in which it is not installed.
import dataclass_to_oinf  # noqa: F401

from openinfer_oinf.errors import Finding, OinfError
from openinfer_oinf.layout import align_up, check_name, encode_string, is_name, up8

__all__ = ["OinfError", "align_up", "check_key", "encode_string", "read_string"]


def check_key(text: str) -> str:
    """Return a name that may be written; raise `OinfError` (E_NAME) for any other."""
    return check_name(text, "metadata")


def read_string(blob: bytes, offset: int) -> tuple[str, int]:
    """The String field at an offset, and the offset after its padding. Raises `OinfError` (E_STRING, E_NAME)."""
    length = int.from_bytes(blob[offset : offset + 4], "little")
    end = offset + up8(4 + length)
    if offset < 0 or end > len(blob):
        message = f"a string of {length} bytes passes the end of {len(blob)} bytes"
        raise OinfError(Finding(code="E_STRING", message=message, offset=offset))
    text = blob[offset + 4 : offset + 4 + length].decode("latin-1")
    if not is_name(text):
        message = "a string is made of one or more of the characters A-Z a-z 0-9 . _ -"
        raise OinfError(Finding(code="E_NAME", message=message, offset=offset))
    return text, end
