"""The `oinf` command. Exit codes: 0 valid or done, 1 the file is invalid, 2 usage or input/output errors.

A command may set `invalid_status` where 1 means something else to it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import __version__, commands
from .errors import MISSING_EXTRA, NOT_A_FILE, USAGE, OinfError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001

INVALID, FAILED = 1, 2


def build_parser() -> argparse.ArgumentParser:
    """The parser with every subcommand that `openinfer_oinf.commands` has a module for."""
    parser = argparse.ArgumentParser(prog="oinf", description="Work with .oinf model containers.")
    parser.add_argument("--version", action="version", version=f"oinf {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}").add_to(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; `arguments` are those of the process unless given."""
    parsed = build_parser().parse_args(arguments)
    try:
        status = parsed.run(parsed)
        sys.stdout.flush()
    except OinfError as error:
        return _fail(status_of(error, getattr(parsed, "invalid_status", INVALID)), str(error))
    except BrokenPipeError:
        # The reader of our output has gone; standard output is pointed elsewhere so that exit stays quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _fail(FAILED, file_problem(error))
    except KeyError as error:
        return _fail(FAILED, str(error.args[0]))
    return int(status)


def status_of(error: OinfError, invalid: int = INVALID) -> int:
    """The exit code for an error: `invalid` where a file is at fault, 2 for usage and input/output."""
    return FAILED if error.code in (MISSING_EXTRA, NOT_A_FILE, USAGE) else invalid


def file_problem(error: OSError) -> str:
    """What the system says, and of which file."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _fail(status: int, message: str) -> int:
    sys.stderr.write(f"oinf: {message}\n")
    return status
