"""Masks that hide the keys that follow a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.rewriting import Calls, ends_with, scalar_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Call, Setting, Value

HIDDEN = -1e4
"""What is added to the products that a mask hides, at most."""

MOST_MASK = 1 << 22
"""Elements of the largest known mask that is looked through."""

_SAME_PLACES = ("unsqueeze", "squeeze", "reshape", "expand", "cast", "identity")
"""Operators that a mask may pass through without change of its last two dims."""

_COMPARED = {"ge": (0, 0), "le": (1, 0), "gt": (0, -1), "lt": (1, -1)}
"""Which input of a comparison counts queries, and what is added to the offset: i > j is i - 1 >= j."""


@ends_with("sdpa")
def _causal(calls: Calls, call: Call) -> bool:
    """Attention with a mask that is a triangle."""
    q, k, v, mask = call.inputs
    if q is None or k is None:
        return False
    queries, keys = q.dims[-2], k.dims[-2]
    if mask is None:
        return _shortened(call, queries, keys)
    if call.settings.get("causal") or "kv_len" in call.settings or mask.dims[-2:] != (queries, keys):
        return False
    offset = _seen(calls, mask) if mask.dtype.name == "bool" else _added(calls, mask)
    if offset is None:
        return False
    settings: dict[str, Setting] = {"q_offset": offset}
    return calls.replace(
        call, "sdpa", [q, k, v, None], {**call.settings, "causal": True, **_needed(settings, queries, keys)}
    )


def _shortened(call: Call, queries: Size, keys: Size) -> bool:
    """Leave out an offset that is the default."""
    if "kv_len" not in call.settings and "q_offset" in call.settings and not _needed(call.settings, queries, keys):
        del call.settings["q_offset"]
        return True
    return False


def _needed(settings: Mapping[str, Setting], queries: Size, keys: Size) -> dict[str, Setting]:
    """Return the setting of the offset, if the last query does not see all keys."""
    offset = settings.get("q_offset")
    if not isinstance(offset, int):
        return {}
    return {} if offset == keys - queries else {"q_offset": offset}


def _added(calls: Calls, mask: Value) -> Size | None:
    """Return the o of a mask that adds 0 to the products of queries i with keys up to i + o, and hides the others."""
    if mask.is_known:
        return _offset_of_array(mask.array() == 0, mask.array()) if mask.known.count <= MOST_MASK else None
    inner = _through(calls, mask)
    chosen = calls.writer(inner, "where")
    if chosen is None:
        return None
    condition, a, b = chosen.inputs
    hides, keeps = scalar_value(a), scalar_value(b)
    if condition is None or hides is None or keeps is None:
        return None
    if hides == 0.0 and keeps <= HIDDEN:
        return _seen(calls, condition)
    return _hidden(calls, condition) if keeps == 0.0 and hides <= HIDDEN else None


def _through(calls: Calls, value: Value) -> Value:
    """Return what a value is before dims of one element were added in front."""
    while True:
        call = calls.writer(value, *_SAME_PLACES)
        inner = None if call is None else call.inputs[0]
        if inner is None or inner.dims[-2:] != value.dims[-2:] or any(dim != 1 for dim in inner.dims[:-2]):
            return value
        value = inner


def _seen(calls: Calls, given: Value) -> Size | None:
    """Return the o of a matrix that is true, or not 0, up to column i + o of row i and nowhere else."""
    value = _through(calls, given)
    if value.is_known:
        return _offset_of_array(value.array() != 0) if value.known.count <= MOST_MASK else None
    inverted = calls.writer(value, "not", "eq")
    if inverted is not None and inverted.inputs[0] is not None:
        is_not = inverted.op == "not" or scalar_value(inverted.inputs[1]) == 0.0
        return _hidden(calls, inverted.inputs[0]) if is_not else None
    compared = calls.writer(value, *_COMPARED)
    if compared is not None:
        rows, shift = _COMPARED[compared.op]
        return _compared(calls, compared.inputs[rows], compared.inputs[1 - rows], shift)
    triangle = calls.writer(value, "tril")
    if triangle is None:
        return None
    filled = calls.writer(triangle.inputs[0], "expand")
    diagonal = triangle.settings.get("k", 0)
    is_full = filled is not None and bool(scalar_value(filled.inputs[0]))
    return diagonal if is_full and isinstance(diagonal, int) else None


def _hidden(calls: Calls, given: Value) -> Size | None:
    """Return the o of a matrix that is false, or 0, up to column i + o of row i and nowhere else."""
    value = _through(calls, given)
    if value.is_known:
        return _offset_of_array(value.array() == 0) if value.known.count <= MOST_MASK else None
    inverted = calls.writer(value, "not", "eq")
    if inverted is not None and inverted.inputs[0] is not None:
        is_not = inverted.op == "not" or scalar_value(inverted.inputs[1]) == 0.0
        return _seen(calls, inverted.inputs[0]) if is_not else None
    compared = calls.writer(value, *_COMPARED)
    if compared is not None:
        # Hidden where the key is greater: queries are the other input, and what is equal is seen unless it says not.
        columns, shift = _COMPARED[compared.op]
        return _compared(calls, compared.inputs[1 - columns], compared.inputs[columns], -1 - shift)
    triangle = calls.writer(value, "triu")
    filled = None if triangle is None else calls.writer(triangle.inputs[0], "expand")
    diagonal = None if triangle is None else triangle.settings.get("k", 0)
    is_full = filled is not None and bool(scalar_value(filled.inputs[0]))
    if not is_full or not isinstance(diagonal, int):
        return None
    return diagonal - 1


def _compared(calls: Calls, rows: Value | None, columns: Value | None, shift: int) -> Size | None:
    """Return o where ``rows`` counts from r down the rows and ``columns`` from c along the columns: r - c + shift."""
    first = None if rows is None else _counted(calls, rows, -2)
    other = None if columns is None else _counted(calls, columns, -1)
    if first is None or other is None:
        return None
    return first - other + shift


def _counted(calls: Calls, value: Value, axis: int) -> Size | None:
    """Return what a value starts with that counts up by one along an axis (negative), and has no other dim."""
    if value.rank < -axis or any(dim != 1 for place, dim in enumerate(value.dims) if place != value.rank + axis):
        return None
    return _start(calls, value)


def _start(calls: Calls, value: Value) -> Size | None:
    """Return what a value starts with whose elements count up by one."""
    if value.is_known:
        array = value.array().reshape(-1)
        is_counting = value.dtype.is_integer and array.size > 0 and bool(np.all(np.diff(array.astype(np.int64)) == 1))
        return int(array[0]) if is_counting else None
    call = calls.writer(value, "range", "add", *_SAME_PLACES)
    if call is None:
        return None
    if call.op == "range":
        start = call.settings.get("start", 0)
        if call.settings.get("step", 1) != 1 or not isinstance(start, int):
            return None
        return start
    if call.op != "add":
        return None if call.inputs[0] is None else _start(calls, call.inputs[0])
    return _shifted(calls, call)


def _shifted(calls: Calls, call: Call) -> Size | None:
    a, b = call.inputs
    for many, one in ((a, b), (b, a)):
        if many is None or one is None or any(dim != 1 for dim in one.dims):
            continue
        start, offset = _start(calls, many), _start(calls, one)
        if start is not None and offset is not None:
            return start + offset
    return None


def _offset_of_array(seen: Array, added: Array | None = None) -> Size | None:
    """Return the o of a matrix that is true up to column i + o of row i, and where ``added`` hides all others."""
    if seen.ndim < 2 or seen.size != seen.shape[-2] * seen.shape[-1] or not seen.size:
        return None
    rows, columns = seen.shape[-2:]
    plain = seen.reshape(rows, columns)
    offset = int(plain[0].sum()) - 1
    if not np.array_equal(plain, np.tri(rows, columns, offset, dtype=np.bool_)):
        return None
    is_hidden = added is None or bool(np.all(added.reshape(plain.shape)[~plain] <= HIDDEN))
    return offset if is_hidden else None
