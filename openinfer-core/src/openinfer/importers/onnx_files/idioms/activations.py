"""GELU in both forms, SiLU."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.rewriting import Calls, close, ends_with, scalar_value

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Call, Value


@ends_with("mul", "div")
def _gelu(calls: Calls, call: Call) -> bool:
    """x/2 (1 + erf(x / sqrt 2)), or with tanh(sqrt(2/pi) (x + 0.044715 x^3)) in place of erf."""
    number, values = calls.factors(call.outputs[0])
    if len(values) != 2 or not close(number, 0.5, call.outputs[0].dtype):
        return False
    for x, other in (values, values[::-1]):
        found = calls.terms(other)
        if found is None or not close(found[0], 1.0, x.dtype) or len(found[1]) != 1:
            continue
        if _is_erf(calls, found[1][0], x):
            return calls.replace(call, "gelu", [x])
        if _is_tanh(calls, found[1][0], x):
            return calls.replace(call, "gelu", [x], {"approximate": "tanh"})
    return False


def _is_erf(calls: Calls, value: Value, x: Value) -> bool:
    erf = calls.inner(value, "erf")
    if erf is None or erf.inputs[0] is None:
        return False
    number, values = calls.factors(erf.inputs[0])
    return close(number, math.sqrt(0.5), x.dtype) and values == [x]


def _is_tanh(calls: Calls, value: Value, x: Value) -> bool:
    tanh = calls.inner(value, "tanh")
    if tanh is None or tanh.inputs[0] is None:
        return False
    number, values = calls.factors(tanh.inputs[0])
    if not close(number, math.sqrt(2 / math.pi), x.dtype) or len(values) != 1:
        return False
    found = calls.terms(values[0])
    if found is None or found[0] or len(found[1]) != 2 or x not in found[1]:
        return False
    other = found[1][0] if found[1][1] is x else found[1][1]
    slope, cube = calls.factors(other)
    return close(slope, 0.044715, x.dtype) and _is_cube(calls, cube, x)


def _is_cube(calls: Calls, factors: list[Value], x: Value) -> bool:
    """Whether factors are x three times, squares and powers taken apart."""
    count = 0
    for factor in factors:
        power = calls.inner(factor, "pow", "square")
        if factor is x:
            count += 1
        elif power is None or power.inputs[0] is not x:
            return False
        else:
            exponent = 2.0 if power.op == "square" else scalar_value(power.inputs[1])
            if exponent is None or not exponent.is_integer():
                return False
            count += int(exponent)
    return count == 3


@ends_with("mul")
def _silu(calls: Calls, call: Call) -> bool:
    a, b = call.inputs
    for x, gate in ((a, b), (b, a)):
        sigmoid = calls.inner(gate, "sigmoid")
        if sigmoid is None or x is None or sigmoid.inputs[0] is None:
            continue
        number, values = calls.factors(sigmoid.inputs[0])
        if sigmoid.inputs[0] is x:
            return calls.replace(call, "silu", [x])
        if values == [x]:
            return calls.replace(call, "silu", [x], {"beta": float(f"{number:.7g}")})
    return False
