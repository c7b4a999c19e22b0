"""Tensor expressions over index space: what an operator computes, without order, memory or machine.

`builder` is how a definition is written, `stage` the data that come of it, `verify` checks them, `evaluate` is their
meaning on NumPy arrays, and `text` their text, which reads back. NumPy is imported by `evaluate` alone.
"""

from openinfer.compute.builder import Builder, ComputationError, Operand, Value
from openinfer.compute.stage import (
    Check,
    Computation,
    Element,
    Fold,
    Lookup,
    Order,
    Position,
    Read,
    Stage,
    Tensor,
    Total,
)
from openinfer.compute.verify import verify

__all__ = [
    "Builder",
    "Check",
    "Computation",
    "ComputationError",
    "Element",
    "Fold",
    "Lookup",
    "Operand",
    "Order",
    "Position",
    "Read",
    "Stage",
    "Tensor",
    "Total",
    "Value",
    "verify",
]
