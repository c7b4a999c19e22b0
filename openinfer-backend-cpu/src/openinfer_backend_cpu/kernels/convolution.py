"""Convolutions as matrix products over the taps of their windows."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from openinfer.array_types import storage_dtype
from openinfer.bound_calls import in_order
from openinfer.ops.calls import OpCall
from openinfer.ops.lifting import lifted, lifted_settings
from openinfer.ops.mixed_floats import widest
from openinfer.ops.windows import windows
from openinfer_backend_cpu.accumulate import accumulator_type, first_element
from openinfer_backend_cpu.integer_products import factor_dtype, product_target
from openinfer_backend_cpu.lanes import in_lanes
from openinfer_backend_cpu.matrix_products import bind_part, bind_product
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging
from openinfer_backend_cpu.windows import Windows, is_held, padded_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.dtypes import DType
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

WORKSPACE = 1 << 20
"""Bytes that the taps gathered for one matrix product take at most, unless one row of the output needs more: what stays
in the cache until it is multiplied."""

FEW_PRODUCTS = 64
"""Below so many products for each position of a group, memory decides and not arithmetic."""


def _supported(call: OpCall) -> bool:
    return is_held(call, _windows(call).padded)


@kernel("conv2d", supports=_supported)
def conv2d(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Cross-correlation of x [N, C, H, W] with w [O, C/groups, kh, kw] plus bias [O]."""
    x, w = inputs[0], inputs[1]
    bias = inputs[2] if len(inputs) > 2 else None
    if not outputs[0].size:
        return in_order([])
    computed = _computed(call)
    dtype = storage_dtype(computed)
    factors = factor_dtype(first_element(call), w[0].size, dtype)
    staging = Staging(workspace)
    target = staging.deliver(outputs[0], computed, call.outputs[0].dtype)
    where = _windows(call)
    groups = cast("int", call.settings.get("groups", 1))
    weights = staging.load(w, factors).reshape(groups, w.shape[0] // groups, w[0].size)
    source, fill = padded_input(x, where, factors, 0, workspace)
    place, wrap = product_target(target, factors, workspace)
    if _gathers_mostly(weights, where) and source.flags.c_contiguous:
        products = _long_rows(source, weights, place, where, workspace)
    else:
        products = _products(_grouped_taps(source, groups, where), weights, place, workspace)
    work = [*fill, *products, *wrap]
    if bias is not None:
        offset = staging.load(bias, dtype).reshape(-1, *(1 for _ in where.dims))
        work.append(partial(np.add, target, offset, out=target))
    return staging.around(*work)


@kernel("conv1d", supports=_supported)
def conv1d(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Cross-correlation of x [N, C, L] with w [O, C/groups, l] plus bias [O]: that of images of one row."""
    kinds = (*(None if kind is None else lifted(kind) for kind in call.inputs[:2]), *call.inputs[2:])
    results = tuple(map(lifted, call.outputs))
    image = OpCall(op="conv2d", inputs=kinds, outputs=results, settings=lifted_settings(call.settings))
    x, w, *bias = inputs
    return conv2d(image, [x[..., None, :], w[..., None, :], *bias], [outputs[0][..., None, :]], workspace)


def _windows(call: OpCall) -> Windows:
    image, taps = (() if given is None else given.shape[2:] for given in call.inputs[:2])
    return Windows(windows(image, taps, call.settings))


def _computed(call: OpCall) -> DType:
    """Return the accumulator's type, or the widest of floats that are mixed."""
    accumulator = accumulator_type(call)
    if not accumulator.is_float:
        return accumulator
    return widest([accumulator, *(given.dtype for given in call.inputs if given is not None)])


def _grouped_taps(source: Array, groups: int, where: Windows) -> Array:
    """Return a view [N, groups, C/groups, kh, kw, H', W'] of the padded input: every tap of every window."""
    images, channels = source.shape[:2]
    n, c, *spatial = source.strides
    return as_strided(
        source,
        (images, groups, channels // groups, *where.kernel, *where.output),
        (
            *(n, c * (channels // groups), c),
            *(step * dim.dilation for step, dim in zip(spatial, where.dims, strict=True)),
            *(step * dim.stride for step, dim in zip(spatial, where.dims, strict=True)),
        ),
        writeable=False,
    )


def _products(taps: Array, weights: Array, target: Array, workspace: Workspace) -> list[BoundCall]:
    """Return calls that gather taps in pieces of bounded size and multiply them with the weights."""
    images, groups, depth, kh, kw, rows, columns = taps.shape
    result = target.reshape(images, groups, weights.shape[1], rows * columns)
    if not taps.size:
        return [partial(target.fill, 0)]
    if taps.flags.c_contiguous:
        flat = taps.reshape(images, groups, depth * kh * kw, rows * columns)
        return [bind_product(weights, flat, result)]
    size = _piece_size(taps.shape, taps.itemsize)
    steps = (range(0, extent, step) for extent, step in zip((images, groups, rows), size, strict=True))
    places = list(product(*steps))

    def pieces() -> list[BoundCall]:
        scratch = workspace.take((math.prod(size) * depth * kh * kw * columns,), taps.dtype)
        calls: list[BoundCall] = []
        for image, group, row in places:
            some, mixed, tall = (slice(at, at + step) for at, step in zip((image, group, row), size, strict=True))
            piece = taps[some, mixed, ..., tall, :]
            place = result[some, mixed, :, row * columns : (row + size[2]) * columns]
            gathered = scratch[: piece.size].reshape(piece.shape)
            flat = gathered.reshape(*piece.shape[:2], weights.shape[2], piece.shape[5] * columns)
            gather = partial(np.copyto, gathered, piece)
            calls.append(in_order([gather, bind_part(weights[mixed], flat, place)]))
        return calls

    return [in_lanes(pieces)]


def _piece_size(taps: tuple[int, ...], itemsize: int) -> tuple[int, int, int]:
    """Return how many images, groups and rows are gathered at a time: whole images, then whole groups, then rows."""
    images, groups, depth, kh, kw, rows, columns = taps
    row = depth * kh * kw * columns * itemsize
    tall = max(1, min(rows, WORKSPACE // row))
    mixed = max(1, min(groups, WORKSPACE // (row * rows)))
    many = max(1, min(images, WORKSPACE // (row * rows * groups)))
    return many, mixed, tall


def _gathers_mostly(weights: Array, where: Windows) -> bool:
    """Return whether gathering taps costs more than multiplying them, and long rows of a group fit the workspace.

    They do cost more where there are few products for each tap; windows have to be side by side.
    """
    groups, kernels, taps = weights.shape
    few = groups > 1 and 0 < kernels * taps < FEW_PRODUCTS
    fits = taps * math.prod(where.padded) * weights.itemsize <= WORKSPACE
    return few and fits and all(dim.stride == 1 for dim in where.dims)


def _long_rows(source: Array, weights: Array, target: Array, where: Windows, workspace: Workspace) -> list[BoundCall]:
    """Return calls that gather the taps of some groups and multiply them, for whole rows of the padded input.

    Between rows that adds positions whose windows lie across two rows, and are left out of the result; in exchange
    each tap of a channel is one long piece of memory.
    """
    images, channels, _, wide = source.shape
    (groups, kernels, size), (rows, columns) = weights.shape, where.output
    length = (rows - 1) * wide + columns
    some = max(1, min(groups, WORKSPACE // 2 // (size * length * source.itemsize)))
    n, c, *steps = source.strides
    down, across = (step * dim.dilation for step, dim in zip(steps, where.dims, strict=True))
    depth = channels // groups
    shape = (images, groups, depth, *where.kernel, length)
    taps = as_strided(source, shape, (n, c * depth, c, down, across, steps[1]), writeable=False)
    result = target.reshape(images, groups, kernels, rows, columns)

    def pieces() -> list[BoundCall]:
        gathered = workspace.take((some, *shape[2:]), source.dtype)
        sums = workspace.take((some, kernels, rows * wide), source.dtype)
        calls: list[BoundCall] = []
        for image, first in product(range(images), range(0, groups, some)):
            piece, place = taps[image, first : first + some], result[image, first : first + some]
            own, totals = gathered[: len(piece)], sums[: len(piece)]
            factors = own.reshape(len(piece), size, length)
            found = totals.reshape(len(piece), kernels, rows, wide)[..., :columns]
            steps = [
                partial(np.copyto, own, piece),
                bind_part(weights[first : first + some], factors, totals[..., :length]),
                partial(np.copyto, place, found),
            ]
            calls.append(in_order(steps))
        return calls

    return [in_lanes(pieces)]
