"""Replaces every known pattern of calls by the operator that computes it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files import idioms
from openinfer.importers.onnx_files.rewriting import Calls, idioms_ending_with
from openinfer.importers.onnx_files.unused import without_unused
from openinfer.scanning import modules_in

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Program


def with_idioms(program: Program) -> None:
    """Replace every pattern that a module of `idioms` knows."""
    modules_in(idioms)
    before = {id(call): call.op for call in program.calls}
    while True:
        calls = Calls(program)
        changed = [call for call in program.calls if any(idiom(calls, call) for idiom in idioms_ending_with(call.op))]
        program.calls = [each for call in program.calls for each in calls.with_neighbours(call)]
        if not changed:
            made = [call.op for call in program.calls if before.get(id(call), call.op) != call.op]
            program.recognised = dict(sorted(Counter(made).items()))
            return
        without_unused(program)
