"""`openinfer.toml`: options that the programs of a folder are used with, so that they are written once."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from openinfer.cli.findings import print_warnings
from openinfer.cli.graph_argument import STANDARD_INPUT
from openinfer.diagnostics import Diagnostic, Severity, near_or_known
from openinfer.errors import OpenInferError
from openinfer.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT_FILE = "openinfer.toml"

_SECTION = "program"

_CODE = "project-file"

_READ = "openinfer.program-options"

_PROBLEMS = "openinfer.project-file-problems"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """What a project file says about a program; None where it says nothing.

    Attributes:
        model: path of the model; the file has it relative to its own folder.
        device: device to run on.
        target: synth target.
        limits: as ``--limit``.
    """

    model: str | None = None
    device: str | None = None
    target: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict[str, int])


def program_options_of(program: str) -> ProgramOptions:
    """Return the options of a program by the project file in its folder, or in the nearest folder above that has one.

    What is wrong with the entries of other programs is a warning at the end of the command.

    Raises:
        OpenInferError: ``project-file``: the file is not a project file, or the entry of the program is wrong.
        OSError: it cannot be read.
    """
    if program == STANDARD_INPUT:
        return ProgramOptions()
    path = Path(os.path.abspath(program))  # noqa: PTH100 -- `resolve` would follow links to folders of other projects
    for folder in path.parents:
        file = folder / PROJECT_FILE
        if file.is_file():
            # Messages and models show the path as the program was named.
            named = file if Path(program).is_absolute() else Path(os.path.relpath(file))
            return _options(named, path.relative_to(folder).as_posix())
    return ProgramOptions()


def options_of_graph(context: click.Context) -> ProgramOptions:
    """Return the options of the argument GRAPH of a command, whose file is read once."""
    if _READ not in context.meta:
        graph = context.params.get("graph")
        context.meta[_READ] = program_options_of(graph) if isinstance(graph, str) else ProgramOptions()
    return context.meta[_READ]


def _options(file: Path, program: str) -> ProgramOptions:
    table = _table(file, _tables(file), (), {_SECTION})
    options = ProgramOptions()
    problems = _problems_of_others()
    # What is wrong with this entry is an error.
    problems[file.absolute(), program] = None
    for name, entry in _table(file, table.get(_SECTION, {}), (_SECTION,)).items():
        try:
            read = _entry(file, name, entry)
        except OpenInferError as error:
            if name == program:
                raise
            problems.setdefault((file.absolute(), name), str(error))
        else:
            options = read if name == program else options
    return options


def _entry(file: Path, program: str, value: object) -> ProgramOptions:
    if not (file.parent / program).is_file():
        raise _wrong(file, (_SECTION, program), f"no such program: names are relative to {file.parent}")
    entry = _table(file, value, (_SECTION, program), {option.name for option in fields(ProgramOptions)})
    texts = {key: value for key, value in entry.items() if key != "limits"}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise _wrong(file, (_SECTION, program, key), f"expected a text, found {value!r}")
    limits = _table(file, entry.get("limits", {}), (_SECTION, program, "limits"))
    for name, value in limits.items():
        if type(value) is not int or value < 1:
            raise _wrong(file, (_SECTION, program, "limits", name), f"expected a number of 1 or more, found {value!r}")
    model = texts.pop("model", None)
    return ProgramOptions(model=None if model is None else str(file.parent / model), limits=limits, **texts)


def _problems_of_others() -> dict[tuple[Path, str], str | None]:
    """Return problems by project file and program, which are printed once at the end of the running command.

    Programs that the command is about have None.
    """
    context = click.get_current_context().find_root()
    if _PROBLEMS not in context.meta:
        context.meta[_PROBLEMS] = problems = dict[tuple[Path, str], str | None]()
        if not context.resilient_parsing:
            context.call_on_close(lambda: print_warnings(map(_warning, filter(None, problems.values()))))
    return context.meta[_PROBLEMS]


def _warning(text: str) -> Diagnostic:
    return Diagnostic(code=_CODE, message=text, severity=Severity.WARNING)


def _tables(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(str(file)).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OpenInferError(f"{file}: not TOML: {error}", code=_CODE) from error


def _table(file: Path, value: object, place: tuple[str, ...], keys: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(file, place, f"expected a table, found {value!r}")
    table = cast("dict[str, Any]", value)
    unknown = next((key for key in table if keys is not None and key not in keys), None)
    if keys is not None and unknown is not None:
        raise _wrong(file, (*place, unknown), f"unknown key: {near_or_known(unknown, sorted(keys), 'the keys')}")
    return table


def _wrong(file: Path, place: tuple[str, ...], problem: str) -> OpenInferError:
    key = ".".join(part if part.isidentifier() else f'"{part}"' for part in place)
    return OpenInferError(f"{file}: {key}: {problem}", code=_CODE)
