"""Weights whose names an exporter made up are named after the module that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.loops import LoopCall
from openinfer.importers.onnx_files.naming import is_anonymous, is_computed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.importers.onnx_files.values import Call, Program
    from openinfer.plugins.environment import Environment

_PARTS = {"w": "weight", "b": "weight", "r": "recurrent"}
"""Names of weights by those of inputs."""


_CELLS = ("gru_cell", "lstm_cell")
"""Operators whose input ``b`` is a bias, and not the second factor of a product."""


_OWN = (*_CELLS, "conv1d", "conv2d", "linear", "matmul")
"""Operators with a weight that is the module's own, also where nodes compute it."""


def _with_inner(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield calls, and those in the bodies of their loops."""
    for call in calls:
        yield call
        if isinstance(call, LoopCall) and call.loop is not None:
            yield from _with_inner(call.loop.calls)


def with_weight_names(program: Program, environment: Environment) -> None:
    """Rename weights such as ``val_12`` to ``h.0.fc.weight``, where their reader belongs to the module ``h.0.fc``."""
    calls = list(_with_inner(program.calls))
    taken = {v.name for call in calls for v in call.reads() if v.payload is not None}
    for call in calls:
        if call.op not in environment.ops:
            continue
        schema = environment.op(call.op)
        for spec, value in zip(schema.inputs, call.inputs, strict=False):
            if value is None or value.payload is None or not call.stage or not value.rank:
                continue
            part = "bias" if call.op in _CELLS and spec.name == "b" else _PARTS.get(spec.name, spec.name)
            name = f"{call.stage}.{part}"
            is_made_up = is_anonymous(value.name) or (is_computed(value.name) and call.op in _OWN)
            if is_made_up and name not in taken:
                taken.add(name)
                value.name = name
