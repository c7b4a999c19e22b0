"""Powers, whose exponents may have another type than the base: the result has the type of the base."""

from __future__ import annotations

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BY_NAME, F32, F64, DType
from openinfer.importers.onnx_files.elements import scalar_of
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates
from openinfer.importers.onnx_files.values import Value, known

MOST_EXPONENTS = 1 << 12
"""Known exponents that are compared one by one."""


@translates("Pow")
def _pow(node: Node) -> Value:
    base, exponent = node.given(0), node.given(1)
    if _is_two(exponent) and base.rank >= exponent.rank and base.dtype.is_float:
        return node.call("square", base)
    exponent = _in_type_of(base.dtype, exponent)
    if base.dtype is exponent.dtype:
        return node.call("pow", base, exponent)
    if base.dtype.is_integer and exponent.dtype.is_float:
        return _integer_to_real(node, base, exponent)
    wide = _common_type(base.dtype, exponent.dtype)
    power = node.call("pow", *(cast(node, value, wide) for value in (base, exponent)))
    return cast(node, power, base.dtype)


def _is_two(exponent: Value) -> bool:
    is_single = exponent.payload is not None and exponent.payload.count == 1
    return is_single and scalar_of(exponent.array(), exponent.dtype) == 2


def _in_type_of(dtype: DType, exponent: Value) -> Value:
    """Return known exponents as another type where it holds all of them, else what is given."""
    if dtype is exponent.dtype or exponent.payload is None or exponent.payload.count > MOST_EXPONENTS:
        return exponent
    numbers = [scalar_of(element, exponent.dtype) for element in exponent.array().reshape(-1)]
    if dtype.is_integer and not all(number >= 0 and float(number).is_integer() for number in numbers):
        return exponent
    if dtype.is_integer and not all(number <= (dtype.maximum or 0) for number in numbers):
        return exponent
    with np.errstate(over="ignore"):
        converted = np.array([int(n) if dtype.is_integer else n for n in numbers]).astype(storage_dtype(dtype))
    if any(scalar_of(element, dtype) != number for element, number in zip(converted, numbers, strict=True)):
        return exponent
    return known(converted.reshape(exponent.array().shape), dtype, exponent.name)


def _common_type(base: DType, exponent: DType) -> DType:
    """Return the type in which a power is computed: floats hold all exponents of up to 32 bits, integers all bits."""
    if base.is_integer:
        kind = "i" if exponent.minimum else "u"
        return BY_NAME[f"{kind}{max(base.bits, exponent.bits)}"]
    is_short = exponent.bits <= 16 if exponent.is_integer else exponent is not F64
    return F32 if is_short and base is not F64 else F64


def _integer_to_real(node: Node, base: Value, exponent: Value) -> Value:
    """Return powers of integers: exact modulo their width for whole exponents from 0 on, by f64 for others."""
    real = cast(node, exponent, F64)
    zero = node.number(0.0, F64)
    is_whole = node.call("and", node.call("eq", node.call("floor", real), real), node.call("ge", real, zero))
    whole = node.call("cast", node.call("where", is_whole, real, zero), to=base.dtype)
    rounded = cast(node, node.call("pow", cast(node, base, F64), real), base.dtype)
    return node.call("where", is_whole, node.call("pow", base, whole), rounded)
