"""Loop programs that move the elements of regions of states, fill them, and count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.dtypes import I64
from openinfer.expr import tree
from openinfer.expr.counting import counted, counting
from openinfer.loops import Bind, Buffer, For, Kernel, Load, Memory, Number, Store, Value, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.loops import Statement
    from openinfer.scalars import Scalar


@dataclass(frozen=True, slots=True)
class Walk:
    """Loops over the elements of a region.

    Attributes:
        loops: variables, the outermost first.
        element: place of an element in the state.
        number: its number among those of the region.
        parameters, arguments: what is known at run time only, with the values of a step.
    """

    loops: tuple[Var, ...]
    element: Index
    number: Index
    parameters: tuple[Var, ...]
    arguments: tuple[Index, ...]


def walk_over(first: Index, lengths: Sequence[Index], strides: Sequence[int], entry: int, count: int) -> Walk:
    """Return the loops over a region.

    Args:
        first: place of its first element.
        lengths, strides: of its ranges; the strides in elements.
        entry: elements in a row at each place.
        count: elements of the state.
    """
    parameters: dict[Var, Index] = {}

    def parameter(name: str, value: Index) -> Index:
        if value.constant is not None:
            return value
        var = Var(name, count + 1)
        parameters[var] = value
        return Index.of(var)

    element, number, loops = parameter("first", first), Index(), list[Var]()
    for axis, (length, stride) in enumerate(zip((*lengths, Index.of(entry)), (*strides, 1), strict=True)):
        extent = parameter(f"length{axis}", length)
        if extent.constant != 1:
            loops.append(Var(f"j{axis}", extent if extent.constant is None else extent.constant))
            element = element + Index.of(loops[-1]) * stride
            number = number * extent + loops[-1]
    return Walk(tuple(loops), element, number, tuple(parameters), tuple(parameters.values()))


def moving_kernel(source: TensorType, output: TensorType, walk: Walk, *, is_stored: bool) -> Kernel:
    """Return the loop program that loads the elements of a region, or stores them, in row-major order."""
    read = Buffer("x", source.dtype, Index.of(source.count), Memory.GLOBAL if is_stored else Memory.STATE)
    written = Buffer("y", output.dtype, Index.of(output.count), Memory.STATE if is_stored else Memory.GLOBAL)
    origin, target = (walk.number, walk.element) if is_stored else (walk.element, walk.number)
    value = Value(tree.Input(0, source.dtype), (Load(read, origin),))
    body = _looped(walk, Store(written, target, value))
    return Kernel("store" if is_stored else "load", (read, written), body, walk.parameters)


def clearing_kernel(state: TensorType, walk: Walk, value: Scalar) -> Kernel:
    """Return the loop program that gives the elements of a region a value."""
    buffer = Buffer("y", state.dtype, Index.of(state.count), Memory.STATE)
    body = _looped(walk, Store(buffer, walk.element, Value(tree.literal(value, state.dtype))))
    return Kernel("clear", (buffer,), body, walk.parameters)


def counting_kernel(dtype: DType, amount: int | None, *, down: bool) -> Kernel:
    """Return the loop program that adds an amount to an element, or its parameter where the amount is None."""
    buffer, by = Buffer("y", dtype, Index.of(1), Memory.STATE), Var("by")
    signed = None if amount is None else counted(amount, dtype, down=down)
    leaves = {0: Load(buffer, Index()), 1: Number(Index.of(by), I64)}
    value = value_of(counting(dtype, signed, down=down), leaves)
    return Kernel("count", (buffer,), (Store(buffer, Index(), value),), () if amount is not None else (by,))


def _looped(walk: Walk, statement: Statement) -> tuple[Statement, ...]:
    for var in reversed(walk.loops):
        statement = For(var, Bind.SERIAL, (statement,))
    return (statement,)
