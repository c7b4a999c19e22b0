"""Regions of states as kernels: loop programs that move elements to and from places which only the run knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.expr import tree
from openinfer.loops import Bind, Buffer, For, Kernel, Load, Store, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer.loops import Statement, Value
    from openinfer.scalars import Scalar

FIRST = "first"
"""Parameter: the element of the state that the region begins with."""


def length_of(range_: int) -> str:
    """Return the parameter that is the length of a range."""
    return f"length{range_}"


def reading(dtype: DType, strides: Sequence[int], entry: int) -> Kernel:
    """Return a loop program that copies a region of the state ``x0`` to the row-major tensor ``y0``.

    Args:
        strides: elements between the places of each range.
        entry: elements in a row at each place.
    """
    return _moving("read", dtype, strides, entry, is_store=False)


def writing(dtype: DType, strides: Sequence[int], entry: int) -> Kernel:
    """Return a loop program that copies the row-major tensor ``x0`` to a region of the state ``y0``."""
    return _moving("write", dtype, strides, entry, is_store=True)


def clearing(dtype: DType, strides: Sequence[int], entry: int, value: Scalar) -> Kernel:
    """Return a loop program that gives every element of a region of the state ``y0`` one value."""
    axes, in_state, _ = _places(strides, entry)
    state = Buffer("y0", dtype, Index.of(1))
    body = Store(state, in_state, value_of(tree.literal(value, dtype), {}))
    return _kernel("clear", (state,), axes, body, len(strides))


def _moving(name: str, dtype: DType, strides: Sequence[int], entry: int, *, is_store: bool) -> Kernel:
    axes, in_state, in_value = _places(strides, entry)
    source, target = Buffer("x0", dtype, Index.of(1)), Buffer("y0", dtype, Index.of(1))
    at, to = (in_value, in_state) if is_store else (in_state, in_value)
    return _kernel(name, (source, target), axes, Store(target, to, _element(source, at)), len(strides))


def _element(buffer: Buffer, at: Index) -> Value:
    return value_of(tree.Input(0, buffer.dtype), {0: Load(buffer, at)})


def _places(strides: Sequence[int], entry: int) -> tuple[list[Var], Index, Index]:
    """Return the loops over a region, and the addresses of an element in the state and in the value."""
    in_state, in_value = Index.of(Var(FIRST)), Index()
    axes: list[Var] = []
    for number, stride in enumerate(strides):
        extent = Index.of(Var(length_of(number)))
        axis = Var(f"i{number}", extent)
        axes.append(axis)
        in_state = in_state + Index.of(axis) * stride
        in_value = in_value * extent + axis
    row = Var(f"i{len(strides)}", entry)
    return [*axes, row], in_state + row, in_value * entry + row


def _kernel(name: str, buffers: tuple[Buffer, ...], axes: Sequence[Var], store: Statement, ranges: int) -> Kernel:
    body: tuple[Statement, ...] = (store,)
    for axis in reversed(axes):
        body = (For(axis, Bind.GROUP, body),)
    return Kernel(name, buffers, body, (Var(FIRST), *(Var(length_of(number)) for number in range(ranges))))
