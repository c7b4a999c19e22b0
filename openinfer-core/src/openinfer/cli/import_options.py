"""Options that say how a model of another format becomes a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.headings import option_under
from openinfer.cli.progress import progress
from openinfer.cli.run_values import Input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.importers import ImportedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportChoices:
    """Values of the options; see `openinfer.importers.load`.

    Attributes:
        values: of ``--set``, as text.
        feeds: of ``--feed``; None where it was not written.
        kept_inputs: of ``--no-feed``; an empty name stands for all inputs.
    """

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    feeds: Mapping[str, str] | None = None
    kept_inputs: tuple[str, ...] = ()
    roll: bool = True
    keep_norms: bool = False
    requantize: str = "f32"

    def __post_init__(self) -> None:
        if self.kept_inputs and self.feeds is not None:
            raise click.UsageError("--feed names all states, --no-feed is about those that names imply: leave out one")

    def __bool__(self) -> bool:
        """Whether one of the options was written."""
        return self != ImportChoices()

    def refuse_for(self, program: str) -> None:
        """Raise where an option was written, since a program is not imported.

        Raises:
            UsageError: one was.
        """
        if self:
            message = (
                f"--set, --feed, --no-feed, --no-roll, --keep-norms and --requantize change an import, and {program} is"
            )
            raise click.UsageError(f"{message} a program: give the model that was imported, or --size NAME=N")

    def constants(self) -> dict[str, Any]:
        """Return the values of ``--set``.

        A text that is not a value may be the name of a dimension, which only the importer can tell.

        Raises:
            ExecutionError: a file cannot be read as an array.
        """
        return {name: Input(name, text).constant() for name, text in self.values.items()}

    def load(self, file: Path) -> ImportedModel:
        """Return the model of a file as a program.

        Raises:
            ExecutionError: as `constants`.
            ModelImportError, MissingDependencyError, PluginError: as `openinfer.importers.load`.
        """
        from openinfer import importers

        with progress(f"importing {file.name}"):
            return importers.load(
                file,
                values=self.constants(),
                feeds={} if "" in self.kept_inputs else self.feeds,
                kept_inputs=self.kept_inputs,
                roll=self.roll,
                keep_norms=self.keep_norms,
                requantize=self.requantize,
            )


def import_options(
    heading: str = "Import of a GRAPH such as *.onnx",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options under a heading; the parameter ``choices`` is an `ImportChoices`."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(**arguments: Any) -> Any:
            choices = ImportChoices(
                values=arguments.pop("set_values"),
                feeds=arguments.pop("feeds"),
                kept_inputs=arguments.pop("no_feed"),
                roll=not arguments.pop("no_roll"),
                keep_norms=arguments.pop("keep_norms"),
                requantize=arguments.pop("requantize"),
            )
            return function(**arguments, choices=choices)

        command: Callable[..., Any] = called
        for option in reversed(_options(heading)):
            command = option(command)
        return command

    return add


def _pairs(kind: str) -> Any:
    def parse(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for text in texts:
            name, equals, value = (part.strip() for part in text.partition("="))
            if not name or not equals or not value:
                raise click.BadParameter(f"expected {kind}, found {text!r}", ctx=context, param=parameter)
            if name in pairs:
                raise click.BadParameter(f"{name!r} is given twice", ctx=context, param=parameter)
            pairs[name] = value
        return pairs

    return parse


def _feeds(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    """Return pairs of outputs and inputs; None where the option is not given."""
    if not texts:
        return None
    pairs = [text for text in texts if text.strip()]
    if pairs and len(pairs) < len(texts):
        message = f"'' is for no states, found {', '.join(map(repr, pairs))} too"
        raise click.BadParameter(message, ctx=context, param=parameter)
    return _pairs("OUT=IN, or '' for no states")(context, parameter, tuple(pairs))


def _kept_inputs(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of inputs; refuse FILE, which the option takes for one where it comes right after it."""
    file = next((name for name in names if name and Path(name).suffix and Path(name).is_file()), None)
    if file is not None:
        message = f"{file!r} is a file, expected the name of an input: write the file before the option"
        raise click.BadParameter(message, ctx=context, param=parameter)
    return names


def _options(heading: str) -> Sequence[Callable[[Callable[..., Any]], Callable[..., Any]]]:
    option = option_under(heading)
    return (
        option(
            "--set",
            "set_values",
            multiple=True,
            metavar="NAME=VALUE",
            callback=_pairs("NAME=VALUE"),
            help="Fix an input (a number, numbers with commas, or a .npy file) or a symbolic dimension "
            "(a number, or the name of another).",
        ),
        option(
            "--feed",
            "feeds",
            multiple=True,
            metavar="OUT=IN",
            callback=_feeds,
            help="Keep output OUT as input IN of the next step; by default pairs such as h and hn. '' for none.",
        ),
        option(
            "--no-feed",
            "no_feed",
            multiple=True,
            is_flag=False,
            flag_value="",
            is_eager=True,
            callback=_kept_inputs,
            metavar="[NAME]",
            help="Leave input NAME an input, or all of them without NAME, where their names imply states.",
        ),
        option("--no-roll", is_flag=True, help="Write repeated layers one after the other, no loop."),
        option("--keep-norms", is_flag=True, help="Do not fold batch norms and channel constants into layers."),
        option(
            "--requantize",
            default="f32",
            metavar="MODE",
            help="Codes of a TFLite model's integer layers: f32 (the default), or in fixed point: fixed, "
            "rounded once, or tflite, twice, with the bits of TFLite Micro.",
        ),
    )
