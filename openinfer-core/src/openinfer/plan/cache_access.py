"""Accesses to caches as regions of static memory: tables have their bounds in front, matrices their largest extents.

Memory beyond what was written holds initial values, so a read may take it; registers hold the lengths that
open or negative ends need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Interval
from openinfer.dims import expression_interval
from openinfer.ir.nodes import CacheRead, CacheReset, CacheWrite, Single, Slice
from openinfer.ir.types import TensorType
from openinfer.plan.findings import about
from openinfer.plan.operands import interval
from openinfer.plan.regions import Axis, Growth, Region
from openinfer.plan.steps import Register

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.ir.graph import VarDecl
    from openinfer.ir.nodes import CacheAccess, Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedVar
    from openinfer.plan.bounds import CacheBounds
    from openinfer.plan.draft import Draft
    from openinfer.symbolic import IntExpr

    Indexed = Callable[[IntExpr], Index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A cache in static memory.

    Attributes:
        value: number of its value, whose type has the bounds in front of the largest entry.
        table, auto: its indices.
        bounds: of the table's indices, then how far extents grow.
        base: declared shape of an entry.
        grown: registers of the table's sizes, where something reads them, then of the growth of the extents.
        there: number of the value that says which entries there are, where sizes depend on that.
    """

    name: str
    value: int
    table: tuple[str, ...]
    auto: tuple[str, ...]
    bounds: tuple[int, ...]
    fixed: frozenset[str]
    base: tuple[int, ...]
    grown: Mapping[str, int]
    there: int | None = None

    @property
    def entry(self) -> tuple[int, ...]:
        """The largest shape of an entry."""
        return grown_shape(self.base, self.bounds[len(self.table) :])


def grown_shape(base: Sequence[int], growth: Sequence[int]) -> tuple[int, ...]:
    """Return a shape after growth; caches without growing extents have none."""
    return tuple(n + by for n, by in zip(base, growth, strict=True)) if growth else tuple(base)


class Caches:
    """The caches of a program, added to a plan when they are first used; ``inspected``: with all sizes."""

    def __init__(self, resolved: ResolvedGraph, draft: Draft, bounds: CacheBounds, *, inspected: bool = False) -> None:
        self._resolved = resolved
        self._draft = draft
        self._bounds = bounds
        self._found: dict[str, Cache] = {}
        self._sized = frozenset(resolved.variables if inspected else _names_with_sizes(resolved))
        self._partly_reset = _partly_reset(resolved)

    def of(self, name: str) -> Cache:
        """Return a cache.

        Raises:
            SynthesisError: it has no bound, or cannot lie in static memory.
        """
        if name not in self._found:
            variable = self._resolved.variables[name]
            if variable.decl is None:
                raise TypeError(f"{name} is not a cache")
            self._found[name] = self._made(variable, variable.decl)
        return self._found[name]

    def _made(self, variable: ResolvedVar, decl: VarDecl) -> Cache:
        table = decl.formals[: len(decl.formals) - len(decl.auto_dim)]
        bounds = tuple(self._bounds.of(decl.name, formal) for formal in decl.formals)
        entry = grown_shape(variable.type.shape, bounds[len(table) :])
        kind = TensorType(variable.type.dtype, (*bounds[: len(table)], *entry))
        if not kind.fits:
            raise about("too-large", f"cache `{decl.name}` of {kind} is more than any memory holds")
        fixed = frozenset(name for name, _ in decl.fixed)
        sized = [f for f in table if f not in fixed and decl.name in self._sized]
        grown = {
            formal: self._draft.register(f"{decl.name}.{formal}", is_kept=True, most=bound)
            for formal, bound in zip(decl.formals, bounds, strict=True)
            if formal in sized or formal in decl.auto_dim
        }
        value = self._draft.add_state(variable, kind)
        there = None
        if decl.name in self._partly_reset and any(formal in grown for formal in table):
            there = self._draft.add_flags(f"{decl.name}.there", bounds[: len(table)])
        return Cache(
            name=decl.name,
            value=value,
            there=there,
            table=table,
            auto=decl.auto_dim,
            bounds=bounds,
            fixed=fixed,
            base=variable.type.shape,
            grown=grown,
        )


def _names_with_sizes(resolved: ResolvedGraph) -> set[str]:
    """Return the caches of which something reads how many entries there are: an end that is open or below 0.

    An end that may be below 0 counts as one.
    """
    asked = set[str]()
    for _, node in resolved.graph.nodes():
        match node.kind:
            case CacheRead(src=access) | CacheWrite(dst=access):
                decl = resolved.variables[access.base].decl
                tables = 0 if decl is None else len(decl.formals) - len(decl.auto_dim)
                slots = access.slots[:tables]
                ends = [slot.end for slot in slots if isinstance(slot, Slice)]
                if len(slots) < tables or any(end is None or not _is_counted(end, resolved) for end in ends):
                    asked.add(access.base)
            case _:
                pass
    return asked


def _partly_reset(resolved: ResolvedGraph) -> frozenset[str]:
    """Return the caches of which some statement resets a part."""
    resets = (node.kind.target for _, node in resolved.graph.nodes() if isinstance(node.kind, CacheReset))
    return frozenset(target.base for target in resets if target.slots)


def _is_counted(end: IntExpr, resolved: ResolvedGraph) -> bool:
    """Whether an end is never below 0, as far as sizes show."""
    sizes = {name: Interval(n, n) for name, n in resolved.sizes.items() if name not in resolved.variables}
    least = expression_interval(end, sizes).low
    return least is not None and least >= 0


@dataclass(frozen=True, slots=True)
class Access:
    """Makes regions of the accesses in one place of a program.

    Args:
        index: binds the names of an expression.
        loops: intervals of loop indices.
    """

    draft: Draft
    index: Indexed
    loops: Mapping[int, Interval]
    block: str
    node: Node

    def region(self, cache: Cache, access: CacheAccess, *, writes: bool) -> Region:
        """Return what an access takes.

        Args:
            writes: whether it is a write, which grows a table also by ranges.
        """
        tables = len(cache.table)
        slots = [*access.slots[:tables], *[Slice()] * (tables - len(access.slots[:tables]))]
        auto = access.slots[tables:]
        strides = _strides((*cache.bounds[:tables], *cache.entry))
        table = tuple(
            self._axis(cache, formal, slot, stride)
            for formal, slot, stride in zip(cache.table, slots, strides, strict=False)
        )
        selects = any(not isinstance(slot, Single) for slot in auto)
        if writes or not (selects or any(axis.end is not None for axis in table)):
            table = tuple(
                replace(axis, grown=cache.grown.get(formal)) for formal, axis in zip(cache.table, table, strict=True)
            )
        if not cache.auto:
            return Region(table, (), (), math.prod(cache.base))
        inner_strides = strides[tables:]
        if selects:
            inner_slots = [*auto, *[Slice()] * (len(cache.auto) - len(auto))]
            inner = tuple(
                self._selected(cache, formal, slot, stride)
                for formal, slot, stride in zip(cache.auto, inner_slots, inner_strides, strict=True)
            )
            return Region(table, (), inner)
        growth = tuple(
            Growth(cache.grown[formal], self.index(slot.index), self._bound(cache, formal))
            for formal, slot in zip(cache.auto, auto, strict=False)
            if isinstance(slot, Single)
        )
        inner = tuple(
            Axis(Index.of(0), self._extent(cache, formal), Index.of(n), stride, n)
            for formal, n, stride in zip(cache.auto, cache.entry, inner_strides, strict=True)
        )
        return Region(table, growth, inner)

    def _bound(self, cache: Cache, formal: str) -> int:
        return cache.bounds[(*cache.table, *cache.auto).index(formal)]

    def _extent(self, cache: Cache, formal: str) -> Index:
        base = cache.base[cache.auto.index(formal)]
        return self.draft.size(Register(cache.grown[formal])) + base

    def _axis(self, cache: Cache, formal: str, slot: Single | Slice, stride: int) -> Axis:
        bound = self._bound(cache, formal)
        if isinstance(slot, Single):
            return Axis(self.index(slot.index), None, Index.of(bound), stride, bound)
        current = self.draft.size(Register(cache.grown[formal])) if formal in cache.grown else None
        if formal in cache.fixed:
            current = Index.of(bound)
        return self._range(slot, current, Index.of(bound), stride, bound)

    def _range(
        self,
        slot: Slice,
        current: Index | None,
        limit: Index,
        stride: int,
        room: int,
        *,
        is_bound: bool = True,
    ) -> Axis:
        start = Index.of(0) if slot.start is None else self.index(slot.start)
        if slot.end is None:
            return Axis(start, limit if current is None else current, limit, stride, room, is_bound)
        end, now = self.index(slot.end), None if current is None else current.constant
        written = end.constant
        if written is not None and written < 0 and now is not None:
            return Axis(start, Index.of(now + written), limit, stride, room, is_bound)
        values = interval(end, self.loops)
        is_counted = values.low is not None and values.low >= 0
        return Axis(start, end, limit, stride, room, is_bound, None if is_counted else current)

    def _selected(self, cache: Cache, formal: str, slot: Single | Slice, stride: int) -> Axis:
        extent, room = self._extent(cache, formal), cache.entry[cache.auto.index(formal)]
        if isinstance(slot, Single):
            return Axis(self.index(slot.index), None, extent, stride, room, is_bound=False)
        return self._range(slot, extent, extent, stride, room, is_bound=False)

    def cleared(self, cache: Cache, access: CacheAccess) -> Region:
        """Return the entries that a reset of some of them takes."""
        return Region(self._prefix(cache, access, cache.entry), (), (), math.prod(cache.entry))

    def flagged(self, cache: Cache, access: CacheAccess) -> Region:
        """Return the flags of the entries that an access takes, among those that say which there are."""
        return Region(self._prefix(cache, access, ()))

    def _prefix(self, cache: Cache, access: CacheAccess, entry: tuple[int, ...]) -> tuple[Axis, ...]:
        """Return the places of an access on the axes of a table whose places have entries of some shape."""
        strides = _strides((*cache.bounds[: len(cache.table)], *entry))
        axes: list[Axis] = []
        for position, (formal, stride) in enumerate(zip(cache.table, strides, strict=False)):
            slot = access.slots[position] if position < len(access.slots) else None
            if slot is not None:
                axes.append(self._axis(cache, formal, slot, stride))
                continue
            room = self._bound(cache, formal)
            axes.append(Axis(Index.of(0), Index.of(room), Index.of(room), stride, room))
        return tuple(axes)


def lengths(region: Region) -> tuple[int | None, ...]:
    """Return the lengths of the ranges of a region; None for those that are known at run time only."""
    return tuple(_length(axis) for axis in region.ranges)


def _length(axis: Axis) -> int | None:
    if axis.end is None or axis.current is not None:
        return None
    start, end = axis.start.constant, axis.end.constant
    return None if start is None or end is None else max(end - start, 0)


def is_contiguous(region: Region) -> bool:
    """Return whether the elements of a region lie in a row: only its first range may be a part of its axis."""
    row, ranges = region.entry, region.ranges
    for dim, axis in reversed(list(enumerate(ranges))):
        if axis.stride != row:
            return False
        length = _length(axis) if dim else 1
        if length is None:
            return False
        row *= length
    return True


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
