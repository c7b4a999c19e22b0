"""Bundles: the files of a synthesised program, and writing them to a directory all at once or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TypeAlias

from openinfer.diagnostics import counted
from openinfer.errors import SynthesisError
from openinfer.synth.swapping import exchange
from openinfer_oinf.staging import locked, remove_abandoned, shortened, staged_for, staging_directory, staging_name

MARKER = ".openinfer-bundle"
"""File that lists the SHA-256 and the name of every file of a bundle. Only files with these contents are replaced."""

_FOLDERS = r"(?:[A-Za-z][A-Za-z0-9_]{0,40}/){0,3}"
_FILE_NAME = re.compile(
    rf"{_FOLDERS}(?:Makefile|Kconfig|[A-Za-z][A-Za-z0-9_]{{0,40}}(?:\.[A-Za-z0-9_]{{1,40}})?\.[A-Za-z0-9]{{1,10}})"
)
_PRODUCT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}(\.[a-z0-9]{1,8})?")
_MARKER_LINE = re.compile(r"(?P<digest>[0-9a-f]{64})  (?P<name>.+)")
_LONGEST_MARKER = 2**20
_REPLACED = ".replaced"
"""Suffix of an earlier bundle that waits for the new one, where the system cannot exchange two directories."""

_Listing: TypeAlias = dict[str, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files by name; ``products`` are names of files that building makes next to them.

    Names come from a fixed set of each target, never from a program or model; the constructor refuses anything that is
    not a plain file name, or one in up to three plain folders: ``examples/infer/main.c``.
    """

    files: Mapping[str, bytes]
    products: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        wrong = [name for name in self.files if not _FILE_NAME.fullmatch(name)]
        wrong += [name for name in self.products if not _PRODUCT_NAME.fullmatch(name)]
        if wrong:
            raise ValueError(f"expected plain file names with a suffix, found {wrong[0]!r}")
        object.__setattr__(self, "files", MappingProxyType(dict(sorted(self.files.items()))))

    def __repr__(self) -> str:
        return f"<Bundle: {counted(len(self.files), 'file')}, {self.nbytes:,} bytes>"

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(len(data) for data in self.files.values())


def write_bundle(bundle: Bundle, directory: str | os.PathLike[str]) -> Path:
    """Write the files to ``directory`` and return it.

    They are written to a new directory next to it, which then takes its place: there is never a half-written bundle.
    What is there already is replaced only if it is empty, or an earlier bundle whose files are as they were written.
    What building made of an earlier bundle is kept. What killed runs left next to the directory is removed.

    Raises:
        SynthesisError: the directory holds something else, is the current one or a temporary one, or cannot be written.
    """
    target = Path(directory)
    try:
        if target.is_symlink():
            raise _not_a_directory(str(target))
        _replace(bundle, _resolved(target), str(target))
    except OSError as error:
        reason = error.strerror or str(error)
        raise SynthesisError(
            f"cannot write the bundle to {str(target)!r}: {reason}", code="output-directory"
        ) from error
    return target


def _resolved(target: Path) -> Path:
    """Return the path without ``.`` and ``..``; raise when it is a directory that cannot be replaced."""
    resolved, current = target.resolve(), Path.cwd()
    if resolved == current or resolved in current.parents:
        message = f"{str(target)!r} is the current directory or one around it, which cannot be replaced"
        raise SynthesisError(f"{message}: give a directory inside it", code="output-directory")
    if staged_for(resolved.name) is not None:
        # Its owner has a lock on the directory itself: one in its place would pass for abandoned.
        message = f"{str(target)!r} is the temporary directory of a running program, which cannot be replaced"
        raise SynthesisError(f"{message}: give a directory inside it", code="output-directory")
    return resolved


def _refuse_foreign(directory: Path, bundle: Bundle, name: str) -> _Listing:
    """Raise when a directory holds anything but an earlier bundle and its products; return what it holds.

    Args:
        name: how messages call the directory.
    """
    if not directory.exists():
        return {}
    if not directory.is_dir():
        raise _not_a_directory(name)
    listing = _listing(directory)
    recorded = _recorded(directory)
    folders = {str(parent) for path in map(PurePosixPath, recorded) for parent in path.parents[:-1]}
    # The user's files are named rather than a marker that does not explain them.
    for entry in sorted(_entries(directory, "", folders), key=lambda entry: (entry == MARKER, entry)):
        reason = _foreign(directory / entry, entry, recorded, bundle)
        if reason is not None:
            message = f"{name!r} holds {entry!r}, {reason}: move it away, or choose another directory"
            raise SynthesisError(message, code="output-directory")
    return listing


def _entries(directory: Path, before: str, folders: Collection[str]) -> Iterator[str]:
    """Yield the names of what is in a directory, in place of some of its folders what is in these."""
    for entry in directory.iterdir():
        name = f"{before}{entry.name}"
        if name in folders and entry.is_dir() and not entry.is_symlink():
            yield from _entries(entry, f"{name}/", folders)
        else:
            yield name


def _listing(directory: Path) -> _Listing:
    """Return what changes with the files of a directory and its folders: inode, size and time of each."""
    found = {str(entry.relative_to(directory)): entry.lstat() for entry in directory.rglob("*")}
    return {name: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}


def _foreign(entry: Path, name: str, recorded: Mapping[str, str], bundle: Bundle) -> str | None:
    """Return the reason why an entry must not be replaced, or None for a part of a bundle.

    Args:
        name: its path in the directory of the bundle.
    """
    is_file = entry.is_file() and not entry.is_symlink()
    if is_file and name == MARKER:
        return None if recorded else "which records no contents of files"
    if is_file and name in bundle.products:
        return None
    if name not in recorded or not is_file:
        return "which is not part of a bundle"
    return None if _digest(entry) == recorded[name] else "which was changed since it was written"


def _recorded(directory: Path) -> Mapping[str, str]:
    """Return the digests of the files that a bundle was written with, by name; none where there is no bundle."""
    marker = directory / MARKER
    if marker.is_symlink() or not marker.is_file() or marker.stat().st_size > _LONGEST_MARKER:
        return {}
    lines = map(_MARKER_LINE.fullmatch, marker.read_text(encoding="ascii", errors="replace").splitlines())
    return {line["name"]: line["digest"] for line in lines if line is not None}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _replace(bundle: Bundle, target: Path, name: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent):
        _recover(target)
        checked = _refuse_foreign(target, bundle, name)
    with ExitStack() as stack, staging_directory(target.parent, target.name) as fresh:
        _write_files(bundle, fresh)
        # Released after the staging directory is removed: runs that write to one place take turns.
        stack.enter_context(locked(target.parent))
        _keep_products(bundle, target, fresh)
        with locked(target):
            _swap(fresh, target)
            if fresh.exists() and _listing(fresh) != checked:
                _refuse_late(fresh, target, bundle, name)


def _refuse_late(earlier: Path, target: Path, bundle: Bundle, name: str) -> None:
    """Put an earlier bundle back when something foreign came to be in it after it was checked."""
    try:
        _refuse_foreign(earlier, bundle, name)
    except SynthesisError:
        _swap(earlier, target)
        raise


def _write_files(bundle: Bundle, directory: Path) -> None:
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in bundle.files.items()]
    for name, data in (*bundle.files.items(), (MARKER, "".join(lines).encode("ascii"))):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        with (directory / name).open("xb") as stream:
            stream.write(data)


def _keep_products(bundle: Bundle, target: Path, fresh: Path) -> None:
    """Give a new bundle what was built of the one before: older than its sources, so `make` builds it again."""
    for name in bundle.products:
        product = target / name
        if product.is_file() and not product.is_symlink():
            try:
                os.link(product, fresh / name)
            except OSError:
                shutil.copy2(product, fresh / name)


def _swap(fresh: Path, target: Path) -> None:
    """Move a directory to its place; exchange it with the directory that is there, if any."""
    if not target.exists():
        fresh.rename(target)
    elif not exchange(fresh, target):
        replaced = target.with_name(f"{staging_name(target.name)}{_REPLACED}")
        target.rename(replaced)
        try:
            fresh.rename(target)
        except OSError:
            replaced.rename(target)
            raise
        replaced.rename(fresh)


def _recover(target: Path) -> None:
    """Remove what killed runs left; put the earlier bundle back where one was killed between two renames."""
    for entry in target.parent.iterdir():
        staged = entry.name.removesuffix(_REPLACED)
        if staged != entry.name and staged_for(staged) == shortened(target.name):
            entry.rename(target.with_name(staged) if target.exists() else target)
    remove_abandoned(target.parent)


def _not_a_directory(name: str) -> SynthesisError:
    return SynthesisError(f"{name!r} exists and is not a directory", code="output-directory")
