"""What commands say of a file that they have written."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import shown
from .sizes import size_text


def written_text(target: str | os.PathLike[str]) -> str:
    """One line: the file and its size."""
    return f"written {shown(os.fspath(target))} ({size_text(Path(target).stat().st_size)})"


def written_json(target: str | os.PathLike[str]) -> dict[str, object]:
    """The same as plain data."""
    return {"path": os.fspath(target), "nbytes": Path(target).stat().st_size}
