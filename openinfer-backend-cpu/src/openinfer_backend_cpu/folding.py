"""Reductions from their definition: one accumulator per kept position, the folded positions one after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import I64
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.expr.tree import Expr
    from openinfer.ops.schema import Fold
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]
    Evaluate: TypeAlias = Callable[[list[Array], Array], None]


class EmptySliceError(ValueError):
    """A reduction that starts with its first element was given none."""


def bind_fold(axes: tuple[int, ...], fold: Fold, source: Array, output: Array, workspace: Workspace) -> BoundCall:
    """Return a call that folds ``source`` over ``axes`` into ``output``, which has one element per kept position.

    The order within a slice is row-major. Work and scratch memory are vectorised over the kept positions.

    Raises:
        EmptySliceError: there is nothing to fold and the fold has no start.
    """
    kept = tuple(axis for axis in range(source.ndim) if axis not in axes)
    count = math.prod(source.shape[axis] for axis in axes)
    shape = tuple(source.shape[axis] for axis in kept)
    if count == 0 and fold.start is None and math.prod(shape):
        raise EmptySliceError(f"a slice over axes {list(axes)} of shape {list(source.shape)} is empty")
    rows = _rows(source, axes, kept)
    element, combine, finish = (_evaluator(e) for e in (fold.element, fold.combine, fold.finish))
    accumulator = workspace.take(shape, storage_dtype(fold.combine.dtype))
    mapped = workspace.take(shape, storage_dtype(fold.element.dtype))
    start = None if fold.start is None else _constant(fold.start)
    number = np.array(count, storage_dtype(I64))
    result = output.reshape(shape)

    def run() -> None:
        if start is None:
            if count:
                element([rows[0]], accumulator)
        else:
            accumulator[...] = start
        for row in rows[1:] if start is None else rows:
            element([row], mapped)
            combine([accumulator, mapped], accumulator)
        finish([accumulator, number], result)

    return run


def _rows(source: Array, axes: tuple[int, ...], kept: tuple[int, ...]) -> list[Array]:
    """Return one view over the kept positions for each folded position, row-major.

    The ellipsis makes it a view, of rank 0, also where no position is kept.
    """
    moved = source.transpose((*axes, *kept))
    return [moved[(*index, ...)] for index in np.ndindex(*(source.shape[axis] for axis in axes))]


def _evaluator(expr: Expr) -> Evaluate:
    return compile_program(linearise(expr))


def _constant(expr: Expr) -> Any:
    value = np.empty((), storage_dtype(expr.dtype))
    _evaluator(expr)([], value)
    return value[()]
