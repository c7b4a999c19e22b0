"""Completion of command lines in shells: click's, and files where it has nothing to offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

if TYPE_CHECKING:
    import click

VARIABLE = "_OPENINFER_COMPLETE"
"""Environment variable by which the script of a shell asks for completions."""


class _Files(ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        items = super().get_completions(args, incomplete)
        # Most arguments and values of options are files.
        return items or ([] if incomplete.startswith("-") else [CompletionItem(incomplete, type="file")])


class _Bash(_Files, BashComplete):
    pass


class _Zsh(_Files, ZshComplete):
    pass


class _Fish(_Files, FishComplete):
    pass


_CLASSES: tuple[type[ShellComplete], ...] = (_Bash, _Zsh, _Fish)

SHELLS = tuple(completer.name for completer in _CLASSES)
"""Shells that have a script."""


def offer_files() -> None:
    """Let click answer the scripts with files where it has no completion of its own."""
    for completer in _CLASSES:
        add_completion_class(completer)


def script(root: click.Command, shell: str) -> str:
    """Return the script that completes the command ``openinfer`` in one of `SHELLS`."""
    kind = next(completer for completer in _CLASSES if completer.name == shell)
    completion = kind(root, {}, "openinfer", VARIABLE)
    # `source` of bash would run bash to learn its version.
    return completion.source_template % completion.source_vars()
