"""Calls of operators that are defined by stages, as computations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute import Builder, Tensor, verify
from openinfer.ops.schema import Compute, OpTypeError

if TYPE_CHECKING:
    from openinfer.compute import Computation
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema


def computation_of(schema: OpSchema, call: OpCall) -> Computation:
    """Return what a call computes: inputs that are given, in their order, and outputs.

    Raises:
        OpTypeError: the operator is not defined by stages.
        ComputationError: its definition is wrong.
    """
    if not isinstance(schema.definition, Compute):
        raise OpTypeError(f"{schema.name} is not defined by stages")
    inputs = [type_ and _tensor(f"x{number}", type_) for number, type_ in enumerate(call.inputs)]
    outputs = [_tensor(f"y{number}", type_) for number, type_ in enumerate(call.outputs)]
    builder = Builder(schema.name, inputs, outputs)
    schema.definition.define(builder, call)
    computation = builder.computation()
    verify(computation)
    return computation


def _tensor(name: str, type_: TensorType) -> Tensor:
    return Tensor(name, type_.dtype, tuple(Index.of(extent) for extent in type_.shape))
