"""Sizes that a step takes from what the host inserts (language specification, section 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer import symbolic
from openinfer.errors import ShapeError
from openinfer.ir.resolved import Storage
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.symbolic import IntExpr


def step_sizes(resolved: ResolvedGraph, model: Model) -> frozenset[str]:
    """Return the sizes that may differ from step to step: those that stand alone as an extent of a dynamic variable,
    and that no constant, persistent or model-backed declaration mentions."""
    alone, fixed = set[str](), set[str]()
    for decl in resolved.graph.vars.values():
        names = {name for dim in decl.dims for name in symbolic.names(dim)}
        in_model = model.linked(decl.ref or decl.name, decl.dtype) is not None or decl.pattern is not None
        if in_model or decl.kind.value in (Storage.CONSTANT.value, Storage.PERSISTENT.value):
            fixed |= names
        elif decl.kind.value == Storage.DYNAMIC.value:
            alone |= {dim.name for dim in decl.dims if isinstance(dim, Name)}
    return frozenset(alone - fixed)


def sizes_of(resolved: ResolvedGraph, free: frozenset[str], given: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """Return the free sizes that values have, each with the variable that gives it.

    Raises:
        ShapeError: two extents give one size different values.
    """
    found: dict[str, tuple[int, str]] = {}
    for name, size, extent in _extents(resolved, free, given):
        known = found.setdefault(size, (extent, name))
        if known[0] != extent:
            message = f"size `{size}` is {known[0]} by `{known[1]}` and {extent} by `{name}`: one step has one size"
            raise ShapeError(message, code="insert-mismatch")
    return found


def _extents(resolved: ResolvedGraph, free: frozenset[str], given: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    for name, value in given.items():
        variable = resolved.variables.get(name)
        if variable is None or variable.storage is not Storage.DYNAMIC or not _mentions(variable.dims, free):
            continue
        shape = np.shape(getattr(value, "array", value)) if not hasattr(value, "shape") else tuple(value.shape)
        for dim, extent in zip(variable.dims, shape, strict=False):
            if isinstance(dim, Name) and dim.name in free and len(shape) == len(variable.dims):
                yield name, dim.name, extent


def _mentions(dims: Iterable[IntExpr], names: frozenset[str]) -> bool:
    return any(name in names for dim in dims for name in symbolic.names(dim))
