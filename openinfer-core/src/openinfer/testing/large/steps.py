"""Quantised tensors and steps of recurrent cells of more elements than vectors hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.schema import Operand, OpExample
from openinfer.testing.large_examples import example

if TYPE_CHECKING:
    from openinfer.ir.resolved import SettingValue


def _quantised(dtype: str, *inputs: tuple[int, ...] | Operand, **settings: SettingValue) -> OpExample:
    """Return an example whose result has the shape of its first input and an element type of its own."""
    found = example(*inputs, dtypes=None, **settings)
    shape = next(operand.shape for operand in found.inputs if operand is not None)
    return OpExample(inputs=found.inputs, settings=settings, outputs=(Operand(shape=shape, dtype=dtype),))


def _zeros(dtype: str, *shape: int) -> Operand:
    return Operand(shape=shape, dtype=dtype)


_STATE = ((9, 67), (9, 41))

LARGE: dict[str, tuple[OpExample, ...]] = {
    "quantize_linear": (
        _quantised("i8", (67, 131), (131,), _zeros("i8", 131)),
        _quantised("u4", (67, 131), (67, 9), _zeros("u4", 67, 9), block_size=16),
    ),
    "dequantize_linear": (
        _quantised("f32", (67, 131), _zeros("f32", 131)),
        _quantised("bf16", (67, 131), _zeros("f32", 67, 9), block_size=16),
    ),
    "dynamic_quantize_linear": (example((67, 131)),),
    "lstm_cell": (example(*_STATE, (9, 41), (164, 67), (164, 41), (328,)),),
    "gru_cell": (
        example(*_STATE, (123, 67), (123, 41), (246,)),
        example(*_STATE, (123, 67), (123, 41), (246,), linear_before_reset=False),
    ),
}
