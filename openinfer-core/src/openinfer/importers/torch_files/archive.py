"""What is checked of a file before PyTorch reads it: parts of it could be code."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, cast

from openinfer.importers.onnx_files.failures import NUMERIC, broken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMPILED = "data/aotinductor/"
"""Folder of libraries that AOTInductor compiled, which PyTorch loads with the program."""

MOST_CONFIG_NBYTES = 1 << 27
"""Bytes of the largest list of weights."""


def check_archive(path: Path, torch: Any) -> None:
    """Refuse a file that is not an archive of `torch.export.save`, or that PyTorch would run code of to read it.

    Raises:
        ModelImportError: it is one of these.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, path.name, torch)
    except (OSError, zipfile.BadZipFile, zlib.error, *NUMERIC) as error:
        raise broken(f"{str(path)!r} is not a program of torch.export: {error}") from error


def _check(archive: zipfile.ZipFile, name: str, torch: Any) -> None:
    files = archive.namelist()
    if any(file.endswith("constants.pkl") or "/code/" in f"/{file}" for file in files):
        message = f"{name!r} is a TorchScript archive: export the module with `torch.export.export` instead"
        raise broken(f"{message}, and save that with `torch.export.save`")
    if not any(file.endswith(("models/model.json", "serialized_exported_program.json")) for file in files):
        raise broken(f"{name!r} has no program: expected a file of `torch.export.save`")
    compiled = next((file for file in files if COMPILED in file), None)
    if compiled is not None:
        raise broken(f"{name!r} has compiled libraries ({compiled}), which are never loaded: save the program alone")
    pickled = next(_pickled(archive), None)
    if pickled is not None:
        message = f"{name!r} holds {pickled!r} as a pickle, which runs code when it is read and is never opened"
        raise broken(f"{message}: save plain tensors only")
    for file in files:
        if file.endswith(".pt"):
            _check_tensors(archive, file, name, torch)


def _pickled(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield names of weights and constants that are stored as pickles."""
    for info in archive.infolist():
        if not info.filename.endswith("_config.json"):
            continue
        if info.file_size > MOST_CONFIG_NBYTES:
            raise ValueError(f"{info.filename} has {info.file_size} bytes")
        listed: Any = json.loads(archive.read(info))
        table = cast("dict[str, Any]", listed["config"])
        yield from (name for name, entry in table.items() if entry["use_pickle"])


def _check_tensors(archive: zipfile.ZipFile, file: str, name: str, torch: Any) -> None:
    """Refuse a file of `torch.save` with more than tensors and plain containers of them.

    PyTorch reads such a file with the full unpickler once the restricted one has failed.
    """
    data = archive.read(file)
    if not data:
        return
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except (pickle.UnpicklingError, EOFError, *NUMERIC) as error:
        message = f"{name!r} has objects other than tensors in {file!r}, whose pickle could run code"
        raise broken(f"{message}: export with tensors as example inputs ({type(error).__name__})") from error
