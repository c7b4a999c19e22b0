"""Subcommands of plugins: click commands, called under a guard."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import click

from openinfer.errors import OpenInferError
from openinfer.plugins.crossing import crossing, fault, guarded, shown
from openinfer.plugins.types import load_object

if TYPE_CHECKING:
    from openinfer.plugins.crossing import Owner
    from openinfer.plugins.types import CommandSpec

_PASSING = (
    OpenInferError,
    OSError,
    SystemExit,
    click.ClickException,
    click.exceptions.Exit,
    click.Abort,
)
"""What a command raises on purpose: it may end the program, and files of the user may be unreadable."""


def opened_command(spec: CommandSpec, owner: Owner) -> click.Command:
    """Return the command that a plugin offers.

    Raises:
        PluginError: it cannot be imported, or is not a click command.
    """
    found = load_object(spec.command, owner)
    if not isinstance(found, click.Command):
        message = f"{spec.command} is {shown(found)} ({type(found).__name__}), expected a click command"
        raise fault(owner, f"command {spec.name!r}: {message}")
    with crossing(owner, f"copying command {spec.name}"):
        command = copy.copy(found)
    # What click calls of a command; a copy, since the plugin may call its own.
    for name in ("make_context", "invoke"):
        call = guarded(owner, f"command {spec.name}", getattr(command, name), passing=_PASSING)
        setattr(command, name, call)
    return command
