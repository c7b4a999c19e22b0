"""`openinfer quantize`: a program on 8-bit integers, with scales from samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.headings import HeadedCommand, option_under
from openinfer.cli.import_options import import_options
from openinfer.cli.program_argument import ProgramArgument, is_imported
from openinfer.cli.progress import progress
from openinfer.cli.project_file import program_options_of
from openinfer.cli.terminal import print_document

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.cli.import_options import ImportChoices

    Array = npt.NDArray[Any]

_SAMPLES = "Samples"


@click.command(
    name="quantize", cls=HeadedCommand, short_help="Convert a program to 8-bit integers, with scales from samples."
)
@click.argument("graph")
@click.argument("model_argument", metavar="[MODEL]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--model",
    "-m",
    "model_option",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Model with sizes and weights, instead of MODEL.",
)
@option_under(_SAMPLES)(
    "--calibrate",
    "data_path",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A .npz file with an array of samples for each input, and their classes under the name of --labels.",
)
@click.option("-o", "--output-folder", "folder", default=".", metavar="DIR", help="Folder for the two files.")
@click.option("--name", metavar="NAME", help="Name of the two files; by default that of MODEL and -int8.")
@option_under(_SAMPLES)(
    "--percentile",
    type=click.FloatRange(50, 100),
    default=100.0,
    show_default=True,
    help="Percentage of the magnitudes of an activation that its range covers; 100 includes the largest.",
)
@click.option(
    "--signed",
    is_flag=True,
    help="Write activations that are never negative as i8 with the zero point -128, not as u8: faster on "
    "Cortex-M4 and M55, with the same results.",
)
@option_under(_SAMPLES)(
    "--samples", type=click.IntRange(min=1), help="Number of samples for the scales (100); accuracy is measured on all."
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave weights of matching names as they are.")
@option_under(_SAMPLES)(
    "--labels", "label_name", metavar="NAME", help="Array with the class of each sample (labels, where there is one)."
)
@option_under(_SAMPLES)(
    "--output", metavar="NAME", help="Output that is compared with the classes, where there are several."
)
@import_options()
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(
    *,
    graph: str,
    model_argument: Path | None,
    model_option: Path | None,
    data_path: Path,
    folder: str,
    name: str | None,
    percentile: float,
    signed: bool,
    samples: int | None,
    exclude: tuple[str, ...],
    label_name: str | None,
    output: str | None,
    as_json: bool,
    choices: ImportChoices,
) -> None:
    """Write GRAPH, whose weights are in MODEL, as a program whose products and convolutions multiply 8-bit integers.

    Weights become i8 with a scale for each output. Their other operands become u8 or i8 with one scale, computed from
    their values in the samples. Sums are exact, biases stay f32. A GRAPH such as model.onnx is imported first.

    \b
    openinfer quantize net.oi net.oinf --calibrate samples.npz
    openinfer quantize model.onnx --calibrate samples.npz
    openinfer quantize net.oi --model net.oinf --calibrate samples.npz --percentile 99.9 --exclude 'head.*' -o build
    """
    from openinfer.quantization import Clipping, quantize
    from openinfer.quantization.quantizing import MOST_CALIBRATED

    if name is not None and ("/" in name or "\\" in name):
        raise click.BadParameter(f"expected a name without a folder, found {name!r}", param_hint="--name")
    model_path = _model_path(graph, model_argument, model_option)
    arrays = _arrays(data_path)
    classes = arrays.pop(label_name or "labels", None)
    if label_name is not None and classes is None:
        raise click.BadParameter(f"{str(data_path)!r} has no array {label_name!r}", param_hint="--labels")
    with ProgramArgument(graph=graph, model=model_path, choices=choices).opened() as opened:
        with progress("quantising"):
            made = quantize(
                opened.graph,
                opened.model,
                {opened.input_name(name): array for name, array in arrays.items()},
                clipping=Clipping(percentile),
                signed=signed,
                exclude=exclude,
                most=samples or MOST_CALIBRATED,
                labels=classes,
                output=output,
            )
        written, container = made.save(folder, name or f"{Path(model_path or graph).stem}-int8")
    if as_json:
        print_document({"program": str(written), "container": str(container), **made.report.to_json()})
    else:
        click.echo(f"{made.report}\nwritten to {written}, {container}")


def _model_path(graph: str, argument: Path | None, option: Path | None) -> str | None:
    """Return the model's file, which is named once: after GRAPH, with ``--model``, or in the project file."""
    if argument is not None and option is not None:
        raise click.UsageError(f"the model is given twice: {str(argument)!r} and --model {str(option)!r}")
    path = argument or option
    if path is not None:
        return str(path)
    return None if is_imported(graph) else program_options_of(graph).model


def _arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a .npz file.

    Raises:
        CalibrationError: ``input-file``: it is something else.
    """
    import zipfile
    import zlib

    import numpy as np

    from openinfer.errors import CalibrationError

    expected = "expected a .npz file with an array for each input"
    try:
        with path.open("rb") as stream:
            found = np.load(stream, allow_pickle=False)
            if not isinstance(found, np.lib.npyio.NpzFile):
                raise CalibrationError(f"{str(path)!r} holds one array, {expected}", code="input-file")
            with found:
                return {name: found[name] for name in found.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        # What NumPy says of damaged files proposes to load them unsafely.
        raise CalibrationError(f"{str(path)!r} cannot be read, {expected}", code="input-file") from error
