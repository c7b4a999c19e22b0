"""Calls that compute the same are made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.values import Call, Value
from openinfer.symbolic import Const

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

    roots: dict[int, Value] = {}
    for call in program.calls:
        call.remap(of)
        unchanged = _unchanged(call, roots)
        if unchanged is not None:
            same[id(call.outputs[0])] = unchanged
            continue
        earlier = first.setdefault(_key(call), call.outputs)
        if earlier is call.outputs:
            kept.append(call)
        else:
            same.update((id(value), other) for value, other in zip(call.outputs, earlier, strict=True))
    program.calls = kept
    program.outputs = [(name, of(value) if not value.is_known else value) for name, value in program.outputs]


_SAME_ORDER = ("reshape", "squeeze", "unsqueeze", "flatten")
"""Operators that keep elements and their order."""


def _unchanged(call: Call, roots: dict[int, Value]) -> Value | None:
    """Return the value that a call gives again, if it does; ``roots`` says what values are under another shape."""
    x = call.inputs[0] if call.inputs else None
    if x is None or x.is_known:
        return None
    result = call.outputs[0]
    if call.op == "identity" or (call.op == "slice" and _is_whole(call, x)):
        return x
    if call.op not in _SAME_ORDER and not (call.op == "select" and _extent(call, x) == Const(1)):
        return None
    root = roots.get(id(x), x)
    if root.dims == result.dims:
        return root
    roots[id(result)] = root
    return None


def _is_whole(call: Call, x: Value) -> bool:
    starts = call.settings.get("starts")
    is_from_start = isinstance(starts, tuple) and all(start == 0 for start in starts)
    return call.outputs[0].dims == x.dims and "steps" not in call.settings and is_from_start


def _extent(call: Call, x: Value) -> object:
    axis = call.settings.get("axis", 0)
    return x.dims[axis] if isinstance(axis, int) else None


def _key(call: Call) -> Hashable:
    inputs = tuple(None if value is None else id(value) for value in call.inputs)
    declared = tuple((value.dtype.name, value.dims) for value in call.outputs) if call.declared else ()
    return (call.op, inputs, tuple(sorted((name, _setting(v)) for name, v in call.settings.items())), declared)


def _setting(value: Setting) -> str:
    return f"{type(value).__name__} {id(value) if isinstance(value, Value) else value!r}"
