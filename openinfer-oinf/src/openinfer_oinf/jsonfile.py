"""JSON from files that are not trusted: repeated keys, wrong shapes and absurd nesting are errors of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

from .errors import Finding, OinfError
from .source import require_regular_file

INDEX_NBYTES = 100_000_000

# Headers and indexes go three levels down; the parser goes a level into the processor's stack for each.
MAX_DEPTH = 64
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key occurs twice in an object")
    return table


def _rejected(code: str, message: str, entry: str | None = None) -> OinfError:
    return OinfError(Finding(code=code, message=message, entry=entry))


def json_object(text: bytes, what: str, code: str) -> dict[str, object]:
    """The object that a text holds, nested at most 64 deep. Raises `OinfError` with `code`."""
    if is_too_deep(text):
        raise _rejected(code, f"{what} is nested more than {MAX_DEPTH} deep")
    try:
        value: object = json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise _rejected(code, f"{what} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise _rejected(code, f"{what} is not a JSON object")
    return cast("dict[str, object]", value)


def is_too_deep(text: bytes) -> bool:
    """Whether brackets outside of texts lie in one another more than 64 deep."""
    depth = 0
    for bracket in _TEXT.sub(b"", text).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def json_file(path: Path, code: str) -> dict[str, object]:
    """The object that a regular file of at most 100 MB holds.

    Raises `OinfError` with `code`, or E_NOT_A_FILE; `OSError`.
    """
    require_regular_file(path)
    if path.stat().st_size > INDEX_NBYTES:
        raise _rejected(code, f"{path.name} is larger than {INDEX_NBYTES} bytes")
    return json_object(path.read_bytes(), path.name, code)


def shard_paths(index: Path, code: str) -> dict[str, Path]:
    """The file of each tensor that the `weight_map` of a shard index names: plain names of files in its folder.

    Raises `OinfError` with `code` for anything that leads elsewhere.
    """
    weight_map = json_file(index, code).get("weight_map")
    if not isinstance(weight_map, dict):
        raise _rejected(code, f"{index.name} has no object weight_map")
    paths: dict[str, Path] = {}
    for tensor, name in cast("dict[str, object]", weight_map).items():
        if not isinstance(name, str) or not name or name in (".", "..") or any(char in name for char in "/\\:\0"):
            raise _rejected(code, f"{name!r:.80} is not a plain file name", ascii(tensor)[1:-1])
        paths[tensor] = index.parent / name
    return paths
