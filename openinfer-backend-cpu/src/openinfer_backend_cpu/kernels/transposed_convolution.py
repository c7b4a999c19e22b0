"""Transposed convolutions, one tap of all windows at a time."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.bound_calls import in_order
from openinfer.dtypes import FLOAT
from openinfer.ops.mixed_floats import widest
from openinfer.ops.shapes import integer
from openinfer.ops.transposed_windows import transposed_windows
from openinfer_backend_cpu.matrix_products import bind_product
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging
from openinfer_backend_cpu.windows import is_held

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer.ops.transposed_windows import TransposedWindow
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

WORKSPACE = 4 << 20
"""Bytes that the products of one tap take at most, unless those of one row of an image need more."""

_FLOAT = frozenset(dtype.name for dtype in FLOAT)


def _supported(call: OpCall) -> bool:
    return is_held(call, [window.whole for window in _windows(call)])


@kernel("conv_transpose2d", dtypes=_FLOAT, supports=_supported)
def conv_transpose2d(
    call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace
) -> BoundCall:
    """Add the products of x [N, C, H, W] with each tap of w [C, O/groups, kh, kw] to the places that it reaches."""
    x, w, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    if not outputs[0].size:
        return in_order([])
    dtype = storage_dtype(widest([given.dtype for given in call.inputs if given is not None]))
    staging = Staging(workspace)
    over = _windows(call)
    groups = integer(call.settings.get("groups"), "groups")
    target = staging.store(outputs[0], dtype)
    source, weights = staging.load(x, dtype), staging.load(w, dtype)
    full = workspace.take((*target.shape[:2], *(window.whole for window in over)), dtype)
    work: list[BoundCall] = [partial(full.fill, 0)]
    work += _taps(source, weights, full, over, groups, workspace)
    inside = full[(slice(None), slice(None), *(slice(o.before, o.before + o.positions) for o in over))]
    if bias is None:
        work.append(partial(np.copyto, target, inside))
    else:
        work.append(partial(np.add, inside, staging.load(bias, dtype)[:, None, None], out=target))
    return staging.around(*work)


def _windows(call: OpCall) -> tuple[TransposedWindow, ...]:
    image, taps = (() if given is None else given.shape[2:] for given in call.inputs[:2])
    return transposed_windows(image, taps, call.settings)


def _taps(
    x: Array, w: Array, full: Array, over: Sequence[TransposedWindow], groups: int, workspace: Workspace
) -> list[BoundCall]:
    """Return calls that multiply pieces of x, of bounded size, with each tap and add the products where they belong."""
    images, channels, rows, columns = x.shape
    kernels = w.shape[1]
    row_bytes = groups * kernels * columns * x.itemsize
    if not row_bytes:
        return []
    tall = max(1, min(rows, WORKSPACE // row_bytes))
    many = max(1, min(images, WORKSPACE // (row_bytes * rows))) if tall == rows else 1
    given = x.reshape(images, groups, channels // groups, rows * columns)
    sums = full.reshape(images, groups, kernels, *full.shape[2:])
    turned = workspace.take((*w.shape[2:], groups, kernels, channels // groups), x.dtype)
    scratch = workspace.take((many * groups * kernels * tall * columns,), x.dtype)
    folded = w.reshape(groups, channels // groups, *w.shape[1:])
    calls: list[BoundCall] = [partial(np.copyto, turned, folded.transpose(3, 4, 0, 2, 1))]
    for image, row in product(range(0, images, many), range(0, rows, tall)):
        piece = given[image : image + many, ..., row * columns : (row + tall) * columns]
        high = piece.shape[-1] // columns
        products = scratch[: piece.shape[0] * groups * kernels * high * columns]
        flat = products.reshape(piece.shape[0], groups, kernels, high * columns)
        shaped = products.reshape(piece.shape[0], groups, kernels, high, columns)
        for i, j in product(range(over[0].kernel), range(over[1].kernel)):
            down, across = _reached(over[0], i, row, high), _reached(over[1], j, 0, columns)
            place = sums[image : image + many, :, :, down, across]
            calls += [bind_product(turned[i, j], piece, flat), partial(np.add, place, shaped, out=place)]
    return calls


def _reached(window: TransposedWindow, tap: int, first: int, count: int) -> slice:
    """Return the places to which elements from ``first`` on add with a tap."""
    start = first * window.stride + tap * window.dilation
    return slice(start, start + (count - 1) * window.stride + 1, window.stride)
