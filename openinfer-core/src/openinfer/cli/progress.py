"""Progress of commands: for work of more than two seconds, on a terminal, and not with ``--json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from openinfer.cli.terminal import wants_document
from openinfer_oinf.progress import progress_bar

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from openinfer.simulate import Executor, Simulator


def progress(label: str, *, quiet: bool = False) -> AbstractContextManager[None]:
    """Return a context in which the running command shows how long it takes, or how much of what it counts is done.

    Work that can be counted calls `openinfer_oinf.progress.expect` and `openinfer_oinf.progress.advance`.

    Args:
        label: what the command does.
        quiet: show nothing, as for work that reports each of its steps itself.
    """
    context = click.get_current_context(silent=True)
    return progress_bar(label, quiet=quiet or (context is not None and wants_document(context)))


def made_executor(simulator: Simulator) -> Executor:
    """Return the executor of a simulator; a device may plan and compile the program first.

    Raises:
        OpenInferError: as `openinfer.simulate.Simulator.make_executor`.
    """
    with progress(f"preparing the program for {simulator.device}"):
        return simulator.make_executor()
