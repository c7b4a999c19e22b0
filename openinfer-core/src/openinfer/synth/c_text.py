"""Comments and string literals for languages of the C family, from texts that may hold anything."""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(r"[^ -~]")
_BREAKS = re.compile(r"(?<=\*)(?=/)|(?<=/)(?=\*)|(?<=\?)(?=\?)")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-+.,:;()[]{}<>=!@#$^&*/|~'`%")


def comment(text: str) -> str:
    """Return ``text`` as one block comment on one line.

    Characters outside printable ASCII are shown as escapes (line ends and text direction marks among them); what would
    end or open a comment, or make a trigraph (``??/`` is a backslash in C99), is taken apart by a space.
    """
    shown = _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
    return f"/* {_BREAKS.sub(' ', shown)} */"


def string_literal(text: str) -> str:
    """Return ``text`` as a string literal of its UTF-8 bytes; all but plain characters are octal escapes.

    Raises:
        ValueError: the text has a null character, where C strings end.
    """
    if "\0" in text:
        raise ValueError(f"{text!r} has a null character: it cannot be a C string")
    data = text.encode("utf-8", "surrogatepass")
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in data) + '"'
