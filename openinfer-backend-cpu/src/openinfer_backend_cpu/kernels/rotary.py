"""Rotary position embeddings: pairs of elements rotated by angles that depend on the position."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.ops.rotary import Rotary, frequencies, rope_cached_plan, rope_plan
from openinfer_backend_cpu.indices import places
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging, widest_float

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("rope")
def rope(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Pairs rotated by ``pos * freq_scale * base^(-2i/r)``; angles are computed in f64."""
    how = rope_plan(call.inputs, call.settings)
    x, pos = inputs
    dtype = widest_float([x])
    turns = np.array(frequencies(how, call.settings), np.float64)
    angles = workspace.take((*pos.shape, how.pairs), np.dtype(np.float64))
    exact = workspace.take(angles.shape, np.dtype(np.float64))
    cos, sin = (workspace.take(angles.shape, dtype) for _ in "cs")
    staging = Staging(workspace)
    return staging.around(
        partial(np.multiply, pos[..., None], turns, out=angles),
        partial(np.cos, angles, out=exact),
        partial(np.copyto, cos, exact, casting="unsafe"),
        partial(np.sin, angles, out=exact),
        partial(np.copyto, sin, exact, casting="unsafe"),
        *_turned(x, outputs[0], cos, sin, how, staging, workspace),
    )


@kernel("rope_cached")
def rope_cached(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Pairs rotated by given cosines and sines, taken by position if positions are given."""
    how = rope_cached_plan(call.inputs, call.settings)
    x, pos = inputs[0], inputs[3] if len(inputs) > 3 else None
    dtype = widest_float(inputs[:3])
    staging = Staging(workspace)
    cos, sin = (staging.load(table, dtype) for table in inputs[1:3])
    before: list[BoundCall] = []
    if pos is not None:
        rows, check = places(pos, len(cos), "rope_cached: cos and sin", workspace)
        tables, shape = (cos, sin), (*pos.shape, how.pairs)
        cos, sin = (workspace.take(shape, dtype) for _ in "cs")
        take = [
            partial(np.take, table, rows, axis=0, out=target, mode="clip")
            for table, target in zip(tables, (cos, sin), strict=True)
        ]
        before += [check, *take]
    turn = _turned(x, outputs[0], cos, sin, how, staging, workspace, dtype)
    return staging.around(*before, *turn)


def _turned(
    x: Array,
    out: Array,
    cos: Array,
    sin: Array,
    how: Rotary,
    staging: Staging,
    workspace: Workspace,
    dtype: np.dtype[Any] | None = None,
) -> list[BoundCall]:
    """Return the calls that turn the pairs of x and copy the rest; positions come before all dims but the last."""
    wide = dtype or widest_float([x])
    source, target = (np.moveaxis(a, how.axis, -2) for a in (staging.load(x, wide), staging.store(out, wide)))
    c, s = (_broadcastable(table, source.ndim, how) for table in (cos, sin))
    halves = (slice(0, 2 * how.pairs, 2), slice(1, 2 * how.pairs, 2))
    if not how.interleaved:
        halves = (slice(0, how.pairs), slice(how.pairs, 2 * how.pairs))
    (a, b), (left, right) = ([array[..., half] for half in halves] for array in (source, target))
    product = workspace.take(a.shape, wide)
    rest = slice(2 * how.pairs, None)
    return [
        partial(np.multiply, a, c, out=left),
        partial(np.multiply, b, s, out=product),
        partial(np.subtract, left, product, out=left),
        partial(np.multiply, b, c, out=right),
        partial(np.multiply, a, s, out=product),
        partial(np.add, right, product, out=right),
        *([partial(np.copyto, target[..., rest], source[..., rest])] if 2 * how.pairs < x.shape[-1] else []),
    ]


def _broadcastable(table: Array, rank: int, how: Rotary) -> Array:
    """Return cosines or sines [S, pairs], or [B, S, pairs], so that they broadcast to x [B, ..., S, pairs]."""
    if not how.batched:
        return table
    return table.reshape((table.shape[0], *(1 for _ in range(rank - table.ndim)), *table.shape[1:]))
