"""The `oinf` command. Exit codes: 0 valid or done, 1 a file is invalid or cannot be read or written, 2 wrong usage,
3 a package for a format is not installed.

As shells count, 130 after an interrupt, 141 when the reader of the output has gone.

A command may set `invalid_status` where 1 means something else to it. With `--json` a failure is a document, too.
"""

from __future__ import annotations

import argparse
import importlib
import io
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import __version__, commands
from .argument_parser import USAGE_STATUS, ArgumentParser, UsageMistakeError
from .errors import MISSING_EXTRA, USAGE, OinfError
from .failures import Failure, file_failure, invalid_failure
from .standard_streams import claim_streams, discard_output
from .suggestions import did_you_mean

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001

INVALID = 1
MISSING = 3
INTERRUPTED = 130
BROKEN_PIPE = 141


def build_parser() -> argparse.ArgumentParser:
    """The parser with every subcommand that `openinfer_oinf.commands` has a module for."""
    return _parser_and_commands()[0]


def _parser_and_commands() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    parser = ArgumentParser(prog="oinf", description="Work with .oinf model containers.")
    parser.add_argument("--version", action="version", version=f"oinf {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}").add_to(subparsers)
    return parser, subparsers.choices


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; `arguments` are those of the process unless given.

    Raises `SystemExit`: with 2 for a command line that means nothing, with 0 after help and version.
    """
    _escape_unknown_letters()
    given = list(sys.argv[1:] if arguments is None else arguments)
    json = "--json" in (given[: given.index("--")] if "--" in given else given)
    try:
        claim_streams()
        try:
            return _run(given, json=json)
        finally:
            # Here rather than at the end of the interpreter, where it would be too late for an exit code.
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        return BROKEN_PIPE
    except OSError as error:
        return _fail(file_failure(error, _invalid_status(given)), json=False)


def _run(given: Sequence[str], *, json: bool) -> int:
    try:
        parsed = _parsed(given)
    except UsageMistakeError as mistake:
        raise SystemExit(_fail(mistake.failure, json=json)) from None
    invalid: int = getattr(parsed, "invalid_status", INVALID)
    try:
        return int(parsed.run(parsed))
    except OinfError as error:
        return _fail(invalid_failure(error, status_of(error, invalid)), json=json)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(file_failure(error, invalid), json=json)
    except KeyboardInterrupt:
        return _fail(Failure("interrupted", "interrupted", INTERRUPTED, lines=("interrupted",)), json=json)


def _escape_unknown_letters() -> None:
    """Show names that the terminal's encoding does not have as escapes, as standard error does by itself."""
    out: Any = sys.stdout
    if isinstance(sys.stdout, io.TextIOWrapper) and out.errors == "strict":
        out.reconfigure(errors="backslashreplace")


def _invalid_status(arguments: Sequence[str]) -> int:
    """The exit code of a command line that was not read, or whose output was lost: by the command that it names."""
    parser = _parser_and_commands()[1].get(_command(arguments) or "")
    return parser.get_default("invalid_status") or INVALID if parser is not None else INVALID


def _command(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser, known = _parser_and_commands()
    command = _command(arguments)
    if command is not None and command not in known:
        hint = did_you_mean(command, known) or "`oinf --help` lists them"
        parser.error(f"unknown command {command!r}: {hint}")
    return parser.parse_args(arguments)


def status_of(error: OinfError, invalid: int = INVALID) -> int:
    """The exit code for an error: `invalid` where a file is at fault, 2 for usage, 3 for an extra."""
    if error.code == MISSING_EXTRA:
        return MISSING
    return USAGE_STATUS if error.code == USAGE else invalid


def _fail(failure: Failure, *, json: bool) -> int:
    """Print a failure: as a document on standard output, or on standard error as text.

    A document that cannot be written becomes text.
    """
    try:
        if json:
            sys.stdout.write(failure.document() + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        discard_output()
        json = False
    if not json:
        sys.stderr.write(f"{failure.text}\n")
    return failure.exit_status
