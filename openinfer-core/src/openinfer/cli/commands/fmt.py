"""`openinfer fmt`: program text laid out anew, comments kept."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from openinfer.cli.graph_argument import STANDARD_INPUT
from openinfer.dsl import decoded, text_of_file
from openinfer.dsl.formatting import formatted
from openinfer.dsl.upgrade import upgraded
from openinfer.regular_files import read_bounded
from openinfer_oinf.atomicfile import AtomicFile


@click.command(name="fmt", short_help="Lay out program texts in place.")
@click.argument("files", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a file is not laid out.")
@click.option("--upgrade", is_flag=True, help="Rewrite the earlier syntax where its meaning is clear.")
@click.pass_context
def command(ctx: click.Context, *, files: tuple[str, ...], check: bool, upgrade: bool) -> None:
    """Lay out program text FILES in place; - reads standard input and writes standard output.

    Every statement stands on one line, indented by two spaces a level. Order and comments stay as they are; a comment
    inside a statement moves in front of it.
    """
    others = 0
    for file in files:
        before = _read(file)
        name = "<standard input>" if file == STANDARD_INPUT else file
        after = upgraded(before, name=name) if upgrade else formatted(before, name=name)
        others += before != after
        if check:
            if before != after:
                click.echo(f"{file}: not laid out")
        elif file == STANDARD_INPUT:
            click.echo(after, nl=False)
        elif before != after:
            _replace(Path(file), after)
            click.echo(f"{file}: laid out")
    if check and others:
        ctx.exit(1)


def _read(file: str) -> str:
    if file == STANDARD_INPUT:
        return decoded(read_bounded(sys.stdin.buffer, "<standard input>"), name="<standard input>")
    return text_of_file(file)


def _replace(file: Path, text: str) -> None:
    """Write a file so that it is whole at every moment, and keep its mode."""
    with AtomicFile.writing(file) as written:
        written.write_whole(text.encode("utf-8"))
