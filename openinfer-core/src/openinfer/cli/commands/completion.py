"""`openinfer completion`: the script with which a shell completes commands, options and files."""

from __future__ import annotations

import click

from openinfer.cli.shell_completion import SHELLS, script
from openinfer.cli.terminal import print_document


@click.command(name="completion", short_help="Print the script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.option("--json", "as_json", is_flag=True, help="Print an object with the shell and the script.")
@click.pass_context
def command(context: click.Context, *, shell: str, as_json: bool) -> None:
    """Print the script for SHELL. Installed, it completes commands, options and files when the tab key is pressed.

    \b
    openinfer completion bash > ~/.local/share/bash-completion/completions/openinfer
    openinfer completion zsh > ~/.zfunc/_openinfer
    openinfer completion fish > ~/.config/fish/completions/openinfer.fish

    For zsh, `fpath+=~/.zfunc; autoload -Uz compinit; compinit` in ~/.zshrc reads the folder.
    """
    text = script(context.find_root().command, shell)
    if as_json:
        print_document({"shell": shell, "script": text})
    else:
        click.echo(text)
