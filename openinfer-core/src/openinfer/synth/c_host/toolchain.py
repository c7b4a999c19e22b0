"""The system's C compiler, and programs run with a time limit."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic
from openinfer.errors import MissingDependencyError, SynthesisError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COMPILERS = ("cc", "gcc", "clang")
"""Names that are looked for, in order; the environment variable ``CC`` comes first."""

LONGEST_OUTPUT = 4000
"""Characters of a tool's messages that are shown."""

_MISTAKE = re.compile(r"\berror:|undefined reference|undefined symbol|multiple definition|cannot find", re.IGNORECASE)
"""What compilers and linkers write in the line that says what is wrong, which is not always the first."""


def find_compiler() -> tuple[str, ...]:
    """Return the path of a C compiler, or of its launcher, followed by the other words of ``CC``.

    Raises:
        MissingDependencyError: there is none.
    """
    named = _words(os.environ.get("CC", ""))
    for name, *arguments in [named] if named else [[name] for name in COMPILERS]:
        found = shutil.which(name)
        if found is not None:
            return (found, *arguments)
    looked = f"{named[0]!r}, which CC names" if named else ", ".join(COMPILERS)
    message = f"no C compiler found (looked for {looked}); install one, for example with `apt-get install gcc`"
    raise MissingDependencyError(message, code="no-compiler")


def compiler_command(flags: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the C compiler with its flags: options in ``CC`` come last, to take the place of a flag (``gcc -O0``).

    Words of ``CC`` in front of its first option are the command, such as ``ccache gcc``.

    Raises:
        MissingDependencyError: there is no compiler.
    """
    words = find_compiler()
    first = next((number for number, word in enumerate(words) if word.startswith("-")), len(words))
    return (*words[:first], *flags, *words[first:])


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise MissingDependencyError(
            f"CC is {command!r}, which is not a command: {error}", code="no-compiler"
        ) from error


def run_tool(arguments: Sequence[str], directory: Path, timeout: float, what: str, hint: str | None = None) -> str:
    """Run a program in a directory and return what it writes to standard output.

    Args:
        timeout: seconds after which it and everything that it started are ended.
        what: how messages call it.
        hint: what to do where it fails.

    Raises:
        SynthesisError: it cannot be started, fails, or takes too long.
    """
    try:
        process = subprocess.Popen(
            list(arguments),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise SynthesisError(f"{what} cannot be started: {error}", code="tool-failed") from error
    try:
        output, messages = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise SynthesisError(f"{what} took more than {timeout:g} s and was ended", code="tool-timeout") from None
    finally:
        _end(process)
    if process.returncode != 0:
        said = (messages.strip() or output.strip()).decode("utf-8", "replace")
        raise _failure(f"{what} failed with status {process.returncode}", said, hint)
    return output.decode("utf-8", "replace")


def _failure(failed: str, said: str, hint: str | None) -> SynthesisError:
    """Return an error with the first line that names one; a traceback shows the other lines too."""
    lines = said[:LONGEST_OUTPUT].splitlines()
    first = next((line for line in lines if _MISTAKE.search(line)), None)
    first = first or next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no message")
    more = f" (`openinfer --debug` shows all {len(lines)} lines)" if len(lines) > 1 else ""
    message = f"{failed}: {first}{more}"
    finding = Diagnostic(code="tool-failed", message=message, hint=hint)
    error = SynthesisError(message, code="tool-failed", diagnostics=(finding,))
    if more:
        error.add_note("\n".join(lines))
    return error


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children, if it still runs."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
