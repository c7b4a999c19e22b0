"""What belongs to the whole process and has to stay as it is while code of a plugin is imported or its hooks run."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def kept_process() -> Generator[None]:
    """Go back to the working directory afterwards, and to the recursion limit where it was lowered.

    Paths that a user gives are relative to the one; all of OpenInfer needs the other.
    """
    folder, limit = _folder(), sys.getrecursionlimit()
    try:
        yield
    finally:
        if sys.getrecursionlimit() < limit:
            sys.setrecursionlimit(limit)
        if folder is not None and _folder() != folder:
            with suppress(OSError):
                os.chdir(folder)


def _folder() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:  # It was removed.
        return None
