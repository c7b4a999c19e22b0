"""An argument parser whose mistakes are raised: they are printed like other failures, as text or as JSON."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, NoReturn

from .errors import USAGE
from .failures import Failure

USAGE_STATUS = 2

_OPTIONAL = re.compile(r" \[-[^]]*\]")


class UsageMistakeError(Exception):
    """A command line that the parser does not accept."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises `UsageMistakeError` and writes nothing by itself but help and version."""

    def error(self, message: str) -> NoReturn:
        lines = (f"error[{USAGE}]: {message}", f"  help: usage: {self._form()}; `{self.prog} --help` lists the options")
        raise UsageMistakeError(Failure(USAGE, message, USAGE_STATUS, lines=lines))

    def _form(self) -> str:
        """The usage on one line, with one word for the options that may be left out."""
        usage = " ".join(self.format_usage().split()).removeprefix("usage: ").removeprefix(self.prog)
        return f"{self.prog} [OPTIONS]{_OPTIONAL.sub('', usage)}"

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse ignores that help and version cannot be written.
        (file or sys.stderr).write(message)
