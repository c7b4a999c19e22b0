"""Runs the examples of explanations that are statements of the host or commands."""

from __future__ import annotations

import shlex
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

import openinfer
from openinfer.cli import main
from openinfer.cli.explanations.examples import model_of, zeros
from openinfer.dsl import graph
from openinfer.dtypes import dtype_named
from openinfer.errors import OpenInferError
from openinfer.model import ModelContents, save_model

if TYPE_CHECKING:
    from openinfer.cli.explanations import Explanation


def failure(explained: Explanation, directory: Path) -> BaseException | None:
    """Run the host's part or the command of an example in an empty directory; return the error that ends it.

    Statements of the host see `graph`, `Random`, `Simulator` and `Synthesizer`, a ``model``, and where they mention it
    an ``executor`` of the program, on the installed cpu device.
    """
    for name, text in explained.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8", newline="\n")
    run = _commanded if explained.command else _hosted
    with chdir(directory), redirect_stdout(StringIO()):
        try:
            run(explained)
        except (OpenInferError, OSError, click.UsageError, KeyboardInterrupt, KeyError) as error:
            # A KeyError is a mistake, which has a code too.
            return error
    return None


def _hosted(explained: Explanation) -> None:
    model = model_of(explained)
    names = {name: getattr(openinfer, name) for name in ("Random", "Simulator", "Synthesizer")}
    names |= {"graph": graph, "model": model}
    if explained.wrong:
        program = graph(explained.wrong, name="example.oi")
        names["program"] = program
        if "executor" in explained.host:
            names["executor"] = openinfer.Simulator(model, program, trace=False).make_executor()
    exec(explained.host, names)


def _commanded(explained: Explanation) -> None:
    if explained.wrong:
        Path("example.oi").write_text(explained.wrong, encoding="utf-8", newline="\n")
    if "example.oinf" in explained.command:
        save_model(_contents(explained), "example.oinf")
    with click.Context(main) as context:
        name, command, arguments = main.resolve_command(context, shlex.split(explained.command)[1:])
    if command is not None:
        command.main(arguments, prog_name=f"openinfer {name}", standalone_mode=False)


def _contents(explained: Explanation) -> ModelContents:
    arrays = {name: (dtype_named(type_.partition("[")[0]), zeros(type_)) for name, type_ in explained.tensors.items()}
    found = {name: (dtype, array.shape, array) for name, (dtype, array) in arrays.items()}
    return ModelContents(sizevars=explained.sizes, metadata={}, tensors=found)
