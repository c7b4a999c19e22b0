"""Weights whose names an exporter made up are named after the module that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.naming import is_anonymous

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Program
    from openinfer.plugins.environment import Environment

_PARTS = {"w": "weight", "b": "weight", "r": "recurrent"}
"""Names of weights by those of inputs."""


def with_weight_names(program: Program, environment: Environment) -> None:
    """Rename weights such as ``val_12`` to ``h.0.fc.weight``, where their reader belongs to the module ``h.0.fc``."""
    taken = {v.name for call in program.calls for v in call.reads() if v.payload is not None}
    for call in program.calls:
        if call.op not in environment.ops:
            continue
        schema = environment.op(call.op)
        for spec, value in zip(schema.inputs, call.inputs, strict=False):
            if value is None or value.payload is None or not call.stage or not value.rank:
                continue
            name = f"{call.stage}.{_PARTS.get(spec.name, spec.name)}"
            if is_anonymous(value.name) and name not in taken:
                taken.add(name)
                value.name = name
