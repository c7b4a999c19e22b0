"""The form of large examples of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.schema import Operand, OpExample

if TYPE_CHECKING:
    from openinfer.ir.resolved import SettingValue

LARGE_TYPES = frozenset({"f32", "f64", "bf16", "f8", "i8", "i32", "i64", "u4"})
"""Element types that large examples run with: one for each way in which elements are stored and computed. Small cases
meet the others."""


def example(
    *inputs: tuple[int, ...] | Operand | None, dtypes: frozenset[str] | None = None, **settings: SettingValue
) -> OpExample:
    """Return an example with inputs of these shapes."""
    operands = tuple(Operand(shape=given) if isinstance(given, tuple) else given for given in inputs)
    return OpExample(inputs=operands, settings=settings, dtypes=dtypes)
