"""Elementwise operators and reductions as computations of one stage."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute import Computation, Read, Stage, Total
from openinfer.compute import Fold as StageFold
from openinfer.compute.elementwise import elementwise
from openinfer.dtypes import I64
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ops.computations import tensor_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.expr.tree import Expr
    from openinfer.ir.types import TensorType
    from openinfer.ops.schema import Fold


def expression_computation(op: str, expr: Expr, inputs: Sequence[TensorType], output: TensorType) -> Computation:
    """Return an elementwise operator: ``Input(i)`` of ``expr`` is the element of ``inputs[i]``."""
    return _elementwise(op, _Keyed(expr), tuple(inputs), output)


class _Keyed:
    """An expression as a key: equal where its straight-line form is."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self._program = linearise(expr)

    def __hash__(self) -> int:
        return hash(self._program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self._program == other._program


@lru_cache(maxsize=4096)
def _elementwise(op: str, keyed: _Keyed, inputs: tuple[TensorType, ...], output: TensorType) -> Computation:
    """Return the computation of an expression: one object for equal operators, so that planning knows it again."""
    tensors = [tensor_of(f"x{number}", type_) for number, type_ in enumerate(inputs)]
    return elementwise(op, keyed.expr, tensors, tensor_of("y0", output))


def fold_computation(op: str, axes: Sequence[int], fold: Fold, source: TensorType, output: TensorType) -> Computation:
    """Return a reduction over some axes of ``source``; ``output`` has them with extent 1, or not at all."""
    variables = tuple(Var(f"i{axis}", extent) for axis, extent in enumerate(source.shape))
    kept = tuple(var for axis, var in enumerate(variables) if axis not in axes)
    at = tuple(map(Index.of, variables))
    place = tuple(Index() if axis in axes else index for axis, index in enumerate(at))
    if len(output.shape) == len(kept):
        place = tuple(map(Index.of, kept))
    stage = Stage(
        "y0",
        kept,
        (Read("x0", at, source.dtype),),
        _finished(fold, prod(source.shape[axis] for axis in axes)),
        place,
        StageFold(tuple(variables[axis] for axis in axes), (_total(fold),), fold.order),
    )
    return Computation(op, (tensor_of("x0", source),), (tensor_of("y0", output),), (stage,))


def _total(fold: Fold) -> Total:
    total, term = tree.Input(~0, fold.combine.dtype), tree.Input(~1, fold.element.dtype)
    return Total(fold.start, fold.element, tree.substitute(fold.combine, {0: total, 1: term}))


def _finished(fold: Fold, count: int) -> Expr:
    total = tree.Input(~0, fold.combine.dtype)
    return tree.substitute(fold.finish, {0: total, 1: tree.literal(count, I64)})
