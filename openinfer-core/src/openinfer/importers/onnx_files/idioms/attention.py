"""Attention by heads."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.rewriting import Calls, close, ends_with, scalar_value
from openinfer.importers.onnx_files.sizes import is_number

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Call, Setting, Value


@ends_with("matmul")
def _attention(calls: Calls, call: Call) -> bool:
    """softmax(scale q kT + mask) v."""
    weights, v = call.inputs
    softmax = _softmax(calls, weights)
    if call.settings or softmax is None or v is None or v.rank not in (3, 4) or softmax.inputs[0] is None:
        return False
    rank = v.rank
    if softmax.settings.get("axis", -1) not in (-1, rank - 1):
        return False
    scores, mask = _mask(calls, softmax.inputs[0])
    number, values = calls.factors(scores)
    product = calls.inner(values[0], "matmul") if len(values) == 1 else None
    if product is None or product.inputs[0] is None or product.inputs[1] is None or product.settings.get("trans_a"):
        return False
    left, queries = calls.factors(product.inputs[0])
    right, keys = _keys(calls, product)
    if len(queries) != 1 or keys is None:
        return False
    q, k, again = queries[0], keys, None
    if q.rank == 4 and k.dims == (*v.dims[:2], q.dims[-1], v.dims[-2]):
        # Keys that one transpose brings from [batch, length, heads, width] to [batch, heads, width, length].
        again = calls.inner(k, "transpose")
        if again is None or again.settings.get("perm") != (0, 2, 3, 1):
            return False
        k = replace(k, dims=(*v.dims[:2], v.dims[-2], q.dims[-1]))
    width = q.dims[-1]
    if not (q.rank == k.rank == rank and is_number(width) and width) or not _same_heads(q, k, v):
        return False
    scale = number * left * right
    is_default = close(scale, 1 / math.sqrt(width), q.dtype)
    settings: dict[str, Setting] = {} if is_default else {"scale": float(f"{scale:.7g}")}
    if again is not None:
        again.settings["perm"] = (0, 2, 1, 3)
        again.outputs[0].dims, k = k.dims, again.outputs[0]
    return calls.replace(call, "sdpa", [q, k, v, mask], settings)


def _softmax(calls: Calls, weights: Value | None) -> Call | None:
    """Return the softmax of weights, also where exporters put zeros in place of its NaN, as attention itself does."""
    guard = calls.inner(weights, "where")
    if guard is None:
        return calls.inner(weights, "softmax")
    test, zero, kept = guard.inputs
    is_nan = calls.inner(test, "is_nan")
    if is_nan is None or kept is None or is_nan.inputs[0] is not kept or scalar_value(zero) != 0.0:
        return None
    return calls.writer(kept, "softmax") if calls.count(kept) == 2 else None


def _mask(calls: Calls, value: Value) -> tuple[Value, Value | None]:
    """Return scores, and the mask that is added to them."""
    call = calls.inner(value, "add")
    a, b = (call.inputs[0], call.inputs[1]) if call is not None else (None, None)
    if a is None or b is None:
        return value, None
    for scores, mask in ((a, b), (b, a)):
        _, values = calls.factors(scores)
        if len(values) == 1 and calls.inner(values[0], "matmul") and scores.dims == value.dims:
            return scores, mask
    return value, None


def _keys(calls: Calls, product: Call) -> tuple[float, Value | None]:
    """Return a factor and the keys of a product with their transpose."""
    given = product.inputs[1]
    if given is None:
        return 1.0, None
    number, values = calls.factors(given)
    if len(values) != 1:
        return 1.0, None
    if product.settings.get("trans_b"):
        return number, values[0]
    swap = calls.writer(values[0], "transpose")
    rank = values[0].rank
    folded = _swapped_in_three_dims(calls, values[0])
    if folded is not None:
        return number, folded
    if swap is None or swap.inputs[0] is None:
        return number, None
    perm = swap.settings.get("perm")
    if perm == (*range(rank - 2), rank - 1, rank - 2):
        return number, swap.inputs[0]
    return number, values[0]


def _swapped_in_three_dims(calls: Calls, value: Value) -> Value | None:
    """Return what is swapped by a transpose of matrices that a reshape before and one after it lay in one dim."""
    outer = calls.writer(value, "reshape")
    swap = None if outer is None else calls.writer(outer.inputs[0], "transpose")
    inner = None if swap is None else calls.writer(swap.inputs[0], "reshape")
    x = None if inner is None else inner.inputs[0]
    if inner is None or swap is None or x is None or swap.settings.get("perm") != (0, 2, 1):
        return None
    if inner.outputs[0].dims[-2:] != x.dims[-2:] or value.dims != (*x.dims[:-2], x.dims[-1], x.dims[-2]):
        return None
    return x


def _same_heads(q: Value, k: Value, v: Value) -> bool:
    return q.dims[:-2] == k.dims[:-2] == v.dims[:-2] and k.dims[-2] == v.dims[-2] and q.dtype is k.dtype is v.dtype
