"""An elementwise expression behind a computation, evaluated before its result is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute.stage import Read, Tensor
from openinfer.expr import tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute.stage import Computation, Element, Stage
    from openinfer.expr.tree import Expr


def followed(computation: Computation, expr: Expr, inputs: Sequence[Tensor]) -> Computation | None:
    """Return the computation whose result is ``expr`` of the result of another one, which has one output.

    ``Input(0)`` of ``expr`` is the element of that result, ``Input(i)`` the element of ``inputs[i - 1]``, whose names
    the computation does not have yet, at the same place (broadcast). They are read right before an element of the
    result is stored, which several stages may do. None: a stage reads the result again, so that it has to be stored as
    it is.
    """
    (output,) = computation.outputs
    if any(isinstance(e, Read) and e.tensor == output.name for stage in computation.stages for e in stage.elements):
        return None
    stages = [_stage(stage, expr, inputs) if stage.tensor == output.name else stage for stage in computation.stages]
    return replace(
        computation,
        inputs=(*computation.inputs, *inputs),
        outputs=(Tensor(output.name, expr.dtype, output.shape),),
        stages=tuple(stages),
    )


def _stage(stage: Stage, expr: Expr, inputs: Sequence[Tensor]) -> Stage:
    elements: list[Element] = list(stage.elements)
    replacements: dict[int, Expr] = {0: stage.value}
    for number, tensor in enumerate(inputs, 1):
        read = Read(tensor.name, _broadcast(stage.at, tensor.shape), tensor.dtype)
        if read not in elements:
            elements.append(read)
        replacements[number] = tree.Input(elements.index(read), tensor.dtype)
    return replace(stage, elements=tuple(elements), value=tree.substitute(expr, replacements))


def _broadcast(at: Sequence[Index], shape: Sequence[Index]) -> tuple[Index, ...]:
    """Return the place in a tensor of ``shape`` that belongs to a place in one that it is broadcast to."""
    behind = at[len(at) - len(shape) :]
    return tuple(Index() if extent.constant == 1 else index for index, extent in zip(behind, shape, strict=True))
