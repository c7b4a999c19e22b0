"""The findings that an example of an explanation gets, from the same checks that programs go through."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

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
    from openinfer.model import Model

_TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<dims>[0-9, ]*)\]")


def findings(explained: Explanation, text: str) -> tuple[Diagnostic, ...]:
    """Return every finding about an example, up to the phase of its code; built-in operators are known."""
    try:
        return tuple(_findings(explained, text))
    except OpenInferError as error:
        return tuple(found for found in error.diagnostics if isinstance(found, Diagnostic))


def host_error(explained: Explanation) -> OpenInferError | None:
    """Run the host's part of an example on the installed cpu device; return the error that it gets.

    The statements see `graph`, `Random`, `Simulator` and `Synthesizer`, a ``model``, and where there is a program an
    ``executor`` of it.
    """
    import openinfer

    model = _model(explained.sizes, explained.tensors)
    names: dict[str, Any] = {name: getattr(openinfer, name) for name in ("Random", "Simulator", "Synthesizer")}
    names |= {"graph": graph, "model": model}
    if explained.wrong:
        program = graph(explained.wrong, name="example.oi")
        names["executor"] = openinfer.Simulator(model, program, trace=False).make_executor()
    try:
        exec(explained.host, names)  # noqa: S102 - examples are files of this package
    except OpenInferError as error:
        return error
    return None


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

    core_alone = load_environment(autoload=False)
    return resolve(built, _model(explained.sizes, explained.tensors), environment=core_alone).warnings


def _model(sizes: Mapping[str, int], tensors: Mapping[str, str]) -> Model:
    from openinfer.model import Model

    return Model.from_arrays({name: _zeros(type_) for name, type_ in tensors.items()}, sizevars=sizes)


def _zeros(type_: str) -> Any:
    import numpy as np

    from openinfer.model import storage_dtype

    found = _TYPE.fullmatch(type_)
    if found is None:
        raise ValueError(f"expected a type such as f32[2, 4], found {type_!r}")
    dims = [int(dim) for dim in found["dims"].split(",") if dim.strip()]
    return np.zeros(dims, storage_dtype(dtype_named(found["dtype"])))
