"""Attention over the keys of each head, in pieces of bounded size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from openinfer.bound_calls import in_order
from openinfer.dtypes import FLOAT
from openinfer.ops.attention import Attention, attention, folded_attention
from openinfer_backend_cpu.matrix_products import bind_product
from openinfer_backend_cpu.registration import direct, kernel
from openinfer_backend_cpu.single_query import direct_attn, direct_sdpa
from openinfer_backend_cpu.staging import Staging, widest_float

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

WEIGHTS = 4 << 20
"""Bytes of weights (queries times keys) that are stored at once, unless one query of one head needs more."""

_FLOAT = frozenset(dtype.name for dtype in FLOAT)


@direct(direct_sdpa)
@kernel("sdpa")
def sdpa(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """softmax(scale q k^T + mask) v by heads; grouped heads share keys and values."""
    how = attention(call.inputs, call.settings)
    if not outputs[0].size:
        return in_order([])
    mask = inputs[3] if len(inputs) > 3 else None
    dtype = widest_float(inputs)
    staging = Staging(workspace)
    q, k, v = (_whole(staging.load(array, dtype)) for array in inputs[:3])
    y = _whole(staging.store(outputs[0], dtype))
    loaded = None if mask is None else mask if mask.dtype == np.bool_ else staging.load(mask, dtype)
    parts = _Parts(
        queries=_grouped(q, how),
        keys=k[:, :, : how.valid].swapaxes(-1, -2),
        values=v[:, :, : how.valid],
        target=_grouped(y, how),
        mask=None if loaded is None else _grouped_mask(loaded, how),
    )
    return staging.around(*_attended(parts, how, workspace))


@direct(direct_attn)
@kernel("attn", dtypes=_FLOAT)
def attn(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Attention of rows with heads folded into columns; keys and values [S, H, D] are read where they lie."""
    how = folded_attention(call.inputs, call.settings)
    if not outputs[0].size:
        return in_order([])
    dtype = widest_float(inputs)
    staging = Staging(workspace)
    x, k, v = (staging.load(array, dtype) for array in inputs[:3])
    w = inputs[3] if len(inputs) > 3 else None
    rows = x
    project: list[BoundCall] = []
    if w is not None:
        rows = workspace.take((how.queries, how.heads * how.depth), dtype)
        project.append(bind_product(x, staging.load(w, dtype), rows))
    y = staging.store(outputs[0], dtype)
    parts = _Parts(
        queries=_unfolded(rows, how, how.depth),
        keys=k.reshape(how.keys, how.kv_heads, how.depth).transpose(1, 2, 0)[None],
        values=v.reshape(how.keys, how.kv_heads, how.value_depth).transpose(1, 0, 2)[None],
        target=_unfolded(y, how, how.value_depth),
        mask=None,
    )
    return staging.around(*project, *_attended(parts, how, workspace))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Views of the operands.

    Attributes:
        queries, target: [B, Hkv, group, Sq, D].
        keys: [B, Hkv, D, Sk].
        values: [B, Hkv, Sk, Dv].
        mask: [B, Hkv, group, Sq, Sk], some dims 1.
    """

    queries: Array
    keys: Array
    values: Array
    target: Array
    mask: Array | None


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some heads and queries of one batch entry, and the keys that any of them sees."""

    batch: int
    heads: slice
    rows: slice
    keys: range


def _whole(array: Array) -> Array:
    return array.reshape((*(1 for _ in range(4 - array.ndim)), *array.shape))


def _grouped(array: Array, how: Attention) -> Array:
    return array.reshape(how.batch, how.kv_heads, how.group, how.queries, array.shape[-1])


def _unfolded(rows: Array, how: Attention, depth: int) -> Array:
    return rows.reshape(how.queries, how.kv_heads, how.group, depth).transpose(1, 2, 0, 3)[None]


def _grouped_mask(mask: Array, how: Attention) -> Array:
    """Return the mask of weights [B, Hq, Sq, Sk] with the heads split into groups."""
    whole = _whole(mask)
    heads = (how.kv_heads, how.group) if whole.shape[1] != 1 else (1, 1)
    return whole.reshape(whole.shape[0], *heads, *whole.shape[2:])


def _attended(parts: _Parts, how: Attention, workspace: Workspace) -> list[BoundCall]:
    """Return the calls that attend piece by piece."""
    dtype = parts.queries.dtype
    pieces = list(_pieces(how, dtype.itemsize))
    most = max((_rows(piece, how) * len(piece.keys) for piece in pieces), default=0)
    wide = max((_rows(piece, how) for piece in pieces), default=0)
    scratch = _Scratch(
        weights=workspace.take((most,), dtype),
        part=workspace.take((wide,), dtype),
        queries=workspace.take((wide * how.depth,), dtype),
    )
    return [call for piece in pieces for call in _attend(piece, parts, how, scratch)]


@dataclass(frozen=True, slots=True)
class _Scratch:
    weights: Array
    part: Array
    queries: Array


def _rows(piece: _Piece, how: Attention) -> int:
    return (piece.heads.stop - piece.heads.start) * how.group * (piece.rows.stop - piece.rows.start)


def _pieces(how: Attention, itemsize: int) -> Iterator[_Piece]:
    row = max(how.valid, 1) * itemsize
    tall = min(how.queries, max(1, WEIGHTS // (row * how.group)))
    many = min(how.kv_heads, max(1, WEIGHTS // (row * how.group * tall)))
    for batch in range(how.batch):
        for head in range(0, how.kv_heads, many):
            for first in range(0, how.queries, tall):
                last = min(first + tall, how.queries)
                heads = slice(head, min(head + many, how.kv_heads))
                seen = range(how.seen(first).start, max(how.seen(last - 1).stop, how.seen(first).start))
                yield _Piece(batch, heads, slice(first, last), seen)


def _attend(piece: _Piece, parts: _Parts, how: Attention, scratch: _Scratch) -> list[BoundCall]:
    """Return the calls for one piece: products, softmax, weighted sums divided by the sum of the weights."""
    q = parts.queries[piece.batch, piece.heads, :, piece.rows]
    target = parts.target[piece.batch, piece.heads, :, piece.rows]
    if not piece.keys:
        return [partial(target.fill, 0)]
    keys = slice(piece.keys.start, piece.keys.stop)
    k, v = parts.keys[piece.batch, piece.heads, :, keys], parts.values[piece.batch, piece.heads, keys]
    count = math.prod(q.shape[:-1])
    weights = scratch.weights[: count * len(piece.keys)].reshape(*q.shape[:-1], len(piece.keys))
    part = scratch.part[:count].reshape(*q.shape[:-1], 1)
    scaled = scratch.queries[: q.size].reshape(q.shape)
    hide = [*_masked(weights, piece, parts.mask), *_hidden(weights, piece, how)]
    return [
        partial(np.multiply, q, q.dtype.type(how.scale), out=scaled),
        _product(scaled, k, weights),
        *_capped(weights, how.softcap),
        *hide,
        # A query that sees no key has -inf for all of them: with a finite maximum these become weights of 0.
        partial(np.maximum.reduce, weights, axis=-1, keepdims=True, out=part, initial=np.finfo(part.dtype).min),
        partial(np.subtract, weights, part, out=weights),
        partial(np.exp, weights, out=weights),
        partial(np.add.reduce, weights, axis=-1, keepdims=True, out=part),
        # The greatest weight is 1, so that this changes the sum of no others.
        partial(np.maximum, part, part.dtype.type(1), out=part),
        _product(weights, v, target),
        *([partial(_keep_hidden_out, weights, v, target)] if hide else []),
        partial(np.divide, target, part, out=target),
    ]


def _product(rows: Array, columns: Array, target: Array) -> BoundCall:
    """Return the product of rows [H, G, R, K] with columns [H, K, N] of their head; a single R needs no loop over G."""
    if rows.shape[2] == 1:
        return bind_product(rows[:, :, 0], columns, target[:, :, 0])
    return bind_product(rows, columns[:, None], target)


def _keep_hidden_out(weights: Array, values: Array, target: Array) -> None:
    """Sum again where a weight of zero met a value that is not finite: a hidden key adds nothing, whatever that is."""
    if not np.isnan(target).any():
        return
    finite = np.where(np.isfinite(values), values, values.dtype.type(0))
    counts = (weights != 0).astype(values.dtype)
    _product(weights, finite, target)()
    met = np.empty_like(target)
    for special, found in ((np.inf, values == np.inf), (-np.inf, values == -np.inf), (np.nan, np.isnan(values))):
        if found.any():
            _product(counts, found.astype(values.dtype), met)()
            np.add(target, special, out=target, where=met > 0)


def _capped(weights: Array, softcap: float) -> list[BoundCall]:
    if not softcap > 0:
        return []
    bound = weights.dtype.type(softcap)
    return [
        partial(np.divide, weights, bound, out=weights),
        partial(np.tanh, weights, out=weights),
        partial(np.multiply, weights, bound, out=weights),
    ]


def _masked(weights: Array, piece: _Piece, mask: Array | None) -> list[BoundCall]:
    """Return the calls that add a float mask, or hide where a bool mask is false."""
    if mask is None:
        return []
    chosen = mask[
        piece.batch if mask.shape[0] != 1 else 0,
        piece.heads if mask.shape[1] != 1 else slice(None),
        :,
        piece.rows if mask.shape[3] != 1 else slice(None),
        slice(piece.keys.start, piece.keys.stop) if mask.shape[4] != 1 else slice(None),
    ]
    if mask.dtype != np.bool_:
        return [partial(np.add, weights, chosen, out=weights)]
    return [lambda: np.copyto(weights, -np.inf, where=~chosen)]


def _hidden(weights: Array, piece: _Piece, how: Attention) -> list[BoundCall]:
    """Return the call that hides keys by their distance from the query, which decides alone: the same on a diagonal."""
    first, last = how.seen(piece.rows.start), how.seen(piece.rows.stop - 1)
    if first == last == piece.keys:
        return []
    rows, keys = weights.shape[-2:]
    nearest = piece.keys.start - (piece.rows.stop - 1) - how.offset
    distances: Array = np.arange(nearest, nearest + rows + keys - 1, dtype=np.int64)
    hidden: Array = np.zeros(distances.shape, np.bool_)
    if how.causal:
        hidden |= distances > 0
    if how.window is not None:
        hidden |= distances < -how.window
    diagonals = as_strided(hidden[rows - 1 :], (rows, keys), (-1, 1), writeable=False)
    return [partial(np.copyto, weights, -np.inf, where=diagonals)]
