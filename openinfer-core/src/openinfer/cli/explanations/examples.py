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
    from collections.abc import Sequence

    from openinfer.cli.explanations import Explanation
    from openinfer.model import Model

_TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<dims>[0-9, ]*)\]")


def findings(explained: Explanation, text: str) -> tuple[Diagnostic, ...]:
    """Return every finding about an example, up to the phase of its code; built-in operators are known."""
    try:
        return tuple(_findings(explained, text))
    except OpenInferError as error:
        return tuple(found for found in error.diagnostics if isinstance(found, Diagnostic))


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

    core_alone, model = load_environment(autoload=False), model_of(explained)
    resolved = resolve(built, model, environment=core_alone)
    return resolved.warnings or unused_tensors([resolved], model)


def model_of(explained: Explanation) -> Model:
    """Return the model that an example names."""
    from openinfer.model import Model

    arrays = {name: zeros(type_) for name, type_ in explained.tensors.items()}
    return Model.from_arrays(arrays, sizevars=explained.sizes)


def zeros(type_: str) -> Any:
    """Return zeros of a type such as ``f32[2, 4]``."""
    import numpy as np

    from openinfer.array_types import storage_dtype

    found = _TYPE.fullmatch(type_)
    if found is None:
        raise ValueError(f"expected a type such as f32[2, 4], found {type_!r}")
    dims = [int(dim) for dim in found["dims"].split(",") if dim.strip()]
    return np.zeros(dims, storage_dtype(dtype_named(found["dtype"])))
