"""Calls that compute the same are made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.values import Call, Value

if TYPE_CHECKING:
    from collections.abc import Hashable

    from openinfer.importers.onnx_files.values import Program, Setting

MOST_COMPARED = 64
"""Elements of the largest constant that is compared by its numbers."""


def without_repetitions(program: Program) -> None:
    """Let every call read the first of the values that are the same."""
    same: dict[int, Value] = {}
    first: dict[Hashable, tuple[Value, ...]] = {}
    constants: dict[Hashable, Value] = {}
    kept: list[Call] = []

    def of(value: Value) -> Value:
        if value.payload is not None and not value.rank and value.payload.count <= MOST_COMPARED:
            return constants.setdefault((value.dtype.name, value.array().tobytes()), value)
        return same.get(id(value), value)

    for call in program.calls:
        call.remap(of)
        earlier = first.setdefault(_key(call), call.outputs)
        if earlier is call.outputs:
            kept.append(call)
        else:
            same.update((id(value), other) for value, other in zip(call.outputs, earlier, strict=True))
    program.calls = kept
    program.outputs = [(name, of(value) if not value.is_known else value) for name, value in program.outputs]


def _key(call: Call) -> Hashable:
    inputs = tuple(None if value is None else id(value) for value in call.inputs)
    declared = tuple((value.dtype.name, value.dims) for value in call.outputs) if call.declared else ()
    return (call.op, inputs, tuple(sorted((name, _setting(v)) for name, v in call.settings.items())), declared)


def _setting(value: Setting) -> str:
    return f"{type(value).__name__} {id(value) if isinstance(value, Value) else value!r}"
