"""GRAPH and ``--model``: a program with its model, or a model of another format, which is imported in passing."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.graph_argument import STANDARD_INPUT, read_graph
from openinfer.cli.import_options import import_options
from openinfer.diagnostics import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from openinfer.cli.import_options import ImportChoices
    from openinfer.cli.run_values import Input
    from openinfer.importers import ImportReport
    from openinfer.ir.graph import Graph
    from openinfer.model import Model

_PROGRAMS = (".oi", ".json")
"""Endings of programs, which no importer reads."""

_FILE_NAME = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedProgram:
    """A program and its model.

    Attributes:
        graph: the program.
        model: sizes and weights.
        report: what its import reports; None for a program that was not imported.
        files: the text of an imported program and the container with its weights.
    """

    graph: Graph
    model: Model
    report: ImportReport | None = None
    files: tuple[Path, ...] = ()

    def named(self, values: Sequence[Input]) -> list[Input]:
        """Return inputs and states by their names in the program, where an import has changed those of its model."""
        return [replace(item, name=self.input_name(item.name)) for item in values]

    def input_name(self, name: str) -> str:
        """Return the name in the program of an input or state of the model that was imported; others unchanged."""
        names = {} if self.report is None else {**self.report.inputs, **self.report.states}
        return names.get(name, name)

    def output_name(self, name: str) -> str:
        """Return the name in the program of an output of the model that was imported; others unchanged."""
        return name if self.report is None else self.report.outputs.get(name, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramArgument:
    """What the command line says about the program: see `program_argument`."""

    graph: str
    model: str | None
    choices: ImportChoices

    @contextmanager
    def opened(self, *, strict: bool = False, written: str | None = None) -> Generator[OpenedProgram]:
        """Yield the program; one that is imported has files in a temporary folder until the end of the block.

        Args:
            strict: whether warnings about the program are errors.
            written: what becomes of the files of one that is imported, for people.

        Raises:
            UsageError: the model is missing, or is named although the program comes with one.
            DslSyntaxError, GraphError, SerializationError, OSError: as `openinfer.cli.graph_argument.read_graph`.
            ModelError: the model cannot be opened.
            ModelImportError, MissingDependencyError, PluginError: as `openinfer.importers.load`.
        """
        from openinfer.model import ModelLoader

        if not is_imported(self.graph):
            path = self._model_path()
            program = read_graph(self.graph, strict=strict)
            with ModelLoader.open(path) as model:
                yield OpenedProgram(graph=program, model=model)
            return
        if self.model is not None:
            raise click.UsageError(f"{self.graph} is imported with its own weights: leave --model out")
        imported = self.choices.load(Path(self.graph))
        with tempfile.TemporaryDirectory(prefix="openinfer-") as folder:
            files = imported.save(folder, _FILE_NAME)
            _say(self.graph, imported.report, written or "`openinfer import` writes program and weights")
            with ModelLoader.open(files[1]) as model:
                yield OpenedProgram(graph=imported.graph, model=model, report=imported.report, files=files)

    def _model_path(self) -> str:
        self.choices.refuse_for(self.graph)
        if self.model is None:
            if self.graph != STANDARD_INPUT:
                Path(self.graph).stat()  # a program that does not exist is the first thing to say
            raise click.UsageError(f"Missing option '--model' / '-m': the model with the weights of {self.graph}")
        return self.model


def is_imported(argument: str) -> bool:
    """Return whether a GRAPH is a model of another format: a file that an importer reads, or can say how to convert."""
    if argument == STANDARD_INPUT or Path(argument).suffix in _PROGRAMS:
        return False
    from openinfer.importers.formats import is_for_importers

    return is_for_importers(argument)


def program_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add GRAPH, ``--model`` and the options of an import; the parameter ``program`` is a `ProgramArgument`."""

    @click.argument("graph", metavar="GRAPH")
    @click.option("--model", "-m", metavar="FILE", help="Model with sizes and weights; not for a GRAPH such as *.onnx.")
    @import_options("GRAPH such as *.onnx: ")
    @wraps(function)
    def called(*, graph: str, model: str | None, choices: ImportChoices, **arguments: Any) -> Any:
        return function(**arguments, program=ProgramArgument(graph=graph, model=model, choices=choices))

    return called


def _say(graph: str, report: ImportReport, written: str) -> None:
    counts = f"{counted(report.nodes, 'node')} in {counted(report.statements, 'statement')}"
    notes = f", {counted(len(report.notes), 'note')}" if report.notes else ""
    click.echo(printable(f"imported {graph}: {counts}{notes}; {written}"), err=True)
