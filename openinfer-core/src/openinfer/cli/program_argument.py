"""GRAPH and ``--model``: a program with its model, or a model of another format, which is imported in passing."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.graph_argument import STANDARD_INPUT, read_graph
from openinfer.cli.import_options import import_options
from openinfer.cli.project_file import options_of_graph
from openinfer.diagnostics import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import Self

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
    """What the command line says about the program: see `program_argument`.

    Attributes:
        model: its file; None where none is named.
        sizes: values of sizes where there is no model: those of ``--size``, or else of ``--limit``.
    """

    graph: str
    model: str | None
    choices: ImportChoices
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    @contextmanager
    def opened(self, *, strict: bool = False, written: str | None = None) -> Generator[OpenedProgram]:
        """Yield the program; one that is imported has files in a temporary folder until the end of the block.

        Args:
            strict: whether warnings about the program are errors.
            written: what becomes of the files of one that is imported, for people.

        Raises:
            UsageError: a model is needed and missing, or is named although the program comes with one.
            DslSyntaxError, GraphError, SerializationError, OSError: as `openinfer.cli.graph_argument.read_graph`.
            ModelError: the model cannot be opened.
            ModelImportError, MissingDependencyError, PluginError: as `openinfer.importers.load`.
        """
        from openinfer.model import ModelLoader

        if not is_imported(self.graph):
            self.choices.refuse_for(self.graph)
            program = read_graph(self.graph, strict=strict)
            with opened_model(self.model, program, self.graph, self.sizes) as model:
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


@contextmanager
def opened_model(path: str | None, graph: Graph, name: str, sizes: Mapping[str, int] | None = None) -> Generator[Model]:
    """Yield the model of a file; without a path, a model that has sizes only.

    Args:
        graph: the program that the model is for.
        name: its file, for messages.
        sizes: values for the sizes of a model without a file.

    Raises:
        UsageError: there is no path, and the program has values that only a model gives.
        ModelError: the file cannot be opened.
    """
    from openinfer.model import ModelLoader

    if path is not None:
        with ModelLoader.open(path) as model:
            yield model
        return
    yield model_without_file(graph, name, sizes or {})


def model_without_file(graph: Graph, name: str, sizes: Mapping[str, int]) -> Model:
    """Return a model that has nothing but the sizes of a program.

    Args:
        graph: the program.
        name: its file, for messages.
        sizes: values; those that the program does not use are left out.

    Raises:
        UsageError: the program has values that only a model gives.
    """
    from openinfer.model import Model
    from openinfer.validate.model_needs import model_needs

    needs = model_needs(graph)
    missing = needs.without(sizes)
    if missing:
        raise click.UsageError(f"{name} takes {missing} from a model: give its file with --model (-m)")
    return Model.from_arrays(sizevars={size: sizes[size] for size in needs.sizes})


class OpenModels:
    """The models of several programs, each opened once, and all closed at the end of a ``with`` block."""

    def __init__(self) -> None:
        self._models: dict[str, Model] = {}
        self._files = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def at(self, path: str) -> Model:
        """Return the model of a file.

        Raises:
            ModelError, OSError: it cannot be opened.
        """
        from openinfer.model import ModelLoader

        if path not in self._models:
            self._models[path] = self._files.enter_context(ModelLoader.open(path))
        return self._models[path]


def is_imported(argument: str) -> bool:
    """Return whether a GRAPH is a model of another format: a file that an importer reads, or can say how to convert."""
    if argument == STANDARD_INPUT or Path(argument).suffix.lower() in _PROGRAMS:
        return False
    from openinfer.importers.formats import is_for_importers

    return is_for_importers(argument)


def program_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add GRAPH, ``--model`` and the options of an import; the parameter ``program`` is a `ProgramArgument`."""

    # Eager, since the callbacks of options look for its project file.
    @click.argument("graph", metavar="GRAPH", is_eager=True)
    @model_option
    @import_options()
    @wraps(function)
    def called(*, graph: str, model: str | None, choices: ImportChoices, **arguments: Any) -> Any:
        sizes: dict[str, int] = {**arguments.get("limits", {}), **arguments.get("sizes", {})}
        program = ProgramArgument(graph=graph, model=model, choices=choices, sizes=sizes)
        return function(**arguments, program=program)

    return called


def model_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--model FILE``: by default that of the project file, unless GRAPH is imported with its own weights."""
    text = "Model with sizes and weights, for programs that need one; not for a GRAPH such as *.onnx."
    return click.option("--model", "-m", metavar="FILE", callback=_model, help=text)(function)


def _model(context: click.Context, _: click.Parameter, path: str | None) -> str | None:
    graph = context.params.get("graph")
    if path is not None or not isinstance(graph, str) or is_imported(graph):
        return path
    return options_of_graph(context).model


def _say(graph: str, report: ImportReport, written: str) -> None:
    counts = f"{counted(report.nodes, 'node')} in {counted(report.statements, 'statement')}"
    notes = f", {counted(len(report.notes), 'note')}" if report.notes else ""
    click.echo(printable(f"imported {graph}: {counts}{notes}; {written}"), err=True)
