"""Floats that are only moved: their codes arrive unchanged, NaN payloads and signs of zeros included."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from openinfer.ops.schema import Compute, Primitive
from openinfer.testing.comparing import differences, misshapen
from openinfer.testing.expectation import expected_of
from openinfer.testing.values import exact, stored

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.ops.schema import OpSchema
    from openinfer.testing.cases import Case
    from openinfer.testing.expectation import Expected
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.values import Array

_UNLIKE = frozenset({"f8", "bool", "bitset", "t2"})
"""Element types that have no arithmetic in common: what takes them all moves elements."""

_PRODUCTS = "linear algebra"
"""Category of operators that take them all nevertheless: products of truth values and of sets of bits are defined."""


@dataclass(frozen=True, slots=True, eq=False)
class _Code:
    """The code of a float, with which an oracle can do nothing but move it."""

    code: int


def moved_codes(schema: OpSchema, oracle: Oracle, case: Case) -> list[Expected] | None:
    """Return the results of a case as codes; None where its operator computes, or moves no floats."""
    if (
        not isinstance(schema.definition, Primitive | Compute)
        or not schema.dtypes >= _UNLIKE
        or schema.category == _PRODUCTS
    ):
        return None
    if not all(made.dtype.is_float for made in case.call.outputs):
        return None
    inputs = [
        None if array is None or given is None else _coded(array) if given.dtype.is_float else exact(array, given.dtype)
        for array, given in zip(case.inputs(), case.call.inputs, strict=True)
    ]
    try:
        found = expected_of(oracle, inputs, case.call)
    except TypeError:
        return None  # arithmetic on codes
    if not any(isinstance(value, _Code) for output in found for value in output.values.flat):
        return None
    return [
        replace(output, values=_codes(output.values, made.dtype))
        for output, made in zip(found, case.call.outputs, strict=True)
    ]


def differing_codes(expected: Expected, found: Array) -> str | None:
    """Return what is wrong with an output whose codes are known, or None."""
    if found.shape != expected.shape:
        return misshapen(found, expected)
    codes = expected.of(_integers(found))
    return differences(codes != expected.values, codes, expected.values, expected)


def _coded(array: Array) -> Exact:
    codes = np.empty(array.shape, dtype=object)
    codes.reshape(-1)[:] = [_Code(code) for code in _integers(array).reshape(-1).tolist()]
    return codes


def _codes(values: Exact, dtype: DType) -> Array:
    """Return the codes of elements: those that were moved, and numbers that an oracle put between them."""
    found = np.array([_code(value, dtype) for value in values.flat], dtype=f"u{dtype.bits // 8}")
    return found.reshape(values.shape)


def _code(value: object, dtype: DType) -> int:
    if isinstance(value, _Code):
        return value.code
    number = stored(np.array([float(str(value))]), dtype)
    return int(_integers(number)[0])


def _integers(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}").reshape(array.shape)
