"""Elementwise expressions as computations of one stage, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from openinfer.affine import Index, Var
from openinfer.compute.parameters import parameters_of
from openinfer.compute.stage import Computation, Position, Read, Stage, Tensor
from openinfer.dims import place_of
from openinfer.dtypes import I64
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from openinfer.expr.tree import Expr


def elementwise(name: str, expr: Expr, inputs: Sequence[Tensor], output: Tensor) -> Computation:
    """Return the computation whose output elements are ``expr`` of the input elements at their (broadcast) places.

    ``Input(i)`` of ``expr`` is the element of ``inputs[i]``; sizes in it are read as positions.
    """
    at = places(output.shape)
    reads = tuple(Read(tensor.name, broadcast(at, tensor.shape), tensor.dtype) for tensor in inputs)
    sizes = sizes_of(expr)
    positions = tuple(Position(size, I64) for size in sizes)
    numbers: dict[Hashable, Expr] = {
        size: tree.Input(len(reads) + position, I64) for position, size in enumerate(sizes)
    }
    value = tree.substitute(expr, numbers) if sizes else expr
    axes = tuple(var for index in at for var in index.variables())
    stage = Stage(output.name, axes, (*reads, *positions), value, at)
    made = Computation(name, tuple(inputs), (output,), (stage,))
    return replace(made, parameters=parameters_of(made))


def sizes_of(expr: Expr) -> tuple[Index, ...]:
    """Return the sizes in an expression that are known at run time only."""
    return cast("tuple[Index, ...]", linearise(expr).sizes)


def expression_of(computation: Computation) -> Expr | None:
    """Return the expression of a computation as `elementwise` takes it; None: it is not elementwise."""
    if len(computation.stages) != 1 or len(computation.outputs) != 1 or not is_pointwise(computation.stages[0]):
        return None
    (stage,) = computation.stages
    numbers = {tensor.name: number for number, tensor in enumerate(computation.inputs)}
    replaced: dict[int, Expr] = {}
    for number in linearise(stage.value).inputs:
        element = stage.elements[number]
        if not isinstance(element, Read) or element.tensor not in numbers or element.fill is not None:
            return None
        if not is_broadcast(element, computation.tensor(element.tensor), stage.at):
            return None
        replaced[number] = tree.Input(numbers[element.tensor], element.dtype)
    return tree.substitute(stage.value, replaced)


def array_expression(computation: Computation) -> Expr | None:
    """Return the expression of a computation on whole arrays that broadcast to its output; None: there is none.

    ``Input(i)`` is the array of ``computation.inputs[i]``. A part of a tensor, such as its first rows, is not an array.
    """
    expr = expression_of(computation)
    if expr is None:
        return None
    shape = computation.outputs[0].shape
    tensors = [computation.inputs[number] for number in linearise(expr).inputs]
    pairs = [pair for tensor in tensors for pair in zip(reversed(tensor.shape), reversed(shape), strict=False)]
    return expr if all(extent.constant == 1 or extent == whole for extent, whole in pairs) else None


def is_pointwise(stage: Stage) -> bool:
    """Whether a stage is an expression alone, stored at a place that consists of its axes."""
    variables = [var for index in stage.at for var in index.variables()]
    axes = [Index.of(axis) for axis in stage.axes]
    return (
        stage.fold is None
        and not stage.lookups
        and not stage.checks
        and not stage.is_sequential
        and all(index == Index() or index in axes for index in stage.at)
        and len(variables) == len(set(variables)) == len(stage.axes)
    )


def places(shape: Sequence[Index]) -> tuple[Index, ...]:
    """Return a place of a tensor: an axis for each dim, 0 for those of one element."""
    return tuple(
        Index() if extent.constant == 1 else Index.of(Var(f"i{dim}", _extent(extent)))
        for dim, extent in enumerate(shape)
    )


def _extent(extent: Index) -> int | Index:
    return extent if extent.constant is None else extent.constant


def broadcast(at: Sequence[Index | Var], shape: Sequence[Index]) -> tuple[Index, ...]:
    """Return the place in a tensor of ``shape`` that belongs to a place in one that it is broadcast to."""
    after = at[len(at) - len(shape) :]
    return tuple(map(place_of, after, shape))


def is_broadcast(read: Read, tensor: Tensor, at: Sequence[Index]) -> bool:
    """Whether a tensor is read at the place that belongs to ``at`` where it is broadcast."""
    return len(tensor.shape) <= len(at) and read.at == broadcast(at, tensor.shape)
