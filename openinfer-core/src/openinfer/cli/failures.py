"""Errors at the end of a command: what is printed, and the exit code.

0 done, 1 the input is wrong, 2 usage (click's own), 3 something is missing in the environment. Also, as shells count:
130 after an interrupt, 141 when whoever read the output went away.
"""

from __future__ import annotations

import os
import sys
import traceback
from itertools import islice
from pathlib import Path
from typing import Any

import click

from openinfer.cli.findings import as_json
from openinfer.cli.terminal import print_document, wants_colour, width_of
from openinfer.diagnostics import Diagnostic, did_you_mean, near_names, render
from openinfer.errors import DeviceError, MissingDependencyError, OpenInferError
from openinfer_oinf.standard_streams import discard_output

WRONG_INPUT = 1
MISSING_DEPENDENCY = 3
INTERRUPTED = 130
BROKEN_PIPE = 141

DEVICE_UNAVAILABLE = "device-unavailable"
"""Code of a `DeviceError` about a device that is known but cannot be used here."""

_MOST_FILES = 1000
"""Names in a folder that are compared with that of a missing file."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of a command that ended with ``error``."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if isinstance(error, click.ClickException):
        return error.exit_code
    missing = isinstance(error, MissingDependencyError)
    unavailable = isinstance(error, DeviceError) and error.code == DEVICE_UNAVAILABLE
    return MISSING_DEPENDENCY if missing or unavailable else WRONG_INPUT


def report(error: BaseException, *, debug: bool, json: bool = False) -> int:
    """Print an error to standard error, with ``debug`` its traceback first; with ``json`` as a document instead.

    A document that cannot be written becomes text. Returns the exit code.
    """
    if debug and not isinstance(error, BrokenPipeError):
        traceback.print_exception(error)
    try:
        if isinstance(error, BrokenPipeError):
            raise error
        if json:
            print_document(failure(error))
            return exit_code(error)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        return BROKEN_PIPE
    except OSError:
        discard_output()
    sys.stderr.write(f"{rendered(error, colour=wants_colour(sys.stderr), width=width_of(sys.stderr))}\n")
    return exit_code(error)


def failure(error: BaseException) -> dict[str, Any]:
    """Return an error as the document that commands with ``--json`` print of it."""
    found = findings_of(error)
    return {
        "error": {
            "code": found[0].code,
            "message": found[0].message,
            "exit_status": exit_code(error),
            "findings": [as_json(finding) for finding in found],
        }
    }


def rendered(error: BaseException, *, colour: bool = False, width: int | None = None) -> str:
    """Return an error as it is shown: every finding with its carets, excerpts cut to ``width`` columns."""
    if isinstance(error, KeyboardInterrupt):
        return "".join(("interrupted", *(f" {note}" for note in getattr(error, "__notes__", ()))))
    return "\n".join(render(finding, colour=colour, width=width) for finding in findings_of(error))


def findings_of(error: BaseException) -> tuple[Diagnostic, ...]:
    """Return the findings of an error; for one without any, its message as one."""
    if isinstance(error, OpenInferError):
        found = tuple(finding for finding in error.diagnostics if isinstance(finding, Diagnostic))
        return found or (Diagnostic(code=error.code, message=str(error)),)
    if isinstance(error, KeyboardInterrupt):
        return (Diagnostic(code="interrupted", message="interrupted"),)
    if isinstance(error, click.ClickException):
        return (Diagnostic(code="usage", message=_mistake(error), hint=_form(error)),)
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename else ""
        return (Diagnostic(code="file", message=f"{error.strerror or error}{place}", hint=_near_file(error)),)
    message = (
        f"{type(error).__name__}: {error}; this is a mistake in OpenInfer or a plugin, `openinfer --debug` shows where"
    )
    return (Diagnostic(code="internal", message=message),)


def _mistake(error: click.ClickException) -> str:
    """Return what is wrong with a command line, as other errors say it: without a capital and a full stop."""
    if isinstance(error, click.NoSuchOption):
        near = did_you_mean(error.option_name, error.possibilities or ())
        return f"unknown option {error.option_name}{f': {near}' if near else ''}"
    message = error.format_message().removesuffix(".")
    return f"{message[:1].lower()}{message[1:]}" if message[1:2].islower() else message


def _form(error: click.ClickException) -> str | None:
    """Return the form of the command that was called wrongly, and where its options are listed."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return None
    form = " ".join((context.command_path, *context.command.collect_usage_pieces(context)))
    return f"usage: {form}; `{context.command_path} {context.help_option_names[-1]}` lists the options"


def _near_file(error: OSError) -> str | None:
    """Return "did you mean …?" for a file that is missing where one of a like name is in its folder."""
    if not isinstance(error, FileNotFoundError) or not isinstance(error.filename, str):
        return None
    folder, name = os.path.split(error.filename)
    try:
        with os.scandir(folder or ".") as entries:
            near = near_names(name, (each.name for each in islice(entries, _MOST_FILES)), count=1)
    except OSError:
        return None
    return f"did you mean `{Path(folder) / near[0]}`?" if near and near[0] != name else None
