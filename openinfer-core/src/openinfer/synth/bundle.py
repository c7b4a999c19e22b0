"""Bundles: the files of a synthesised program, and writing them to a directory all at once or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKER = ".openinfer-bundle"
"""File that says that a directory was written by us, and lists what may be replaced in it."""

_FILE_NAME = re.compile(r"Makefile|[A-Za-z][A-Za-z0-9_]{0,40}\.[a-z0-9]{1,8}")
_PRODUCT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}(\.[a-z0-9]{1,8})?")


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files by name; ``products`` are names of files that building makes beside them.

    Names come from a fixed set of each target, never from a program or model; the constructor refuses anything that is
    no plain file name.
    """

    files: Mapping[str, bytes]
    products: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        wrong = [name for name in self.files if not _FILE_NAME.fullmatch(name)]
        wrong += [name for name in self.products if not _PRODUCT_NAME.fullmatch(name)]
        if wrong:
            raise SynthesisError(f"a synth target yielded the file name {wrong[0]!r}, which is no plain file name")
        object.__setattr__(self, "files", MappingProxyType(dict(sorted(self.files.items()))))

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(len(data) for data in self.files.values())


def write_bundle(bundle: Bundle, directory: str | os.PathLike[str]) -> Path:
    """Write the files to ``directory`` and return it.

    They are written to a new directory beside it, which then takes its place: there is never a half-written bundle.
    What is there already is replaced only if it is empty, or an earlier bundle with nothing else in it.

    Raises:
        SynthesisError: the directory holds something else, is the current one, or cannot be written.
    """
    target = Path(directory)
    try:
        _refuse_foreign(target)
        _replace(bundle, _resolved(target))
    except OSError as error:
        reason = error.strerror or str(error)
        raise SynthesisError(
            f"cannot write the bundle to {str(target)!r}: {reason}", code="output-directory"
        ) from error
    return target


def _resolved(target: Path) -> Path:
    """Return the path without ``.`` and ``..``; raise when it is the current directory or one around it."""
    resolved, current = target.resolve(), Path.cwd()
    if resolved == current or resolved in current.parents:
        message = f"{str(target)!r} is the current directory or one around it, which cannot be replaced"
        raise SynthesisError(f"{message}: give a directory inside it", code="output-directory")
    return resolved


def _refuse_foreign(target: Path) -> None:
    """Raise when the directory holds anything that an earlier bundle does not explain."""
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir() or target.is_symlink():
        raise SynthesisError(f"{str(target)!r} exists and is no directory", code="output-directory")
    present = {entry.name for entry in os.scandir(target)}
    foreign = sorted(present - _replaceable(target))
    if foreign:
        message = (
            f"{str(target)!r} holds {foreign[0]!r}, which is no part of a bundle: choose another directory, or empty it"
        )
        raise SynthesisError(message, code="output-directory")


def _replaceable(target: Path) -> frozenset[str]:
    marker = target / MARKER
    if not marker.is_file():
        return frozenset()
    listed = marker.read_text(encoding="ascii", errors="replace").splitlines()
    return frozenset(
        {MARKER, *(line for line in listed if _FILE_NAME.fullmatch(line) or _PRODUCT_NAME.fullmatch(line))}
    )


def _replace(bundle: Bundle, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(8)
    fresh, old = (target.parent / f".{target.name}.{token}.{suffix}" for suffix in ("new", "old"))
    try:
        _write_files(bundle, fresh)
        if target.exists():
            target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _write_files(bundle: Bundle, directory: Path) -> None:
    directory.mkdir()
    listed = "\n".join(sorted((*bundle.files, *bundle.products)))
    for name, data in (*bundle.files.items(), (MARKER, f"{listed}\n".encode("ascii"))):
        with (directory / name).open("xb") as stream:
            stream.write(data)
