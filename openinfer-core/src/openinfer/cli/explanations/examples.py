"""The findings that an example of an explanation gets, from the same checks that programs go through."""

from __future__ import annotations

import re
import shlex
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.explanations import Phase
from openinfer.diagnostics import Diagnostic
from openinfer.dsl import graph
from openinfer.dtypes import dtype_named
from openinfer.errors import OpenInferError
from openinfer.ir.check import structure_findings
from openinfer.plugins.loader import load_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.cli.explanations import Explanation
    from openinfer.model import Model, ModelContents

_TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<dims>[0-9, ]*)\]")


def findings(explained: Explanation, text: str) -> tuple[Diagnostic, ...]:
    """Return every finding about an example, up to the phase of its code; built-in operators are known."""
    try:
        return tuple(_findings(explained, text))
    except OpenInferError as error:
        return tuple(found for found in error.diagnostics if isinstance(found, Diagnostic))


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
    import openinfer

    model = _model(explained.sizes, explained.tensors)
    names: dict[str, Any] = {name: getattr(openinfer, name) for name in ("Random", "Simulator", "Synthesizer")}
    names |= {"graph": graph, "model": model}
    if explained.wrong:
        program = graph(explained.wrong, name="example.oi")
        names["program"] = program
        if "executor" in explained.host:
            names["executor"] = openinfer.Simulator(model, program, trace=False).make_executor()
    exec(explained.host, names)  # noqa: S102 - examples are files of this package


def _commanded(explained: Explanation) -> None:
    from openinfer.cli.program import main
    from openinfer.model import save_model

    if explained.wrong:
        Path("example.oi").write_text(explained.wrong, encoding="utf-8", newline="\n")
    if "example.oinf" in explained.command:
        save_model(_contents(explained.sizes, explained.tensors), "example.oinf")
    with click.Context(main) as context:
        _, command, arguments = main.resolve_command(context, shlex.split(explained.command)[1:])
    if command is not None:
        command.main(arguments, standalone_mode=False)


def _findings(explained: Explanation, text: str) -> Sequence[Diagnostic]:
    if explained.kind == "graph":
        from openinfer.serialize import GraphDeserialize

        return GraphDeserialize.from_json(text, name="example.json").warnings
    if explained.kind == "device":
        from openinfer.arch import DeviceArch
        from openinfer.serialize.documents import parse_json

        return DeviceArch.load(parse_json(text, "device.json")).warnings
    built = graph(text, name="example.oi")
    if explained.phase is not Phase.VALIDATION:
        return (*built.warnings, *structure_findings(built))
    from openinfer.validate import resolve
    from openinfer.validate.missing_data import unused_tensors

    core_alone, model = load_environment(autoload=False), _model(explained.sizes, explained.tensors)
    resolved = resolve(built, model, environment=core_alone)
    return resolved.warnings or unused_tensors([resolved], model)


def _model(sizes: Mapping[str, int], tensors: Mapping[str, str]) -> Model:
    from openinfer.model import Model

    return Model.from_arrays({name: _zeros(type_) for name, type_ in tensors.items()}, sizevars=sizes)


def _contents(sizes: Mapping[str, int], tensors: Mapping[str, str]) -> ModelContents:
    from openinfer.model import ModelContents

    arrays = {name: (dtype_named(type_.partition("[")[0]), _zeros(type_)) for name, type_ in tensors.items()}
    found = {name: (dtype, array.shape, array) for name, (dtype, array) in arrays.items()}
    return ModelContents(sizevars=sizes, metadata={}, tensors=found)


def _zeros(type_: str) -> Any:
    import numpy as np

    from openinfer.array_types import storage_dtype

    found = _TYPE.fullmatch(type_)
    if found is None:
        raise ValueError(f"expected a type such as f32[2, 4], found {type_!r}")
    dims = [int(dim) for dim in found["dims"].split(",") if dim.strip()]
    return np.zeros(dims, storage_dtype(dtype_named(found["dtype"])))
