"""Sizes that a step takes from what the host inserts (``specification: runtime.sizes.4``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer import symbolic
from openinfer.errors import ShapeError
from openinfer.ir.resolved import Storage
from openinfer.ir.types import TensorType
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from openinfer.ir.resolved import ResolvedGraph, ResolvedVar
    from openinfer.symbolic import IntExpr


def agreed_sizes(
    resolved: ResolvedGraph, free: frozenset[str], values: Mapping[str, Any], fixed: Mapping[str, tuple[int, str]]
) -> dict[str, tuple[int, str]]:
    """Return the free sizes of a step, each with the variable that gives it.

    Args:
        resolved: the program.
        free: sizes that may differ from step to step.
        values: values that are inserted, by variable.
        fixed: sizes that earlier values of the step gave; those of variables that are inserted again do not count.

    Raises:
        ShapeError: two extents give one size different values.
    """
    sizes: dict[str, tuple[int, str]] = {}
    for name, size, extent in _extents(resolved, free, values):
        first = sizes.setdefault(size, (extent, name))
        if first[0] != extent:
            message = f"size `{size}` is {first[0]} by `{first[1]}` and {extent} by `{name}`: one step has one size"
            raise ShapeError(message, code="insert-mismatch")
    for size, (extent, name) in sizes.items():
        earlier = fixed.get(size)
        if earlier is not None and earlier[0] != extent and earlier[1] not in values:
            message = f"size `{size}` is {extent} by `{name}`, and {earlier[0]} by `{earlier[1]}` for this step"
            raise ShapeError(message, code="insert-mismatch")
    return {**fixed, **sizes}


def _extents(
    resolved: ResolvedGraph, free: frozenset[str], values: Mapping[str, Any]
) -> Iterator[tuple[str, str, int]]:
    for name, value in values.items():
        variable = resolved.variables.get(name)
        if variable is None or variable.storage is not Storage.DYNAMIC or not _mentions(variable.dims, free):
            continue
        shape = _shape(value)
        for dim, extent in zip(variable.dims, shape, strict=False):
            if isinstance(dim, Name) and dim.name in free and len(shape) == len(variable.dims):
                yield name, dim.name, extent


def _shape(value: Any) -> tuple[int, ...]:
    """Return the shape of a value; none of a list whose rows differ in length, which the insertion refuses."""
    if hasattr(value, "shape"):
        return tuple(value.shape)
    try:
        return np.shape(getattr(value, "array", value))
    except ValueError:
        return ()


def typed_for(resolved: ResolvedGraph, name: str, sizes: Mapping[str, tuple[int, str]]) -> TensorType:
    """Return the type of a variable in a step of these sizes, those of the program where they leave some out."""
    variable = resolved.variables[name]
    all_sizes = {**resolved.sizes, **{size: extent for size, (extent, _) in sizes.items()}}
    shape = tuple(symbolic.evaluate(dim, all_sizes.__getitem__) for dim in variable.dims)
    return TensorType(variable.type.dtype, shape)


def free_axes(variable: ResolvedVar, free: frozenset[str]) -> frozenset[int]:
    """Return the axes of a variable whose extents depend on sizes that may differ from step to step."""
    return frozenset(axis for axis, dim in enumerate(variable.dims) if _mentions((dim,), free))


def _mentions(dims: Iterable[IntExpr], names: frozenset[str]) -> bool:
    return any(name in names for dim in dims for name in symbolic.names(dim))
