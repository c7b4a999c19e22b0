"""Calls that no output and no cache depends on are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dims import is_size
from openinfer.importers.onnx_files.branches import BranchCall
from openinfer.importers.onnx_files.caches import APPEND
from openinfer.importers.onnx_files.loops import LoopCall
from openinfer.importers.onnx_files.sizes import names_of
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.importers.onnx_files.values import Call, Program


def without_unused(program: Program) -> None:
    """Drop calls of which nobody reads a result, but for those that append to caches; order stays.

    A number that an operator counts is read where a setting has it as a size.
    """
    needed = {id(value) for _, value in program.outputs}
    kept: list[Call] = []
    for call in reversed(program.calls):
        if call.op == APPEND or any(id(value) in needed for value in call.outputs):
            kept.append(call)
            needed.update(id(value) for value in call.reads())
            needed.update(id(program.counts[name]) for name in _sizes(call) if name in program.counts)
    program.calls = kept[::-1]


def _sizes(call: Call) -> Iterator[str]:
    """Yield the sizes that the settings of a call depend on, and those of calls inside of it."""
    for value in call.settings.values():
        yield from names_of(*(part for part in (value if isinstance(value, tuple) else (value,)) if is_size(part)))
    if isinstance(call, LoopCall) and call.loop is not None:
        yield from () if isinstance(call.loop.count, Value) else names_of(call.loop.count)
        inner = call.loop.calls
    else:
        inner = [each for side in call.sides for each in side.calls] if isinstance(call, BranchCall) else ()
    for each in inner:
        yield from _sizes(each)
