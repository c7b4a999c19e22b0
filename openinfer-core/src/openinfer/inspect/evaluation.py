"""Evaluates expressions over the values of a running program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer import symbolic
from openinfer.dtypes import BY_NAME
from openinfer.errors import ExecutionError
from openinfer.inspect.conditions import Access, Expression, Function, Infix, Number, Prefix
from openinfer.inspect.position import loop_indices
from openinfer.packing import pack
from openinfer.simulate.values import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from openinfer.simulate.execute.executor import Executor

    Array: TypeAlias = npt.NDArray[Any]

_CODE = "bad-condition"

_FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "abs": np.abs,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "sum": np.sum,
    "any": np.any,
    "all": np.all,
    "count": np.count_nonzero,
    "norm": lambda x: np.sqrt(np.sum(np.square(x.astype(np.float64)))),
}
_SIGNS: dict[str, Callable[[Array, Array], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


class Values:
    """Values of an executor by name, also while a step runs.

    Args:
        indices: the loop indices that expressions see; by default those of the statement that runs next.
    """

    def __init__(self, executor: Executor, indices: Callable[[], Mapping[str, int]] | None = None) -> None:
        self._executor = executor
        self._indices = indices or (lambda: loop_indices(executor.frames))

    def tensor(self, access: Access) -> Tensor:
        """Return a copy of a variable, of an element or range of one, of an entry, or a loop index.

        Raises:
            ExecutionError: there is no such value at this moment.
        """
        index = self._loop_index(access)
        if index is not None:
            return Tensor(BY_NAME["i64"], (), np.array(index, np.int64))
        program = self._executor.program
        variable = program.variables.get(access.name)
        plain = variable is not None and (variable.decl is None or not variable.decl.formals)
        if access.indices is None:
            return self._executor.fetch_raw(access.name)
        slots = [self._slot(slot, access) for slot in access.indices.split(",")] if access.indices else []
        if plain:
            return _element(self._executor.fetch_raw(access.name), slots, access)
        return self._executor.fetch_raw(f"{access.name}[{', '.join(slots)}]")

    def evaluate(self, expression: Expression) -> Array:
        """Return the value of an expression: an array of float64, int64 or bool, of any rank.

        Raises:
            ExecutionError: it has no value at this moment; ``bad-condition`` where shapes do not fit.
        """
        with np.errstate(all="ignore"):
            return np.asarray(self._value(expression))

    def holds(self, expression: Expression) -> bool:
        """Return whether a condition is true; one that has no value at this moment is not.

        Raises:
            ExecutionError: ``bad-condition``, its value has several elements, or shapes do not fit.
        """
        try:
            value = self.evaluate(expression)
        except ExecutionError as error:
            if error.code == _CODE:
                raise
            return False
        if value.size != 1:
            message = f"a condition has one element, this one has the shape {list(value.shape)}: say any(…) or all(…)"
            raise ExecutionError(message, code=_CODE)
        return bool(value.reshape(-1)[0])

    def _loop_index(self, access: Access) -> int | None:
        if access.indices is not None:
            return None
        return self._indices().get(access.name)

    def _value(self, expression: Expression) -> Any:
        if isinstance(expression, Number):
            return np.asarray(expression.value)
        if isinstance(expression, Access):
            return _plain(self.tensor(expression))
        if isinstance(expression, Prefix):
            operand = self._value(expression.operand)
            return np.logical_not(operand) if expression.sign == "not" else np.negative(_counted(operand))
        if isinstance(expression, Function):
            return _applied(expression, self._value(expression.argument))
        return _combined(expression, self._value(expression.left), self._value(expression.right))

    def _slot(self, text: str, access: Access) -> str:
        """Return one index or range with its expressions worked out."""
        return "..".join(self._bound(bound.strip(), access) for bound in text.split("..", 1))

    def _bound(self, text: str, access: Access) -> str:
        if not text or re.fullmatch(r"-?[0-9]+", text, re.ASCII):
            return text
        try:
            expr = symbolic.parse(text)
        except symbolic.SymbolicSyntaxError as error:
            raise ExecutionError(f"`{access}`: {error}", code=_CODE) from error
        try:
            return str(symbolic.evaluate(expr, self._integer))
        except symbolic.DivisionError as error:
            raise ExecutionError(f"`{access}`: {error}", code=_CODE) from error

    def _integer(self, name: str) -> int:
        """Return a loop index, a size, or a scalar variable."""
        indices = self._indices()
        if name in indices:
            return indices[name]
        sizes = self._executor.program.sizes
        return sizes[name] if name in sizes else int(self._executor.fetch(name))


def _element(tensor: Tensor, slots: list[str], access: Access) -> Tensor:
    """Return an element or a range of a plain variable, negative positions counting from the end."""
    index = tuple(_position(slot, access) for slot in slots)
    try:
        array = np.array(tensor.array[index])
    except IndexError as error:
        message = f"`{access}`: `{access.name}` has the shape {list(tensor.shape)}: {error}"
        raise ExecutionError(message, code="out-of-range") from error
    return Tensor(tensor.dtype, array.shape, pack(array, tensor.dtype) if tensor.dtype.is_packed else array)


def _position(slot: str, access: Access) -> int | slice:
    try:
        if ".." not in slot and slot:
            return int(slot)
        start, _, end = slot.partition("..")
        return slice(int(start) if start else None, int(end) if end else None)
    except ValueError as error:
        raise ExecutionError(f"`{access}`: {slot!r} is not an index or range", code=_CODE) from error


def _plain(tensor: Tensor) -> Array:
    """Return elements as float64, int64 or bool; as float64 too where int64 cannot hold them."""
    array = tensor.array
    if tensor.dtype.is_float:
        return array.astype(np.float64)
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        return array.astype(np.float64)
    return array if array.dtype == np.bool_ else array.astype(np.int64)


def _counted(array: Array) -> Array:
    return array.astype(np.int64) if array.dtype == np.bool_ else array


def _applied(function: Function, argument: Any) -> Any:
    array = np.asarray(argument)
    if not array.size and function.name in ("min", "max", "mean"):
        raise ExecutionError(f"{function.name} of no elements", code=_CODE)
    return _FUNCTIONS[function.name](array)


def _combined(infix: Infix, left: Any, right: Any) -> Any:
    counted = infix.sign in ("+", "-", "*", "/")
    try:
        return _SIGNS[infix.sign](*(_counted(np.asarray(each)) if counted else each for each in (left, right)))
    except ValueError as error:
        message = f"{infix.sign!r} takes values of one shape, found {[list(np.shape(each)) for each in (left, right)]}"
        raise ExecutionError(message, code=_CODE) from error
