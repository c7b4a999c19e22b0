"""The FILES arguments of commands that take many programs: files, folders and standard input."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.cli.graph_argument import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM_SUFFIX = ".oi"


def program_files(arguments: Sequence[str]) -> list[str]:
    """Return the files that arguments name, each once, in the order given.

    A folder stands for the program texts (``*.oi``) in it and below, by name; hidden folders and folders reached by
    links are left out. Graphs as JSON are named themselves: a folder may hold any other JSON.
    """
    files: dict[str, str] = {}
    for argument in arguments:
        found = _below(argument) if argument != STANDARD_INPUT and Path(argument).is_dir() else (argument,)
        for file in found:
            files.setdefault(file if file == STANDARD_INPUT else os.path.realpath(file), file)
    return list(files.values())


def _below(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(here, name)
            if path.suffix == PROGRAM_SUFFIX and path.is_file():
                yield str(path)


def _raise(error: OSError) -> None:
    raise error
