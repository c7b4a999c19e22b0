"""Elementwise operators and reductions as computations of one stage."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute import Computation, Read, Stage, Total
from openinfer.compute import Fold as StageFold
from openinfer.compute.elementwise import elementwise
from openinfer.compute.parameters import parameters_of
from openinfer.compute.stage import Position
from openinfer.dims import is_size
from openinfer.dtypes import I64
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ops.computations import tensor_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute.stage import Element
    from openinfer.expr.tree import Expr
    from openinfer.ir.types import TensorType
    from openinfer.ops.schema import Fold


def expression_computation(op: str, expr: Expr, inputs: Sequence[TensorType], output: TensorType) -> Computation:
    """Return an elementwise operator: ``Input(i)`` of ``expr`` is the element of ``inputs[i]``."""
    if any(is_size(extent) for type_ in (*inputs, output) for extent in type_.shape):
        return _on_elements(op, expr, inputs, output)
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
    return _on_elements(op, keyed.expr, inputs, output)


def _on_elements(op: str, expr: Expr, inputs: Sequence[TensorType], output: TensorType) -> Computation:
    tensors = [tensor_of(f"x{number}", type_) for number, type_ in enumerate(inputs)]
    return elementwise(op, expr, tensors, tensor_of("y0", output))


def fold_computation(op: str, axes: Sequence[int], fold: Fold, source: TensorType, output: TensorType) -> Computation:
    """Return a reduction over some axes of ``source``; ``output`` has them with extent 1, or not at all."""
    variables = tuple(Var(f"i{axis}", _end(extent)) for axis, extent in enumerate(source.shape))
    kept = tuple(var for axis, var in enumerate(variables) if axis not in axes)
    at = tuple(map(Index.of, variables))
    place = tuple(Index() if axis in axes else index for axis, index in enumerate(at))
    if len(output.shape) == len(kept):
        place = tuple(map(Index.of, kept))
    elements: list[Element] = [Read("x0", at, source.dtype)]
    finished = _finished(fold, prod(source.shape[axis] for axis in axes), elements)
    stage = Stage(
        "y0",
        kept,
        tuple(elements),
        finished,
        place,
        StageFold(tuple(variables[axis] for axis in axes), (_total(fold),), fold.order),
    )
    made = Computation(op, (tensor_of("x0", source),), (tensor_of("y0", output),), (stage,))
    return replace(made, parameters=parameters_of(made))


def _end(extent: int) -> int | Index:
    return extent.index if is_size(extent) else extent


def _total(fold: Fold) -> Total:
    total, term = tree.Input(~0, fold.combine.dtype), tree.Input(~1, fold.element.dtype)
    return Total(fold.start, fold.element, tree.substitute(fold.combine, {0: total, 1: term}))


def _finished(fold: Fold, count: int, elements: list[Element]) -> Expr:
    """Return the value that is stored; where the number of terms is a size, it becomes an element."""
    total, number = tree.Input(~0, fold.combine.dtype), tree.Input(1, I64)
    if not is_size(count):
        return tree.substitute(fold.finish, {0: total, 1: tree.literal(count, I64)})
    if 1 in linearise(fold.finish).inputs:
        elements.append(Position(count.index, I64))
    return tree.substitute(fold.finish, {0: total, 1: number})
