"""Whether the message of a refusal is one that a reader can act on."""

from __future__ import annotations

import re

from openinfer.errors import OpenInferError

CODES = frozenset({"import-unsupported", "import-value"})
"""Codes with which an importer may refuse a valid model."""

UNCLEAR = re.compile(
    r"do not fit the operator|Traceback|object at 0x|<class|NoneType|line \d+, in |_[a-z]+\(|\b[A-Z]\w*Error\b"
)
"""What a message shows only where something was not expected: exceptions of Python, and names of ours."""


def unclear(error: OpenInferError) -> str | None:
    """Return what is wrong with a refusal of a valid model; None where nothing is."""
    if error.code not in CODES:
        return f"refused as {error.code}"
    match = UNCLEAR.search(str(error))
    return None if match is None else f"unclear refusal [{match[0]}]"
