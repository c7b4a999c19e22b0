"""Attention by heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.rewriting import Calls, close, ends_with, permutation, scalar_value
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Call, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.values import Setting


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
    right, factor = calls.factors(product.inputs[1])
    if len(queries) != 1 or len(factor) != 1:
        return False
    q, keys = queries[0], _keys(calls, factor[0], is_swapped=bool(product.settings.get("trans_b")))
    if keys is None:
        return False
    k, made = keys
    width = q.dims[-1]
    if not (q.rank == k.rank == rank and is_number(width) and width) or not _same_heads(q, k, v):
        return False
    scale = number * left * right
    is_default = close(scale, 1 / math.sqrt(width), q.dtype)
    settings: dict[str, Setting] = {} if is_default else {"scale": float(f"{scale:.7g}")}
    calls.before(call, made)
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


def _keys(calls: Calls, factor: Value, *, is_swapped: bool) -> tuple[Value, Sequence[Call]] | None:
    """Return keys [..., length, width] of the second factor, [..., width, length], and the calls that make them.

    None where no transpose lies between the two, which would then be one more.
    """
    if is_swapped:
        return factor, ()
    folded = _swapped_in_three_dims(calls, factor)
    if folded is not None:
        return folded, ()
    swap = calls.writer(factor, "transpose")
    if swap is not None and swap.inputs[0] is not None:
        x, rank = swap.inputs[0], factor.rank
        *outer, last, before = permutation(swap)
        perm = (*outer, before, last)
        if perm == tuple(range(rank)):
            return x, ()
        # One transpose brings keys from [batch, length, heads, width] to [batch, heads, width, length].
        return _made(swap, "transpose", x, {"perm": perm}, factor) if calls.count(factor) == 1 else None
    outer_reshape = calls.inner(factor, "reshape")
    inner = None if outer_reshape is None else calls.writer(outer_reshape.inputs[0], "transpose")
    x = None if inner is None else inner.inputs[0]
    if inner is None or x is None or permutation(inner) != (*range(x.rank - 2), x.rank - 1, x.rank - 2):
        return None
    if factor.dims[-2:] != inner.outputs[0].dims[-2:]:
        return None
    dims = (*factor.dims[:-2], *x.dims[-2:])
    return _made(inner, "reshape", x, {"shape": dims}, factor)


def _made(near: Call, op: str, x: Value, settings: dict[str, Setting], swapped: Value) -> tuple[Value, Sequence[Call]]:
    keys = Value(swapped.name, x.dtype, (*swapped.dims[:-2], swapped.dims[-1], swapped.dims[-2]))
    return keys, [Call(op, (x,), settings, (keys,), stage=near.stage)]


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
