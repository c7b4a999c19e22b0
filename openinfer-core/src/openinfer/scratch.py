"""Private temporary directories that a later run removes when their process was killed."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from openinfer_oinf.staging import remove_abandoned, staging_directory


@contextmanager
def scratch_directory() -> Generator[Path]:
    """A new directory of mode 0700 for temporary files, removed at the end."""
    base = Path(tempfile.gettempdir())
    remove_abandoned(base)
    with staging_directory(base, "openinfer", mode=0o700) as directory:
        yield directory
