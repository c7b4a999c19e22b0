"""Names what a command waits for: an import of a plugin that hangs, and threads that outlive the command."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openinfer.diagnostics import printable
from openinfer.plugins.crossing import BLOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Generator
    from types import FrameType

    from openinfer.plugins.crossing import Owner

IMPORT_S = 10.0
"""Seconds after which an import is named. Large libraries take a few when their files are read for the first time."""

THREADS_S = 2.0
"""Seconds after the end of a command after which the threads that keep its process alive are named."""


@contextmanager
def naming_slow_import(owner: Owner, action: str, module: str) -> Generator[None]:
    """Say on standard error which plugin is waited for, if the block takes long and the plugin is a third party's.

    Nothing is waited for where the module is there already: starting a thread takes longer than that.
    """
    if not owner.is_foreign or module in sys.modules:
        yield
        return
    advice = f"to keep it out: openinfer --plugins-block {owner.plugin} ..., or {BLOCK}={owner.plugin}"
    text = f"still waiting for {owner}: {action} has not ended after {IMPORT_S:g} s; {advice}"
    timer = _timer(IMPORT_S, text)
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def naming_threads_left() -> Generator[None]:
    """Say on standard error, if the process is still there a while after the block, which threads of it are not done.

    Python waits at its end for every thread that is not a daemon.
    """
    before = {*threading.enumerate()}
    try:
        yield
    finally:
        left = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
        if left:
            timer = threading.Timer(THREADS_S, _name_threads, [left])
            timer.daemon = True
            timer.start()


def _name_threads(threads: Collection[threading.Thread]) -> None:
    for thread in threads:
        if thread.is_alive():
            _say(
                f"the command has ended, and its process waits for thread {thread.name!r}{_place(thread)}: "
                "the plugin that started it has to end it, or make it a daemon"
            )


def _place(thread: threading.Thread) -> str:
    """Return where a thread began its own code, in parentheses; empty where that cannot be found."""
    # Documented, whatever its name says; nothing else has the frames of another thread.
    frame: FrameType | None = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    outermost = None
    while frame is not None:
        if frame.f_code.co_filename != threading.__file__:
            outermost = frame
        frame = frame.f_back
    if outermost is None:
        return ""
    return f" ({outermost.f_code.co_qualname}, {outermost.f_code.co_filename}:{outermost.f_lineno})"


def _timer(seconds: float, text: str) -> threading.Timer:
    timer = threading.Timer(seconds, _say, [text])
    timer.daemon = True
    timer.start()
    return timer


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)
