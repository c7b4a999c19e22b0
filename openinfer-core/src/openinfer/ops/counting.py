"""Results with as many rows as an operator counts: elements that are not zero, boxes that are kept.

Calls and kernels know such a result with the most rows that it may have; rows after the last hold anything. The
statement of a program takes the counted rows alone: its output has a first dim that is known at run time only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.ir.types import TensorType

if TYPE_CHECKING:
    from openinfer.ops.schema import OpSchema

COUNT = 1
"""Position of the output that holds the number of rows."""

COUNT_TYPE = TensorType(I64)


def counted_places(schema: OpSchema) -> frozenset[int]:
    """Return the positions of the outputs whose first dim the operator counts."""
    return frozenset(map(schema.outputs.index, schema.counted))
