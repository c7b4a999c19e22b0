"""Files that commands write: complete, or unchanged after a failure."""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.regular_files import naming
from openinfer_oinf.atomicfile import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_DESCRIPTORS = re.compile(r"/dev|/proc/\d+(?:/task/\d+)?/fd")
"""Folders whose entries are open files of a process, such as ``/dev/stdout``, and devices."""


@contextmanager
def writing(path: str | os.PathLike[str]) -> Generator[Callable[[bytes], object]]:
    """Yield a function that writes to a file, which replaces the one at ``path`` at the end of the block.

    After an error the file at ``path`` stays as it was. Devices, pipes and open files of the process, such as
    ``/dev/stdout``, cannot be replaced and are written to at once.

    Raises:
        OSError: the file cannot be written; the error names ``path``.
    """
    if _is_stream(path):
        # What a shell appends to keeps what it has.
        with naming(path), Path(path).open("ab") as stream:
            yield stream.write
        return
    with AtomicFile.writing(path) as unfinished:
        yield unfinished.write_whole


def _is_stream(path: str | os.PathLike[str]) -> bool:
    if _DESCRIPTORS.fullmatch(os.path.realpath(Path(path).parent)):
        return True
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
