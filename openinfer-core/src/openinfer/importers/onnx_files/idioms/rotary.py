"""Rotary embeddings with tables of cosines and sines: x cos + rotated(x) sin, both halves of a table being equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.rewriting import Calls, ends_with
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Call, Value, known

if TYPE_CHECKING:
    from openinfer.dims import Size

MOST_TABLE = 1 << 22
"""Elements of the largest known table whose halves are compared."""


@ends_with("add")
def _rotary(calls: Calls, call: Call) -> bool:
    left, right = (calls.inner(value, "mul") for value in call.inputs[:2])
    if left is None or right is None:
        return False
    for plain, swapped in ((left, right), (right, left)):
        for x, cos in (plain.inputs, plain.inputs[::-1]):
            for rotated, sin in (swapped.inputs, swapped.inputs[::-1]):
                if x is None or cos is None or sin is None or x.rank != 4 or not _is_rotated(calls, rotated, x):
                    continue
                tables = [_half(calls, table, x) for table in (cos, sin)]
                if tables[0] is not None and tables[1] is not None:
                    return calls.replace(call, "rope_cached", [x, *tables, None])
    return False


def _is_rotated(calls: Calls, value: Value | None, x: Value) -> bool:
    """Whether a value is the second half of x with its sign changed, and then the first."""
    joined, width = calls.inner(value, "concat"), x.dims[-1]
    if joined is None or len(joined.inputs) != 2 or joined.settings.get("axis", 0) not in (-1, x.rank - 1):
        return False
    negated = calls.inner(joined.inputs[0], "neg")
    if negated is None or not is_number(width) or width % 2:
        return False
    half = width // 2
    return _is_part(calls, joined.inputs[1], x, 0, half) and _is_part(calls, negated.inputs[0], x, half, width)


def _is_part(calls: Calls, value: Value | None, x: Value, start: int, end: int) -> bool:
    """Whether a value is the part of the last dim of x between two places."""
    call = calls.writer(value, "slice", "split")
    if call is None or call.inputs[0] is not x or value is None:
        return False
    if call.op == "split":
        is_half = call.settings.get("axis", 0) in (-1, x.rank - 1) and len(call.outputs) == 2
        return is_half and value is call.outputs[1 if start else 0] and value.dims[-1] == end - start
    starts, ends, axes = (call.settings.get(name) for name in ("starts", "ends", "axes"))
    if "steps" in call.settings or axes not in ((x.rank - 1,), (-1,)) or not isinstance(ends, tuple):
        return False
    last = ends[0]
    return starts == (start,) and is_number(last) and (last == end or (last > end and start > 0))


def _half(calls: Calls, table: Value, x: Value) -> Value | None:
    """Return the first half of a table along its last dim, as [S, D/2] or [B, S, D/2]; None where the halves differ."""
    inner = table
    lifted = calls.writer(table, "unsqueeze", "reshape")
    if lifted is not None and lifted.inputs[0] is not None and not table.is_known:
        inner = lifted.inputs[0]
    if inner.dims[-2:] != x.dims[-2:] or table.dims[-2:] != x.dims[-2:] or table.dtype is not x.dtype:
        return None
    front = _front(table)
    if any(dim != 1 for dim in front[1:]) or not is_number(x.dims[-1]):
        return None
    has_batch = bool(front) and front[0] != 1
    if has_batch and (front[0] != x.dims[0] or inner.dims[:-2] != (x.dims[0],)):
        return None
    half = x.dims[-1] // 2
    if table.is_known:
        return None if has_batch else _half_of_array(calls, table, half)
    if not has_batch and any(dim != 1 for dim in inner.dims[:-2]):
        return None
    return _half_of_value(calls, inner, half, has_batch=has_batch) if _has_equal_halves(calls, inner) else None


def _front(table: Value) -> tuple[Size, ...]:
    """Return the dims in front of the last two: that of the batch, then that of the heads."""
    front = table.dims[:-2]
    return front if len(front) == 2 else (1, *front)


def _has_equal_halves(calls: Calls, value: Value) -> bool:
    """Whether a value is a function, element by element, of something joined to itself along the last dim."""
    while (call := calls.writer(value, "cos", "sin", "cast", "mul", "concat")) is not None:
        first, *others = call.inputs
        if call.op == "concat":
            is_twice = len(others) == 1 and others[0] is first
            return is_twice and call.settings.get("axis", 0) in (-1, value.rank - 1)
        if first is None or (
            call.op == "mul" and not (others[0] is not None and others[0].is_known and not others[0].rank)
        ):
            return False
        value = first
    return False


def _half_of_array(calls: Calls, table: Value, half: int) -> Value | None:
    if id(table) not in calls.halves:
        if table.known.count > MOST_TABLE:
            return None
        array = table.array().reshape(-1, 2 * half)
        if not np.array_equal(array[:, :half], array[:, half:]):
            return None
        calls.halves[id(table)] = known(np.ascontiguousarray(array[:, :half]), table.dtype, table.name)
    return calls.halves[id(table)]


def _half_of_value(calls: Calls, inner: Value, half: int, *, has_batch: bool) -> Value | None:
    writer = calls.writer(inner)
    if writer is None:
        return None
    if id(inner) not in calls.halves:
        made: list[Call] = []
        flat = inner
        if inner.rank > 2 and not has_batch:
            flat = Value("", inner.dtype, inner.dims[-2:])
            axes = tuple(range(inner.rank - 2))
            made.append(Call("squeeze", (inner,), {"axes": axes}, (flat,), stage=writer.stage))
        found = Value("", inner.dtype, (*flat.dims[:-1], half))
        settings = {"starts": (0,), "ends": (half,), "axes": (-1,)}
        made.append(Call("slice", (flat,), {**settings}, (found,), stage=writer.stage))
        calls.after(writer, made)
        calls.halves[id(inner)] = found
    return calls.halves[id(inner)]
