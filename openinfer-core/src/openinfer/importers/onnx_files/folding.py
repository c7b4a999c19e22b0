"""Arithmetic of shapes: integers that are known up to sizes, computed at import."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from openinfer.dtypes import BOOL, I32, I64
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.onnx_files.values import (
    MOST_ELEMENTS,
    Element,
    constant_of,
    elements_of,
    expression,
    of_elements,
    plain_element,
)
from openinfer.polynomials import simplified
from openinfer.symbolic import BinOp, Const, IntExpr, names

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.importers.onnx_files.node import Node
    from openinfer.importers.onnx_files.values import Value

    Objects: TypeAlias = npt.NDArray[Any]

MOST_PARTS = 256
"""Names, numbers and signs of the longest expression of an integer; longer ones are left to the running program."""

Fold: TypeAlias = "Callable[[Node, list[Objects]], Objects | None]"

_FOLDS: dict[str, Fold] = {}


def _folds(*ops: str) -> Callable[[Fold], Fold]:
    def register(fold: Fold) -> Fold:
        _FOLDS.update(dict.fromkeys(ops, fold))
        return fold

    return register


def folded(node: Node) -> Value | None:
    """Return the result of a node of integers that are known up to sizes; None where it is not one."""
    if node.source.domain:
        return None
    if node.op in ("Shape", "Size"):
        return _of_shape(node)
    fold = _FOLDS.get(node.op)
    if fold is None:
        return None
    arrays: list[Objects] = []
    for value in node.inputs:
        array = None if value is None else _objects(value)
        if array is None:
            return None
        arrays.append(array)
    try:
        found = fold(node, arrays)
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, _UndecidedError):
        return None
    if found is None or found.size > MOST_ELEMENTS:
        return None
    if any(_is_beyond_64_bits(element) or _is_long(element) for element in found.reshape(-1)):
        return None
    return of_elements(list(found.reshape(-1)), tuple(map(Const, found.shape)), _result_type(node))


def _is_beyond_64_bits(element: Element) -> bool:
    return isinstance(element, int) and not -(1 << 63) <= element < 1 << 63


def _is_long(element: Element) -> bool:
    """Whether an expression has too many parts: what squares it again and again would double them each time."""
    waiting, parts = [element], 0
    while waiting and parts <= MOST_PARTS:
        part = waiting.pop()
        parts += 1
        if isinstance(part, BinOp):
            waiting += [part.left, part.right]
    return parts > MOST_PARTS


class _UndecidedError(Exception):
    """A comparison whose result depends on sizes."""


def _result_type(node: Node) -> Any:
    if node.op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or"):
        return BOOL
    if node.op == "Cast":
        return {6: I32, 7: I64}.get(int(node.get("to")), BOOL)
    return node.given(1 if node.op == "Where" else 0).dtype if node.op != "ConstantOfShape" else I64


def _objects(value: Value) -> Objects | None:
    """Return integers as an array of Python integers and expressions."""
    found, shape = value.integers(), value.shape
    if found is None or shape is None:
        return None
    array = np.empty(len(found), object)
    array[:] = list(found)
    return array.reshape(shape)


def _of_shape(node: Node) -> Value | None:
    dims = elements_of(node.given(0).dims)
    if node.op == "Size":
        product: Element = 1
        for dim in dims:
            product = _multiplied(product, dim)
        return of_elements([product], ())
    rank = len(dims)
    start, end = (_within(int(node.get(name, default)), rank) for name, default in (("start", 0), ("end", rank)))
    chosen = dims[start:end]
    return of_elements(chosen, (Const(len(chosen)),))


def _within(place: int, rank: int) -> int:
    return min(max(place + rank if place < 0 else place, 0), rank)


# Elements


def _added(left: Element, right: Element) -> Element:
    return _combined("+", left, right, operator.add)


def _subtracted(left: Element, right: Element) -> Element:
    return _combined("-", left, right, operator.sub)


def _multiplied(left: Element, right: Element) -> Element:
    return _combined("*", left, right, operator.mul)


def _divided(left: Element, right: Element) -> Element:
    """Divide as ONNX does, toward zero; extents are not negative, so that rounding down is the same."""
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if isinstance(right, int) and right < 0:
        return _subtracted(0, _divided(left, -right))
    if not isinstance(right, int) or right == 0:
        return plain_element(BinOp("floor", expression(left), expression(right)))
    whole = simplified(BinOp("/", expression(left), Const(right)))
    # A quotient of which no division is left is exact.
    if not (isinstance(whole, BinOp) and "/" in _signs(whole)):
        return plain_element(whole)
    return plain_element(BinOp("floor", expression(left), Const(right)))


def _signs(expr: IntExpr) -> set[str]:
    return {expr.op, *_signs(expr.left), *_signs(expr.right)} if isinstance(expr, BinOp) else set()


def _remainder(left: Element, right: Element) -> Element:
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    if isinstance(right, int) and right < 0:
        raise _UndecidedError
    return plain_element(BinOp("%", expression(left), expression(right)))


def _combined(sign: Any, left: Element, right: Element, numbers: Callable[[int, int], int]) -> Element:
    if isinstance(left, int) and isinstance(right, int):
        return numbers(left, right)
    return plain_element(BinOp(sign, expression(left), expression(right)))


def _difference(left: Element, right: Element) -> int:
    """Return a number with the sign of ``left - right``.

    Raises:
        _UndecidedError: the sign depends on sizes.
    """
    gap = simplified(BinOp("-", expression(left), expression(right)))
    number = constant_of(gap)
    if number is not None:
        return number
    # Extents are not negative: a sum of them is above every negative number.
    if isinstance(right, int) and right < 0 and not isinstance(left, int) and "-" not in _signs(left) and names(left):
        return 1
    if isinstance(left, int) and left < 0 and not isinstance(right, int) and "-" not in _signs(right) and names(right):
        return -1
    raise _UndecidedError


def _mapped(function: Callable[..., Any], *arrays: Objects) -> Objects:
    return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), object)


def _negated(element: Element) -> Element:
    return int(not element)


def _chosen(condition: Element, left: Element, right: Element) -> Element:
    return left if condition else right


def _is_not_zero(element: Element) -> Element:
    return int(_difference(element, 0) != 0)


_BINARY: dict[str, Callable[[Element, Element], Any]] = {
    "Add": _added,
    "Sub": _subtracted,
    "Mul": _multiplied,
    "Div": _divided,
    "Mod": _remainder,
    "Equal": lambda left, right: int(_difference(left, right) == 0),
    "Less": lambda left, right: int(_difference(left, right) < 0),
    "Greater": lambda left, right: int(_difference(left, right) > 0),
    "LessOrEqual": lambda left, right: int(_difference(left, right) <= 0),
    "GreaterOrEqual": lambda left, right: int(_difference(left, right) >= 0),
    "And": lambda left, right: int(bool(left) and bool(right)),
    "Or": lambda left, right: int(bool(left) or bool(right)),
    "Min": lambda left, right: left if _difference(left, right) <= 0 else right,
    "Max": lambda left, right: left if _difference(left, right) >= 0 else right,
}


@_folds(*_BINARY)
def _binary(node: Node, arrays: list[Objects]) -> Objects | None:
    found = arrays[0]
    for more in arrays[1:]:
        found = _mapped(_BINARY[node.op], found, more)
    return found


@_folds("Not")
def _not(_node: Node, arrays: list[Objects]) -> Objects | None:
    return _mapped(_negated, arrays[0])


@_folds("Neg")
def _neg(_node: Node, arrays: list[Objects]) -> Objects | None:
    return _mapped(partial(_subtracted, 0), arrays[0])


@_folds("Where")
def _where(_node: Node, arrays: list[Objects]) -> Objects | None:
    if not all(isinstance(element, int) for element in arrays[0].reshape(-1)):
        return None
    return _mapped(_chosen, *arrays)


@_folds("Identity")
def _identity(_node: Node, arrays: list[Objects]) -> Objects | None:
    return arrays[0]


@_folds("Cast")
def _cast(node: Node, arrays: list[Objects]) -> Objects | None:
    to = int(node.get("to"))
    if to == 9:
        return _mapped(_is_not_zero, arrays[0])
    return arrays[0] if to in (6, 7) else None


@_folds("Concat")
def _concat(node: Node, arrays: list[Objects]) -> Objects | None:
    return np.concatenate(arrays, int(node.get("axis")))


@_folds("Gather")
def _gather(node: Node, arrays: list[Objects]) -> Objects | None:
    return np.asarray(np.take(arrays[0], arrays[1].astype(np.int64), int(node.get("axis", 0))), object)


@_folds("Unsqueeze", "Squeeze")
def _squeeze(node: Node, arrays: list[Objects]) -> Objects | None:
    named = node.get("axes") if len(arrays) < 2 else [int(axis) for axis in arrays[1].reshape(-1)]
    axes = None if named is None else tuple(cast("Sequence[int]", named))
    if node.op == "Unsqueeze":
        return None if axes is None else np.expand_dims(arrays[0], axes)
    return np.squeeze(arrays[0], axes)


@_folds("Reshape")
def _reshape(_node: Node, arrays: list[Objects]) -> Objects | None:
    wanted = [int(extent) for extent in arrays[1].reshape(-1)]
    return None if 0 in wanted else arrays[0].reshape(wanted)


@_folds("Slice")
def _slice(node: Node, arrays: list[Objects]) -> Objects | None:
    if len(arrays) == 1:
        starts, ends = node.get("starts"), node.get("ends")
        axes, steps = node.get("axes", range(len(starts))), [1] * len(starts)
    else:
        lists = [[int(element) for element in array.reshape(-1)] for array in arrays[1:]]
        starts, ends = lists[0], lists[1]
        axes = lists[2] if len(lists) > 2 else range(len(starts))
        steps = lists[3] if len(lists) > 3 else [1] * len(starts)
    found = arrays[0]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        stop = None if step < 0 and end < -found.shape[axis] else end
        found = found[(*[slice(None)] * (axis % found.ndim), slice(start, stop, step))]
    return found


@_folds("ReduceProd", "ReduceSum")
def _reduced(node: Node, arrays: list[Objects]) -> Objects | None:
    if arrays[0].ndim != 1:
        return None
    found: Element = 1 if node.op == "ReduceProd" else 0
    for element in arrays[0]:
        found = (_multiplied if node.op == "ReduceProd" else _added)(found, element)
    result = np.empty(1 if node.get("keepdims", 1) else (), object)
    result[...] = found
    return result


@_folds("ConstantOfShape")
def _constant_of_shape(node: Node, arrays: list[Objects]) -> Objects | None:
    value = node.get("value")
    if not isinstance(value, Payload) or value.dtype is not I64:
        return None
    shape = [int(extent) for extent in arrays[0].reshape(-1)]
    if int(np.prod(shape, dtype=object)) > MOST_ELEMENTS:
        return None
    found = np.empty(shape, object)
    found[...] = int(value.load().reshape(-1)[0])
    return found


@_folds("Range")
def _range(_node: Node, arrays: list[Objects]) -> Objects | None:
    start, limit, step = (int(array.reshape(-1)[0]) for array in arrays)
    if step == 0 or (limit - start) // step > MOST_ELEMENTS:
        return None
    found = np.empty(len(range(start, limit, step)), object)
    found[:] = list(range(start, limit, step))
    return found
