"""The command `openinfer`: one module in `cli.commands` for each subcommand, found by scanning."""

from openinfer.cli.program import main

__all__ = ["main"]
