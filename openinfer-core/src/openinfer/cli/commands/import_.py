"""`openinfer import`: a model of another format as a program and a container."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.difference_document import difference_document
from openinfer.cli.headings import HeadedCommand, option_under
from openinfer.cli.import_options import import_options
from openinfer.cli.import_summary import import_summary, summary_document, summary_text
from openinfer.cli.options import limit_option, seed_option
from openinfer.cli.program_options import initial_option, input_option
from openinfer.cli.progress import progress
from openinfer.cli.terminal import print_document
from openinfer.cli.tolerance_option import tolerance_option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.cli.import_options import ImportChoices
    from openinfer.cli.import_summary import ImportSummary
    from openinfer.cli.run_values import Input
    from openinfer.importers import ImportedModel
    from openinfer.importers.verification_report import Verification
    from openinfer.ir.types import TensorType
    from openinfer.tolerances import Tolerance

_VERIFICATION = "Verification, with --verify"


def _file_name(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    if name is not None and ("/" in name or "\\" in name):
        message = f"expected a name without a folder, found {name!r}: the folder is given by -o"
        raise click.BadParameter(message, ctx=context, param=parameter)
    return name


@click.command(
    name="import", cls=HeadedCommand, short_help="Convert a model of another format to a program and a container."
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", "folder", default=".", metavar="DIR", help="Folder for the two files (.).")
@click.option("--name", metavar="NAME", callback=_file_name, help="Name of the two files, by default that of FILE.")
@import_options("Conversion")
@option_under(_VERIFICATION)(
    "--verify", is_flag=True, help="Compare with the original, run by onnxruntime or onnx, LiteRT or PyTorch."
)
@input_option("An input, as for `openinfer run`; the others are drawn to suit the program.", _VERIFICATION)
@tolerance_option("Accept this difference, absolute or of the largest magnitude of an output.", _VERIFICATION)
@option_under(_VERIFICATION)(
    "--steps",
    type=click.IntRange(min=1),
    help="Steps, each on other inputs and sizes (2, or 4 with free sizes), and one with special floats.",
)
@initial_option("The first value of a state, by its name in the model; the others are zeros.", _VERIFICATION)
@seed_option(_VERIFICATION)
@limit_option
@option_under(_VERIFICATION)(
    "--budget",
    type=click.IntRange(min=1),
    metavar="MIB",
    help="MiB that the values of a step may take at other sizes than the least (512).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(
    *,
    file: Path,
    folder: str,
    name: str | None,
    verify: bool,
    inputs: list[Input],
    initial: list[Input],
    tolerances: Mapping[str, Tolerance],
    steps: int | None,
    seed: int,
    limits: dict[str, int],
    budget: int | None,
    as_json: bool,
    choices: ImportChoices,
) -> None:
    """Write FILE, such as model.onnx, as NAME.oi and NAME.oinf.

    Exit code 1 means that the model cannot be imported, or that --verify found a difference.

    \b
    openinfer import model.onnx -o build
    openinfer import model.onnx --set sequence=128 --verify
    openinfer import decoder.onnx --no-feed mask --initial hidden=hidden.npy --verify
    """
    from openinfer import importers

    if not verify and (inputs or initial or tolerances or budget is not None or steps is not None):
        message = "--input, --initial, --tolerance, --budget and --steps go with --verify, which is not given"
        raise click.UsageError(message)
    for item in (*inputs, *initial):
        item.content()
    imported = choices.load(file)
    with progress("writing"):
        program, container = imported.save(folder, name or file.stem)
    with progress("estimating costs"):
        summary = import_summary(imported, limits)
    checked = None
    if verify:
        with progress("verifying"):
            checked = importers.verify(
                file,
                imported,
                values=choices.constants(),
                inputs={item.name: _value_of(item, seed, number) for number, item in enumerate(inputs)},
                initial={item.name: _first_value_of(item, seed, number) for number, item in enumerate(initial)},
                steps=steps,
                limits=limits,
                budget=None if budget is None else budget << 20,
                seed=seed,
                tolerances=tolerances,
                requantize=choices.requantize,
            )
    if as_json:
        print_document(_document(imported, program, container, summary, checked))
    else:
        click.echo(f"{program}, {container}: {imported.report}")
        click.echo(summary_text(summary, imported.report))
        click.echo("" if checked is None else str(checked), nl=checked is not None)
    if checked is not None and not checked.agrees:
        raise SystemExit(1)


def _value_of(item: Input, seed: int, place: int) -> Callable[[TensorType, int], Any]:
    """Return what returns an input's value for its type in a step."""
    return lambda wanted, step: item.sizing_value(wanted, (seed, place, step))


def _first_value_of(item: Input, seed: int, place: int) -> Callable[[TensorType], Any]:
    """Return what returns a state's value for its type; the seed is that of `give_first_values`."""
    return lambda wanted: item.value(wanted, (seed, place, 0, 1))


def _document(
    imported: ImportedModel, program: Path, container: Path, summary: ImportSummary, checked: Verification | None
) -> Mapping[str, Any]:
    report = imported.report
    return {
        "program": str(program),
        "container": str(container),
        "format": report.format,
        "nodes": report.nodes,
        "statements": report.statements,
        "folded": report.folded,
        "inputs": dict(report.inputs),
        "outputs": dict(report.outputs),
        "recognised": dict(report.recognised),
        "norms": report.norms,
        "channel_constants": report.channel_constants,
        "layers": report.layers,
        "notes": list(report.notes),
        "summary": summary_document(summary),
        "verification": None if checked is None else _verification(checked),
    }


def _verification(checked: Verification) -> Mapping[str, Any]:
    return {
        "agrees": checked.agrees,
        "runner": checked.runner,
        "steps": checked.steps,
        "with_specials": checked.with_specials,
        "inputs": dict(checked.inputs),
        "outputs": [difference_document(difference) for difference in checked.outputs.values()],
        "notes": list(checked.notes),
        "first": checked.first,
    }
