"""Attention of one query that sees every key: what a decoder does for each token, with one more key each time.

Views are made of what is given and a dozen functions called; there is nothing to bind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.ops.attention import attention, folded_attention
from openinfer_backend_cpu.matrix_products import product_of
from openinfer_backend_cpu.staging import computed_as_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.ops.attention import Attention
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]
    DirectWork: TypeAlias = Callable[[Sequence[Any], Sequence[Array]], object]
    Attend: TypeAlias = Callable[[Array, Array, Array, Array], object]

MOST_WEIGHTS = 4 << 20
"""Bytes of weights up to which all heads are taken at once."""


def direct_attn(call: OpCall, workspace: Workspace) -> DirectWork | None:
    """Return ``attn`` of one row without a projection; None for others."""
    how = folded_attention(call.inputs, call.settings)
    if len(call.inputs) > 3 and call.inputs[3] is not None:
        return None
    attend = _attend(how, call, workspace)
    if attend is None:
        return None
    queries, results = (how.kv_heads, how.group, how.depth), (how.kv_heads, how.group, how.value_depth)
    keys, values = (how.keys, how.kv_heads, how.depth), (how.keys, how.kv_heads, how.value_depth)

    def run(inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        x, k, v = inputs[:3]
        attend(
            x.reshape(queries),
            k.reshape(keys).transpose(1, 2, 0),
            v.reshape(values).transpose(1, 0, 2),
            outputs[0].reshape(results),
        )

    return run


def direct_sdpa(call: OpCall, workspace: Workspace) -> DirectWork | None:
    """Return ``sdpa`` of one query for each head, without a mask; None for others."""
    how = attention(call.inputs, call.settings)
    if len(call.inputs) > 3 and call.inputs[3] is not None:
        return None
    attend = _attend(how, call, workspace)
    if attend is None:
        return None
    heads = how.batch * how.kv_heads
    queries, results = (heads, how.group, how.depth), (heads, how.group, how.value_depth)
    keys, values = (heads, how.keys, how.depth), (heads, how.keys, how.value_depth)

    def run(inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        q, k, v = inputs[:3]
        attend(q.reshape(queries), k.reshape(keys).swapaxes(1, 2), v.reshape(values), outputs[0].reshape(results))

    return run


def _attend(how: Attention, call: OpCall, workspace: Workspace) -> Attend | None:
    """Return what attends with queries [N, G, D], keys [N, D, S] and values [N, S, V], into [N, G, V]."""
    heads = how.batch * how.kv_heads
    dtype = storage_dtype(call.outputs[0].dtype)
    if how.queries != 1 or how.seen(0) != range(how.keys) or how.softcap > 0 or not computed_as_stored(call):
        return None
    if not how.keys or heads * how.group * how.keys * dtype.itemsize > MOST_WEIGHTS:
        return None
    weights = workspace.take((heads, how.group, how.keys), dtype)
    scaled = workspace.take((heads, how.group, how.depth), dtype)
    part = workspace.take((heads, how.group, 1), dtype)
    score = product_of(scaled.shape, (heads, how.depth, how.keys), dtype)
    mix = product_of(weights.shape, (heads, how.keys, how.value_depth), dtype)
    scale, lowest, one = dtype.type(how.scale), np.finfo(dtype).min, dtype.type(1)

    def attend(q: Array, k: Array, v: Array, y: Array) -> None:
        np.multiply(q, scale, out=scaled)
        score(scaled, k, weights)
        np.maximum.reduce(weights, axis=-1, keepdims=True, out=part, initial=lowest)
        np.subtract(weights, part, out=weights)
        np.exp(weights, out=weights)
        np.add.reduce(weights, axis=-1, keepdims=True, out=part)
        np.maximum(part, one, out=part)
        mix(weights, v, y)
        np.divide(y, part, out=y)

    return attend
