"""The argument that says which program is meant: a graph, its text or JSON, or the file of either."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from openinfer import dsl, serialize
from openinfer.boundary import public
from openinfer.diagnostics import Source
from openinfer.ir.graph import Graph

Program: TypeAlias = "Graph | Mapping[str, Any] | str | os.PathLike[str]"
"""A graph, its JSON document, its text or JSON text, the path object of a file, or the path of one that exists."""

_SUFFIXES = (".oi", ".json")
_BLANK = "\ufeff \t\r\n"
_TEXT_ONLY = frozenset("\n\r\0{};")
"""Characters that programs have and names of files do not."""


@public
def graph(program: Program, *, check: bool = False, strict: bool = False, name: str = "<text>") -> Graph:
    """Return the graph of a program (parsed and built: ``specification: language.phases``).

    All independent errors are reported at once: those of phase P, then B, then S, each in source order; the class of
    the exception is that of the first phase with an error.

    Args:
        program: the text of a program, or anything else that `Program` names.
        check: check the structure too (phase S); its warnings are in ``Graph.warnings`` then.
        strict: make every warning an error.
        name: how diagnostics call a text, such as a path.

    Raises:
        DslSyntaxError: the text does not match the grammar, or is not Unicode text; all findings.
        GraphError: the graph cannot be built; all findings.
        ValidationError: with ``check``, the structure is wrong; all findings.
        SerializationError: the JSON is not that of a graph; all findings.
        OSError: the file cannot be read.
        TypeError: it is none of these.
    """
    found = read(program, name=name, strict=strict)
    if isinstance(found, Source):
        return dsl.graph(found.text, check=check, strict=strict, name=found.name)
    return replace(found, warnings=(*found.warnings, *found.check(strict=strict))) if check else found


def read(program: Program, *, name: str = "<text>", strict: bool = False) -> Graph | Source:
    """Return a program text as it is, or the graph of what is not text.

    Raises:
        DslSyntaxError, SerializationError, OSError, TypeError: as `graph`.
    """
    if isinstance(program, Graph):
        return program
    if isinstance(program, Mapping):
        return serialize.GraphDeserialize.from_json(program, strict=strict)
    if isinstance(program, str):
        return read_file(program, strict=strict) if is_path(program) else read_text(program, name, strict=strict)
    if isinstance(program, os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not checked
        return read_file(program, strict=strict)
    expected = "expected a program: a Graph, its JSON document, program text, or the path of a file"
    raise TypeError(f"{expected}, found {type(program).__name__}")


def read_file(path: str | os.PathLike[str], *, strict: bool = False) -> Graph | Source:
    """Return the text of a file, or the graph of one whose name ends in ``.json``."""
    if Path(path).suffix == ".json":
        return serialize.GraphDeserialize.from_json(Path(path), strict=strict)
    return Source(str(path), dsl.text_of_file(path))


def read_text(text: str, name: str, *, strict: bool = False) -> Graph | Source:
    """Return a text, or the graph of JSON: what starts with ``{`` or ``[``, which no program does."""
    if text.lstrip(_BLANK).startswith(("{", "[")):
        return serialize.GraphDeserialize.from_json(text.lstrip("\ufeff"), strict=strict, name=name)
    return Source(name, text)


def is_program(text: str) -> bool:
    """Return whether a text is a program, JSON or the path of a file, rather than another name.

    Raises:
        FileNotFoundError: as `is_path`.
    """
    return not _TEXT_ONLY.isdisjoint(text) or text.lstrip(_BLANK).startswith("[") or is_path(text)


def is_path(text: str) -> bool:
    """Return whether a text is the name of a file: of one that exists, or by its ending.

    Raises:
        FileNotFoundError: it is by its ending, and there is no such file.
    """
    if not text or not _TEXT_ONLY.isdisjoint(text):
        return False
    try:
        exists = Path(text).is_file()
    except OSError:  # The name is too long.
        return False
    if not exists and text.endswith(_SUFFIXES):
        raise FileNotFoundError(errno.ENOENT, "there is no such program file", text)
    return exists
