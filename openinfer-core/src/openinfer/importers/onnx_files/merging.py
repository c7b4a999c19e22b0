"""Calls that compute the same are made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.importers.onnx_files.rewriting import permutation
from openinfer.importers.onnx_files.values import Call, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from openinfer.dtypes import DType
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
    writers: dict[int, Call] = {}
    counts = {id(value) for value in program.counts.values()}
    for call in program.calls:
        call.remap(of)
        if any(id(value) in counts for value in call.outputs):
            # Sizes of other values have the name of the number.
            kept.append(call)
            continue
        unchanged = _unchanged(call, roots, writers)
        if unchanged is not None:
            same[id(call.outputs[0])] = unchanged
            continue
        earlier = first.setdefault(_key(call), call.outputs)
        if earlier is call.outputs:
            kept.append(call)
            writers.update((id(value), call) for value in call.outputs)
        else:
            same.update((id(value), other) for value, other in zip(call.outputs, earlier, strict=True))
    program.calls = kept
    program.outputs = [(name, of(value) if not value.is_known else value) for name, value in program.outputs]


SAME_ORDER = ("reshape", "squeeze", "unsqueeze", "flatten")
"""Operators that keep elements and their order."""

_WHOLE = ("expand", "split", "tile")
"""Operators that return their input where its shape is that of their first result."""


def _unchanged(call: Call, roots: dict[int, Value], writers: Mapping[int, Call]) -> Value | None:
    """Return the value that a call gives again, if it does.

    Args:
        roots: what values are in another shape, or in an element type that holds them exactly.
        writers: the call that made a value.
    """
    x = _one_input(call)
    if x is None or x.is_known or len(call.outputs) != 1:
        return None
    result = call.outputs[0]
    if call.op in ("identity", "concat") or (call.op == "slice" and _is_whole(call, x)):
        return x
    if (call.op in _WHOLE and result.dims == x.dims) or (call.op == "pad" and _is_zero(call.settings.get("pads"))):
        return x
    if call.op == "transpose":
        return _transposed_back(call, writers.get(id(x)))
    root = roots.get(id(x), x)
    if not _keeps_elements(call, x, root):
        return None
    if root.dims == result.dims and root.dtype is result.dtype:
        return root
    roots[id(result)] = root
    return None


def _keeps_elements(call: Call, x: Value, root: Value) -> bool:
    """Whether a result has all elements of a value in their order: those of ``root``, which are those of ``x``."""
    if call.op == "cast":
        return holds(call.outputs[0].dtype, root.dtype)
    return call.op in SAME_ORDER or (call.op == "select" and _extent(call, x) == 1)


def holds(wide: DType, narrow: DType) -> bool:
    """Whether an element type has every value of another."""
    if wide is narrow:
        return True
    # NumPy calls 64-bit integers to f64 safe, and does not know how many bits packed types have.
    is_rounded = narrow.is_integer and wide.is_float and narrow.bits == 64
    is_safe = np.can_cast(storage_dtype(narrow), storage_dtype(wide), "safe")
    return is_safe and not is_rounded and wide.bits >= narrow.bits


def _transposed_back(call: Call, first: Call | None) -> Value | None:
    if first is None or first.op != "transpose":
        return None
    order, earlier = permutation(call), permutation(first)
    is_same = [earlier[axis] for axis in order] == list(range(len(earlier)))
    return first.inputs[0] if is_same else None


def _one_input(call: Call) -> Value | None:
    """Return the first input of a call; of a concatenation the only one with elements, None where there are more."""
    if call.op != "concat":
        return call.inputs[0] if call.inputs else None
    joined = [value for value in call.inputs if value is not None and 0 not in value.dims]
    return joined[0] if len(joined) == 1 else None


def _is_zero(setting: Setting | None) -> bool:
    return isinstance(setting, tuple) and all(element == 0 for element in setting)


def _is_whole(call: Call, x: Value) -> bool:
    starts = call.settings.get("starts")
    return call.outputs[0].dims == x.dims and "steps" not in call.settings and _is_zero(starts)


def _extent(call: Call, x: Value) -> object:
    axis = call.settings.get("axis", 0)
    return x.dims[axis] if isinstance(axis, int) else None


def _key(call: Call) -> Hashable:
    inputs = tuple(None if value is None else id(value) for value in call.inputs)
    declared = tuple((value.dtype.name, str(value.dims)) for value in call.outputs) if call.declared else ()
    return (call.op, inputs, tuple(sorted((name, _setting(v)) for name, v in call.settings.items())), declared)


def _setting(value: Setting) -> str:
    return f"{type(value).__name__} {id(value) if isinstance(value, Value) else value!r}"
