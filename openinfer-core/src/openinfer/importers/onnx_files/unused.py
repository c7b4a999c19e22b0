"""Calls that no output depends on are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Call, Program


def without_unused(program: Program) -> None:
    """Drop calls of which nobody reads a result; order stays."""
    needed = {id(value) for _, value in program.outputs}
    kept: list[Call] = []
    for call in reversed(program.calls):
        if any(id(value) in needed for value in call.outputs):
            kept.append(call)
            needed.update(id(value) for value in call.reads())
    program.calls = kept[::-1]
