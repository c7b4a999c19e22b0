"""JSON from files that are not trusted: repeated keys, wrong shapes and absurd nesting are errors of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from .model import source_error

INDEX_NBYTES = 100_000_000


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return table


def json_object(text: bytes, what: str) -> dict[str, object]:
    """The object that a text holds. Raises `OinfError` (E_SOURCE)."""
    try:
        value: object = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise source_error(f"{what} is no valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise source_error(f"{what} is no JSON object")
    return cast("dict[str, object]", value)


def json_file(path: Path) -> dict[str, object]:
    """The object that a file of at most 100 MB holds."""
    if path.stat().st_size > INDEX_NBYTES:
        raise source_error(f"{path.name} is larger than {INDEX_NBYTES} bytes")
    return json_object(path.read_bytes(), path.name)


def shard_paths(index: Path, names: dict[str, object]) -> dict[str, Path]:
    """The file of each tensor of a shard index: plain names of files beside the index.

    Raises `OinfError` (E_SOURCE) for anything that leads elsewhere.
    """
    paths: dict[str, Path] = {}
    for tensor, name in names.items():
        if not isinstance(name, str) or not name or name in (".", "..") or any(char in name for char in "/\\:\0"):
            raise source_error(f"{name!r:.80} is no plain file name", tensor)
        paths[tensor] = index.parent / name
    return paths
