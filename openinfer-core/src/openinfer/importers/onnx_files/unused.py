"""Calls that no output and no cache depends on are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.caches import APPEND

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Call, Program


def without_unused(program: Program) -> None:
    """Drop calls of which nobody reads a result, but for those that append to caches; order stays."""
    needed = {id(value) for _, value in program.outputs}
    kept: list[Call] = []
    for call in reversed(program.calls):
        if call.op == APPEND or any(id(value) in needed for value in call.outputs):
            kept.append(call)
            needed.update(id(value) for value in call.reads())
    program.calls = kept[::-1]
