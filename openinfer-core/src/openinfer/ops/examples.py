"""Examples of operators as calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.schema import OpTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Operand, OpExample, OpSchema


def example_call(schema: OpSchema, example: OpExample, dtype: DType, dtypes: Mapping[str, DType]) -> OpCall:
    """Return an example as a call for one element type; ``dtypes`` finds element types by name.

    Raises:
        OpTypeError: the operator cannot take it.
    """
    inputs = [None if operand is None else operand_type(operand, dtype, dtypes) for operand in example.inputs]
    declared = [operand_type(operand, dtype, dtypes) for operand in example.outputs]
    return call_of(schema, inputs, example.settings, declared)


def operand_type(operand: Operand, dtype: DType, dtypes: Mapping[str, DType]) -> TensorType:
    """Return the type of an operand of an example made for ``dtype``.

    Raises:
        OpTypeError: it names an element type that is unknown.
    """
    if operand.dtype is not None and operand.dtype not in dtypes:
        raise OpTypeError(f"an example has the element type {operand.dtype!r}, which is unknown")
    return TensorType(dtype if operand.dtype is None else dtypes[operand.dtype], operand.shape)
