"""Linear layers, and rows of tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.rewriting import Calls, ends_with
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.onnx_files.values import Value

_EMBEDDING = re.compile(r"emb|wte|wpe|vocab")
"""Parts of the names of embeddings."""

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Call, Setting


@ends_with("add")
def _linear(calls: Calls, call: Call) -> bool:
    """A product with a matrix of weights plus a row."""
    a, b = call.inputs
    for x, shift in ((a, b), (b, a)):
        product = calls.inner(x, "matmul", "linear")
        bias = None if x is None or shift is None else _row(shift, x.rank)
        if product is None or bias is None or len(product.inputs) < 2:
            continue
        w = product.inputs[1]
        if w is None or w.rank != 2 or not w.is_known or not w.dtype.is_float or bias.dims != call.outputs[0].dims[-1:]:
            continue
        if product.op == "linear" and product.inputs[2] is not None:
            continue
        settings = dict(product.settings)
        if settings.get("trans_a"):
            continue
        is_transposed = settings.get("trans_b") or settings.get("trans_w")
        new: dict[str, Setting] = {"trans_w": True} if is_transposed else {}
        if bias.dims[0] == w.dims[0 if is_transposed else 1]:
            return calls.replace(call, "linear", [product.inputs[0], w, bias], new)
    return False


def _row(value: Value, rank: int) -> Value | None:
    """Return a value as a row where it is one, if need be without dims of one element in front of it."""
    if value.rank == 1:
        return value
    if value.payload is None or not 1 < value.rank <= rank or any(dim != 1 for dim in value.dims[:-1]):
        return None
    payload, shape = value.payload, value.payload.shape[-1:]
    return Value(value.name, value.dtype, shape, Payload(value.dtype, shape, lambda: payload.load().reshape(shape)))


@ends_with("matmul")
def _one_hot(calls: Calls, call: Call) -> bool:
    """Rows of ones at single places times a matrix of weights: the rows of the matrix at these places."""
    rows, table = call.inputs
    made = calls.inner(rows, "one_hot", "cast")
    if made is not None and made.op == "cast":
        made = calls.inner(made.inputs[0], "one_hot")
    ids = None if made is None else made.inputs[0]
    if made is None or ids is None or table is None or call.settings or ids.dtype.name != "i64":
        return False
    if not table.is_known or table.rank != 2 or not table.dtype.is_float or made.outputs[0].dims[-1:] != table.dims[:1]:
        return False
    is_plain = made.settings.get("on", 1) == 1 and made.settings.get("off", 0) == 0
    if not is_plain or made.settings.get("axis", -1) not in (-1, ids.rank):
        return False
    return calls.replace(call, "embedding", [ids, table])


@ends_with("matmul")
def _transposed(calls: Calls, call: Call) -> bool:
    """A product with a matrix whose last two dims another call swaps."""
    a, b = call.inputs
    for position, (value, name) in enumerate(((a, "trans_a"), (b, "trans_b"))):
        swap = calls.writer(value, "transpose")
        if swap is None or swap.inputs[0] is None or swap.inputs[0].rank < 2 or call.settings.get(name):
            continue
        rank = swap.inputs[0].rank
        perm = swap.settings.get("perm", tuple(reversed(range(rank))))
        if perm == (*range(rank - 2), rank - 1, rank - 2):
            inputs = [swap.inputs[0], b] if position == 0 else [a, swap.inputs[0]]
            return calls.replace(call, "matmul", inputs, {**call.settings, name: True})
    return False


@ends_with("gather")
def _embedding(calls: Calls, call: Call) -> bool:
    """Rows of a matrix of weights, where the model calls them an embedding.

    Other rows may be counted from the end, by negative numbers, which an embedding refuses.
    """
    table, ids = call.inputs
    if table is None or ids is None or call.settings.get("axis", 0) != 0:
        return False
    if not table.is_known or table.rank != 2 or not table.dtype.is_float or ids.is_known or ids.dtype.name != "i64":
        return False
    said = f"{call.stage} {call.outputs[0].name} {table.name}".lower()
    counts = calls.writer(ids, "range")
    if not _EMBEDDING.search(said) and (counts is None or counts.settings.get("start", 0) != 0):
        return False
    return calls.replace(call, "embedding", [ids, table])
