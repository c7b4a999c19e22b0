"""What commands say of a file that they have written."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from .errors import shown
from .sizes import size_text


def written_text(target: str | os.PathLike[str]) -> str:
    """One line: the file and its size."""
    return f"written {shown(os.fspath(target))} ({size_text(Path(target).stat().st_size)})"


def written_json(target: str | os.PathLike[str]) -> dict[str, object]:
    """The same as plain data."""
    return {"path": os.fspath(target), "nbytes": Path(target).stat().st_size}


def print_written(target: str | os.PathLike[str], *, as_json: bool, **facts: object) -> None:
    """Print what was written: a line, or a document with `written` and further facts."""
    if as_json:
        sys.stdout.write(json.dumps({"written": written_json(target), **facts}, indent=1) + "\n")
    else:
        sys.stdout.write(f"{written_text(target)}\n")
