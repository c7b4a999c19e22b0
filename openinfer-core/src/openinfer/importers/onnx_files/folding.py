"""Arithmetic of shapes: integers that are known up to sizes, computed at import."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from openinfer.dims import Condition, Dim, NeedsNumberError, Relation, Size, index_of, surely
from openinfer.dims import max as largest
from openinfer.dims import min as smallest
from openinfer.dtypes import BOOL, F32, F64, I32, I64
from openinfer.importers.onnx_files.sizes import has_text, is_number
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.onnx_files.values import MOST_ELEMENTS, of_elements

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.importers.onnx_files.node import Node
    from openinfer.importers.onnx_files.values import Value

    Objects: TypeAlias = npt.NDArray[Any]

MOST_FACTORS = 64
"""Numbers and sizes of the longest sum of products that is computed at import; the program computes longer ones."""

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
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, NeedsNumberError, _UndecidedError):
        return None
    if found is None or found.size > MOST_ELEMENTS:
        return None
    if not all(map(_is_kept, found.reshape(-1))):
        return None
    return of_elements(list(found.reshape(-1)), found.shape, _result_type(node))


def _is_kept(element: Size) -> bool:
    """Whether an integer has 64 bits and program text: what squares it again and again would double its factors."""
    if is_number(element):
        return -(1 << 63) <= element < 1 << 63
    if not isinstance(element, Dim) or not has_text(element):
        return False
    return sum(len(atoms) + 1 for atoms, _ in element.index.terms) <= MOST_FACTORS


class _UndecidedError(Exception):
    """A comparison whose result depends on sizes."""


_KEPT_BY_CASTS = {1: F32, 6: I32, 7: I64, 11: F64}
"""Element types by ONNX's numbers that hold sizes: those above 2^24, which f32 rounds, are larger than any tensor's."""


def _result_type(node: Node) -> Any:
    if node.op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or"):
        return BOOL
    if node.op == "Cast":
        return _KEPT_BY_CASTS.get(int(node.get("to")), BOOL)
    return node.given(1 if node.op == "Where" else 0).dtype if node.op != "ConstantOfShape" else I64


def _objects(value: Value) -> Objects | None:
    """Return integers as an array of Python integers and sizes."""
    found, shape = value.integers(), value.shape
    if found is None or shape is None:
        return None
    array = np.empty(len(found), object)
    array[:] = list(found)
    return array.reshape(shape)


def _of_shape(node: Node) -> Value | None:
    dims = node.given(0).dims
    if node.op == "Size":
        return of_elements([math.prod(dims)], ())
    rank = len(dims)
    start, end = (_within(int(node.get(name, default)), rank) for name, default in (("start", 0), ("end", rank)))
    chosen = dims[start:end]
    return of_elements(chosen, (len(chosen),))


def _within(place: int, rank: int) -> int:
    return min(max(place + rank if place < 0 else place, 0), rank)


# Elements


def _divided(node: Node, left: Size, right: Size) -> Size:
    """Divide as ONNX does, toward zero. Of a sum of sizes the program relies on it not being negative.

    Raises:
        _UndecidedError: the divisor is a size that may be 0, or floats are divided, perhaps with a remainder.
    """
    if node.given(0).dtype.is_float and not left % right == 0:
        raise _UndecidedError
    if is_number(left) and is_number(right):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if is_number(right) and right < 0:
        return -_divided(node, left, -right)
    if not surely(lambda: right > 0):
        raise _UndecidedError
    if surely(lambda: left < 0):
        return -(-left // right)
    return node.emit.dimensions.at_least_zero(left) // right


def _remainder(left: Size, right: Size) -> Size:
    if not surely(lambda: right > 0) and not (is_number(left) and is_number(right)):
        raise _UndecidedError
    return left % right


def _is_certain(left: Size, right: Size, relation: Relation) -> int:
    """Return 1 where the difference of two sizes compares so with 0, and 0 where it does not.

    Raises:
        _UndecidedError: that depends on sizes.
    """
    gap = left - right
    condition = Condition(index_of(gap), relation)
    answer = gap.asked.certain(condition) if isinstance(gap, Dim) else condition.holds({})
    if answer is None:
        raise _UndecidedError
    return int(answer)


def _is_equal(left: Size, right: Size) -> int:
    return _is_certain(left, right, Relation.EQUAL)


def _is_less(left: Size, right: Size) -> int:
    return _is_at_least(right, left + 1)


def _is_greater(left: Size, right: Size) -> int:
    return _is_at_least(left, right + 1)


def _is_at_most(left: Size, right: Size) -> int:
    return _is_at_least(right, left)


def _is_at_least(left: Size, right: Size) -> int:
    return _is_certain(left, right, Relation.AT_LEAST)


def _both(left: Size, right: Size) -> int:
    return int(bool(left) and bool(right))


def _either(left: Size, right: Size) -> int:
    return int(bool(left) or bool(right))


def _mapped(function: Callable[..., Any], *arrays: Objects) -> Objects:
    return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), object)


def _negated(element: Size) -> Size:
    return int(not element)


def _chosen(condition: Size, left: Size, right: Size) -> Size:
    return left if condition else right


def _is_not_zero(element: Size) -> Size:
    return _is_certain(element, 0, Relation.UNEQUAL)


_BINARY: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Mod": _remainder,
    "Equal": _is_equal,
    "Less": _is_less,
    "Greater": _is_greater,
    "LessOrEqual": _is_at_most,
    "GreaterOrEqual": _is_at_least,
    "And": _both,
    "Or": _either,
    "Min": smallest,
    "Max": largest,
}


@_folds("Div", *_BINARY)
def _binary(node: Node, arrays: list[Objects]) -> Objects | None:
    function = partial(_divided, node) if node.op == "Div" else _BINARY[node.op]
    found = arrays[0]
    for more in arrays[1:]:
        found = _mapped(function, found, more)
    return found


@_folds("Not")
def _not(_node: Node, arrays: list[Objects]) -> Objects | None:
    return _mapped(_negated, arrays[0])


@_folds("Neg")
def _neg(_node: Node, arrays: list[Objects]) -> Objects | None:
    return _mapped(operator.neg, arrays[0])


@_folds("Where")
def _where(_node: Node, arrays: list[Objects]) -> Objects | None:
    if not all(map(is_number, arrays[0].reshape(-1))):
        return None
    return _mapped(_chosen, *arrays)


@_folds("Identity", "Floor", "Ceil", "Round")
def _identity(_node: Node, arrays: list[Objects]) -> Objects | None:
    return arrays[0]


@_folds("Cast")
def _cast(node: Node, arrays: list[Objects]) -> Objects | None:
    to = int(node.get("to"))
    if to == 9:
        return _mapped(_is_not_zero, arrays[0])
    return arrays[0] if to in _KEPT_BY_CASTS else None


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
    found = math.prod(arrays[0]) if node.op == "ReduceProd" else sum(arrays[0])
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
