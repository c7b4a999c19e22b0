"""Kernels of computations: the functions of the library that an expression, a product or a call stands for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import array_api_strict as xp

from openinfer.plugin import Index, Var, array_expression, compute, linearise, tree
from openinfer_example_library.memory import DTYPES, HERE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.plugin import Computation, Expr, Instruction, OpCall

    Kernel: TypeAlias = Callable[..., Any]
    """From arrays of the library, those of the inputs, to the array of the one output."""

FUNCTIONS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "neg": "negative",
    "absolute": "abs",
    "select": "where",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "logical_not": "logical_not",
    "bit_and": "bitwise_and",
    "bit_or": "bitwise_or",
    "bit_xor": "bitwise_xor",
    "bit_not": "bitwise_invert",
}
"""Functions of expressions, and those of the library that mean the same on all types."""

OF_FLOATS = {
    **{name: name for name in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "tanh")},
    **{name: name for name in ("floor", "ceil", "trunc")},
    "round_even": "round",
    "div": "divide",
    "is_nan": "isnan",
    "is_inf": "isinf",
    "sign_bit": "signbit",
}
"""Those that mean the same on floats only: the language defines division of integers by zero."""


def kernel_of(computation: Computation) -> Kernel | None:
    """Return the kernel of a computation; None where the library has no function for it."""
    expr = array_expression(computation)
    if expr is not None:
        return _elementwise(expr, _extents(computation.outputs[0].shape))
    return _product(computation)


def _extents(indices: Sequence[Index]) -> tuple[int, ...]:
    return tuple(index.evaluate({}) for index in indices)


def _elementwise(expr: Expr, shape: tuple[int, ...]) -> Kernel | None:
    steps = linearise(expr).instructions
    made = [_instruction(step, [steps[number] for number in step.operands]) for step in steps]
    functions = [function for function in made if function is not None]
    if len(functions) < len(steps):
        return None

    def run(*arrays: Any) -> Any:
        values: list[Any] = []
        for step, function in zip(steps, functions, strict=True):
            operands = [arrays[step.index]] if step.function == "input" else [values[n] for n in step.operands]
            values.append(function(*operands))
        return xp.broadcast_to(values[-1], shape)

    return run


def _instruction(step: Instruction, operands: Sequence[Instruction]) -> Kernel | None:
    """Return the function of one instruction; None: a type or a function is not one of the library."""
    if any(instruction.dtype.name not in DTYPES for instruction in (step, *operands)):
        return None
    is_float = bool(operands) and operands[-1].dtype.is_float
    match step.function:
        case "input":
            return _same
        case "literal":
            constant = xp.asarray(step.value, dtype=DTYPES[step.dtype.name], device=HERE)
            return lambda: constant
        case "cast" if not is_float or step.dtype.is_float:
            return partial(_cast, DTYPES[step.dtype.name])
        case name if name in FUNCTIONS:
            return getattr(xp, FUNCTIONS[name])
        case name if name in OF_FLOATS and is_float:
            return getattr(xp, OF_FLOATS[name])
        case _:
            return None


def _same(array: Any) -> Any:
    return array


def _cast(dtype: Any, array: Any) -> Any:
    return xp.astype(array, dtype)


@dataclass(frozen=True)
class _Product:
    """A sum of products of two tensors, such as ``y[i, j] = sum over k of a[i, k] * b[k, j]``.

    Attributes:
        numbers: those of the inputs ``a`` and ``b``.
        left, right: the axis along each of their dimensions; None for one of extent 1 that is broadcast.
        result: the axes of the output.
    """

    numbers: tuple[int, int]
    left: tuple[Var | None, ...]
    right: tuple[Var | None, ...]
    result: tuple[Var, ...]

    def __call__(self, *arrays: Any) -> Any:
        """Return a product of stacks of matrices: axes of both factors, of one alone, and those summed over."""
        stack = [axis for axis in self.result if axis in self.left and axis in self.right]
        rows = [axis for axis in self.result if axis in self.left and axis not in stack]
        columns = [axis for axis in self.result if axis in self.right and axis not in stack]
        summed = [axis for axis in self.left if axis is not None and axis not in self.result]
        a = _matrices(arrays[self.numbers[0]], self.left, (stack, rows, summed))
        b = _matrices(arrays[self.numbers[1]], self.right, (stack, summed, columns))
        order = [*stack, *rows, *columns]
        product = xp.reshape(xp.matmul(a, b), _sizes(order))
        return xp.permute_dims(product, tuple(order.index(axis) for axis in self.result))


def _matrices(array: Any, dims: Sequence[Var | None], groups: Sequence[Sequence[Var]]) -> Any:
    """Return an array with its axes in groups, each of which is one dimension."""
    axes = [axis for axis in dims if axis is not None]
    order = [axis for group in groups for axis in group]
    array = xp.permute_dims(xp.reshape(array, _sizes(axes)), tuple(axes.index(axis) for axis in order))
    return xp.reshape(array, tuple(prod(_sizes(group)) for group in groups))


def _sizes(axes: Sequence[Var]) -> tuple[int, ...]:
    return tuple(axis.extent for axis in axes if isinstance(axis.extent, int))


def _product(computation: Computation) -> _Product | None:
    """Return the product that a computation is; None where it is another one, or adds its terms in a fixed order."""
    stage, fold = computation.stages[0], computation.stages[0].fold
    if len(computation.stages) > 1 or stage.checks or stage.lookups or stage.is_sequential:
        return None
    if fold is None or fold.order is not compute.Order.ANY or fold.running or len(fold.totals) != 1:
        return None
    (total,) = fold.totals
    match total.start, total.term:
        case tree.Literal(0), tree.Apply("mul", (tree.Input(a), tree.Input(b)), dtype) if dtype.name in DTYPES:
            sum_of_both = linearise(tree.add(tree.Input(~0, dtype), tree.Input(~1, dtype)))
        case _:
            return None
    if linearise(total.combine) != sum_of_both or linearise(stage.value) != linearise(tree.Input(~0, dtype)):
        return None
    tensors = {tensor.name: tensor for tensor in computation.inputs}
    factors = [stage.elements[number] for number in (a, b)]
    reads = [factor for factor in factors if isinstance(factor, compute.Read) and factor.tensor in tensors]
    if len(reads) < 2 or any(read.fill is not None for read in reads):
        return None
    left, right = (_axes(read.at, tensors[read.tensor].shape) for read in reads)
    result = _axes(stage.at, computation.outputs[0].shape)
    if left is None or right is None or result is None:
        return None
    axes = tuple(axis for axis in result if axis is not None)
    summed = {axis for axis in (*left, *right) if axis is not None} - {*axes}
    if summed != {*fold.axes} or not summed <= {*left} & {*right} or len(axes) < len(result):
        return None
    # An axis of one place that both factors have is walked by neither: its index is 0.
    if not {*axes} <= {*left, *right}:
        return None
    numbers = [[*tensors].index(read.tensor) for read in reads]
    return _Product((numbers[0], numbers[1]), left, right, axes)


def _axes(at: Sequence[Index], shape: Sequence[Index]) -> tuple[Var | None, ...] | None:
    """Return the axis that walks each dimension of a tensor; None where another index does."""
    axes: list[Var | None] = []
    for index, extent in zip(at, shape, strict=True):
        variables = [var for var in index.variables() if index == Index.of(var) and Index.of(var.extent or 0) == extent]
        if not variables and (index != Index() or extent.constant != 1):
            return None
        axes.append(variables[0] if variables else None)
    walked = [axis for axis in axes if axis is not None]
    return tuple(axes) if len(walked) == len({*walked}) else None


def argsort(call: OpCall) -> Kernel:
    """Return the kernel of a call of `argsort`, an operator that is defined by a loop program."""
    axis: Any = call.settings.get("axis", -1)

    def run(array: Any) -> Any:
        return xp.argsort(array, axis=axis, descending=bool(call.settings.get("descending")), stable=True)

    return run
