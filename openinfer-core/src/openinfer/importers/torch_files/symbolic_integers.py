"""Integers that depend on sizes: computed at import, as the program computes them when it runs."""

from __future__ import annotations

import operator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.importers.torch_files.node import Node, Resolved


def _size_of_dim(x: Value, axis: int) -> Any:
    return x.dims[axis]


def _count(x: Value) -> Any:
    count: Any = 1
    for dim in x.dims:
        count = count * dim
    return count


def _item(x: Value) -> Any:
    elements = x.integers()
    if elements is None or len(elements) != 1:
        raise ValueError("a number of the running program, which shapes cannot depend on")
    return elements[0]


def _power(base: Any, exponent: Any) -> Any:
    if not is_number(exponent):
        raise ValueError("a power whose exponent depends on sizes")
    result: Any = 1
    for _ in range(exponent):
        result = result * base
    return result


def _quotient(left: Any, right: Any) -> Any:
    """Return a true quotient: of sizes a whole number, which the program says that it is."""
    if (is_number(left) and is_number(right) and left % right) or type(left) is float or type(right) is float:
        return left / right
    return left // right


def _floor_quotient(left: Any, right: Any) -> Any:
    return left // right


def _as_float(number: Any) -> Any:
    return number


def _as_integer(number: Any) -> Any:
    return int(number) if type(number) is float else number


def _greater(left: Any, right: Any) -> Any:
    return left if left >= right else right


def _lesser(left: Any, right: Any) -> Any:
    return left if left <= right else right


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": operator.add,
        "aten._local_scalar_dense.default": _item,
        "aten.sym_numel.default": _count,
        "aten.sym_size.int": _size_of_dim,
        "floordiv": _floor_quotient,
        "mod": operator.mod,
        "mul": operator.mul,
        "neg": operator.neg,
        "pow": _power,
        "sub": operator.sub,
        "sym_float": _as_float,
        "sym_int": _as_integer,
        "sym_max": _greater,
        "sym_min": _lesser,
        "truediv": _quotient,
    }
)
"""Functions of integers by the names of nodes."""

CHECKS = frozenset({"eq", "ge", "gt", "le", "lt", "ne", "sym_not", "and_", "or_"})
"""Functions whose results only assertions read."""


def computed(node: Node) -> Resolved:
    """Return the integer of a node."""
    result: Any = FUNCTIONS[node.source.op](*node.arguments.values())
    return result
