"""The language: program text to graph. Importing this package is cheap; the parser is opened by the first call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.boundary import public
from openinfer.diagnostics import Diagnostic, Source
from openinfer.errors import DslSyntaxError
from openinfer.ir.bulk import many_objects
from openinfer.regular_files import head_of, read_regular

if TYPE_CHECKING:
    import os

    from openinfer.dsl.reading import Reading
    from openinfer.dsl.syntax import Program
    from openinfer.ir.graph import Graph

__all__ = ["decoded", "graph", "load_graph", "parse", "text_of_file"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE_ORDER_MARK = "\ufeff"


def graph(text: str, *, check: bool = False, strict: bool = False, name: str = "<text>") -> Graph:
    """Return the graph of a program text (parsed and built: ``specification: language.phases``).

    All independent errors are reported at once: those of phase P, then B, then S, each in source order. The class of
    the exception is that of the first phase with an error.

    Args:
        text: the program.
        check: check the structure too (phase S); its warnings are in ``Graph.warnings`` then.
        strict: turn every warning into an error.
        name: how diagnostics call the text, such as a path.

    Raises:
        DslSyntaxError: the text does not match the grammar, or is not Unicode text; all findings.
        GraphError: the graph cannot be built; all findings.
        ValidationError: with ``check``, the structure is wrong; all findings.
    """
    from openinfer.dsl.reading import finished

    found = read_program(text, name=name)
    return finished(found, check=check, strict=strict)


def parse(text: str, *, name: str = "<text>") -> Program:
    """Return the syntax tree of a program text (phase P).

    Raises:
        DslSyntaxError: the text does not match the grammar; all findings.
    """
    from openinfer.dsl.parser import parse_program

    source = _source(text, name)
    with many_objects():
        return parse_program(source).program


def read_program(text: str, *, name: str = "<text>") -> Reading:
    """Return what can be read of a program text, with the errors of phases P and B as data.

    Raises:
        DslSyntaxError: it is not Unicode text.
    """
    from openinfer.dsl.reading import read

    source = _source(text, name)
    with many_objects():
        return read(source)


def _source(text: str, name: str) -> Source:
    """Return a text as a source.

    Raises:
        DslSyntaxError: ``not-text``: it contains half of a surrogate pair.
    """
    source = Source(name, text.removeprefix(_BYTE_ORDER_MARK))
    half = _SURROGATE.search(source.text)
    if half is not None:
        span = source.span(half.start(), half.end())
        finding = Diagnostic(code="not-text", message="not Unicode text: half of a surrogate pair", span=span)
        raise DslSyntaxError(str(finding), diagnostics=[finding], offset=half.start())
    return source


@public
def load_graph(path: str | os.PathLike[str], *, check: bool = False, strict: bool = False) -> Graph:
    """Return the graph of an ``.oi`` file (UTF-8); see `graph`.

    Raises:
        OSError: the file cannot be read.
        DslSyntaxError: it is not UTF-8, or as `graph`.
    """
    text = text_of_file(path)
    return graph(text, check=check, strict=strict, name=str(path))


def text_of_file(path: str | os.PathLike[str]) -> str:
    """Return the program text of a file of at most 64 MiB.

    Raises:
        OSError: the file cannot be read, is not a regular file, or is too large.
        DslSyntaxError: as `decoded`.
    """
    # A large model file is reported as a model file, not as a program that is too large.
    _refuse_model(head_of(path, 64), str(path))
    return decoded(read_regular(path), name=str(path))


def decoded(data: bytes, *, name: str) -> str:
    """Return program text from its bytes.

    Raises:
        DslSyntaxError: ``not-text``: they are not UTF-8, or those of a model file.
    """
    _refuse_model(data[:64], name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte {data[error.start]:#04x} at offset {error.start}"
        raise DslSyntaxError(f"{name}: not UTF-8 text: {place}", code="not-text", offset=error.start) from error


def _refuse_model(head: bytes, name: str) -> None:
    format_name = _model_format(head)
    if format_name is not None:
        message = f"{name}: this is a model file ({format_name}), not program text: give it as the model"
        raise DslSyntaxError(message, code="not-text")


def _model_format(head: bytes) -> str | None:
    """Return the name of the model format whose files start like this; binary files only, so programs never ask."""
    if b"\0" not in head:
        return None
    from openinfer.plugins.environment import Environment

    formats = Environment.default().model_formats.values()
    return next((known.name for known in formats if known.magic and head.startswith(known.magic)), None)
