"""Expressions and folds for devices whose kernels are made of stages: both become computations of one stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from openinfer.errors import ShapeError
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.expr.tree import ExprError
from openinfer.ops.derived import expression_computation, fold_computation
from openinfer.simulate.devices.backend import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.bound_calls import BoundCall
    from openinfer.compute import Computation
    from openinfer.expr.tree import Expr
    from openinfer.ops.schema import Fold

B = TypeVar("B", bound=Buffer)
B_contra = TypeVar("B_contra", bound=Buffer, contravariant=True)


class Computing(Protocol[B_contra]):
    """A device as far as it is needed here: `ComputationBackend` has the method."""

    def bind_computation(
        self, computation: Computation, inputs: Sequence[B_contra], outputs: Sequence[B_contra]
    ) -> BoundCall: ...


def bind_expression_computation(backend: Computing[B], expr: Expr, inputs: Sequence[B | None], output: B) -> BoundCall:
    """Return `bind_computation` of a device for an elementwise expression: what its `bind_expression` may return.

    The inputs of the computation are those that the expression reads, and `openinfer.plugin.array_expression` returns
    the expression over these again. The output may be one of them.

    Raises:
        ExprError: the expression reads an input that was left out.
    """
    read: list[B] = []
    numbers: dict[int, Expr] = {}
    for number in linearise(expr).inputs:
        buffer = inputs[number]
        if buffer is None:
            raise ExprError(f"the expression reads input {number}, which was left out")
        numbers[number] = tree.Input(len(read), buffer.type.dtype)
        read.append(buffer)
    types = [buffer.type for buffer in read]
    computation = expression_computation("expression", tree.substitute(expr, numbers), types, output.type)
    return backend.bind_computation(computation, read, [output])


def bind_fold_computation(backend: Computing[B], axes: Sequence[int], fold: Fold, source: B, output: B) -> BoundCall:
    """Return `bind_computation` of a device for a reduction over some axes: what its `bind_fold` may return.

    Raises:
        ShapeError: the fold starts with its first element, and there is none.
    """
    if fold.start is None and output.type.count and not source.type.count:
        raise ShapeError(f"a slice over axes {list(axes)} of {source.type} is empty")
    computation = fold_computation("reduction", axes, fold, source.type, output.type)
    return backend.bind_computation(computation, [source], [output])
