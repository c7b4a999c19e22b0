"""Matrix products whose bits do not depend on the number of threads.

The linear algebra library is limited to one thread. Large products are cut into tiles, over which as many threads of
our own go as the library may use: what limits its threads (such as the variable ``OPENBLAS_NUM_THREADS``) limits ours.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer_backend_cpu.linear_algebra import linear_algebra
from openinfer_backend_cpu.tiles import MOST, tiles
from openinfer_backend_cpu.workers import WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall

    Array: TypeAlias = npt.NDArray[Any]
    Product: TypeAlias = Callable[[Array, Array, Array], object]
    Shape: TypeAlias = tuple[int, ...]

SMALL = 1 << 16
"""Products of elements up to which the library uses one thread in any case: OpenBLAS does up to four times as many."""

SMALL_VECTOR = 2304
"""The same where one operand is a vector."""


def bind_product(left: Array, right: Array, out: Array) -> BoundCall:
    """Return a call that writes the product of ``left`` and ``right``, with NumPy's rules for ranks, to ``out``."""
    if not _threaded(left.shape, right.shape, out.dtype):
        return partial(np.matmul, left, right, out)
    operands = _matrices(left, right, out)
    pieces = tiles(operands[0].shape, operands[1].shape)
    if len(pieces) == 1:
        return alone(np.matmul, left, right, out)
    return in_any_order([partial(np.matmul, *each) for each in pieces.of(*operands)])


def bind_part(left: Array, right: Array, out: Array) -> BoundCall:
    """Return the call of a matrix product, for use within a call that runs `alone`."""
    return partial(np.matmul, left, right, out)


def product_of(left: Shape, right: Shape, dtype: np.dtype[Any]) -> Product:
    """Return a function that writes products of arrays of these shapes and one type: `bind_product` for varying
    arrays."""
    if not _threaded(left, right, dtype):
        return np.matmul
    pieces = tiles(left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1))
    return _cut if len(pieces) > 1 else _whole


def multiply(left: Array, right: Array, out: Array) -> None:
    """Write a product of arrays of one type to ``out``."""
    product_of(left.shape, right.shape, out.dtype)(left, right, out)


def _matrices(left: Array, right: Array, out: Array) -> tuple[Array, Array, Array]:
    """Return operands and result of a product with vectors as matrices of one row or column."""
    if right.ndim == 1:
        right, out = right[:, None], out[..., None]
    if left.ndim == 1:
        left, out = left[None], out[..., None, :]
    return left, right, out


def _whole(left: Array, right: Array, out: Array) -> None:
    linear_algebra().threads.alone(np.matmul, left, right, out)


def _cut(left: Array, right: Array, out: Array) -> None:
    bind_product(left, right, out)()


def alone(call: Callable[..., object], *operands: object) -> BoundCall:
    """Return the call of some operands, with the library limited to one thread."""
    return partial(linear_algebra().threads.alone, call, *operands)


def in_any_order(calls: Sequence[BoundCall], most: int = MOST) -> BoundCall:
    """Return one call that makes several, `alone` each, in up to ``most`` threads; none may depend on another."""
    lone = [alone(call) for call in calls]
    if len(lone) == 1:
        return lone[0]
    threads = linear_algebra().threads
    return lambda: WORKERS.share(lone, min(threads.count(), most))


def _threaded(left: Shape, right: Shape, dtype: np.dtype[Any]) -> bool:
    """Whether the library might use threads for a product; it knows f32 and f64."""
    if dtype.char not in "fd":
        return False
    matrix, columns = math.prod(left[-2:]), right[-1] if len(right) > 1 else 1
    vector = len(left) == 1 or 1 in (left[-2], columns)
    return matrix * columns > (SMALL_VECTOR if vector else SMALL)
