"""Constants and scalar expressions in JavaScript: calls of what `runtime.js` has for each element type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.plugin import BOOL, F64, SynthesisError, encode_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plugin import DType, Program, Scalar


def literal(dtype: DType, value: Scalar) -> str:
    """Return a constant."""
    if dtype.is_low_float:
        return str(encode_bits(dtype, value))
    if dtype.is_float:
        shown = "NaN" if math.isnan(value) else "Infinity" if math.isinf(value) else repr(abs(float(value)))
        return f"(-{shown})" if math.copysign(1.0, value) < 0 else shown
    if dtype is BOOL:
        return "true" if value else "false"
    return f"({int(value)}{'n' if dtype.bits == 64 else ''})"


def expression(program: Program, inputs: Sequence[str], prefix: str) -> tuple[list[str], str]:
    """Return the statements of an expression whose ``Input(k)`` is ``inputs[k]``, and the text of its result.

    Raises:
        SynthesisError: a function has no form in JavaScript.
    """
    lines: list[str] = []
    for number, step in enumerate(program.instructions):
        x = ", ".join(f"{prefix}{operand}" for operand in step.operands)
        types = [program.instructions[operand].dtype for operand in step.operands]
        match step.function:
            case "input":
                text = inputs[step.index]
            case "literal" if step.value is not None:
                text = literal(step.dtype, step.value)
            case "cast":
                text = f"cast({types[0]}, {step.dtype}, {x})"
            case "fma" if step.dtype is F64:
                raise SynthesisError("fma of f64 has no form in JavaScript", code="dtype-unsupported")
            case function:
                text = f"{step.dtype if function == 'select' else types[0]}.{function}({x})"
        lines.append(f"const {prefix}{number} = {text};")
    return lines, f"{prefix}{len(program.instructions) - 1}"
