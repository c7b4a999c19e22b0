"""Which stages go along the same rows: folds of rows, and what is computed of each element of a row in between."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute import Order, Read
from openinfer.compute.stage import places_of
from openinfer.lower.searches import search_of
from openinfer.schedule.folds import joining

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Computation, Fold, Stage
    from openinfer.lower.searches import Search


@dataclass(frozen=True, slots=True)
class RowStage:
    """A stage that goes along rows.

    Attributes:
        rows: for each of its axes that tell rows apart the axis of the first stage that does the same.
        inside: its axes within a row, those of a fold included.
        search: how its fold finds the place of an element; None: it has a total of its own, or no fold.
    """

    stage: Stage
    rows: Mapping[Var, Var]
    inside: tuple[Var, ...]
    search: Search | None = None


@dataclass(slots=True)
class _Known:
    """Where tensors of the stages before are written: by dim, the axis of a row or the number of an axis inside."""

    at: dict[str, list[Var | int | None]] = field(default_factory=dict[str, "list[Var | int | None]"])
    extents: tuple[int, ...] = ()


def row_stages(computation: Computation) -> tuple[RowStage, ...] | None:
    """Return the stages of a computation, if all of them go along the same rows and the first one folds them.

    Each then needs of the others what these have of the same row, and of their elements the one at its own place.
    """
    earlier, followed = _Known(), list[RowStage]()
    for written in computation.stages:
        search = search_of(written)
        stage = written if search is None else search.stage
        if (
            stage.lookups
            or stage.checks
            or stage.is_sequential
            or not all(_has_extent(axis) for axis in stage.all_axes)
        ):
            return None
        if stage.fold is not None and search is None and not may_join_parts(stage.fold):
            return None
        made = _first(stage) if not followed else _following(stage, earlier)
        if made is None or (earlier.extents and made.inside and _extents(made.inside) != earlier.extents):
            return None
        earlier.extents = earlier.extents or _extents(made.inside)
        places = _places(made)
        if places is None:
            return None
        earlier.at[stage.tensor] = places
        followed.append(replace(made, search=search))
    return tuple(followed) if prod(earlier.extents) else None


def may_join_parts(fold: Fold) -> bool:
    """Return whether threads may fold parts of a row each, and join their totals."""
    return (
        fold.order is Order.ANY and not fold.running and len(fold.totals) == 1 and joining(fold.totals[0]) is not None
    )


def _first(stage: Stage) -> RowStage | None:
    if stage.fold is None:
        return None
    return RowStage(stage, {axis: axis for axis in stage.axes}, stage.fold.axes)


def _following(stage: Stage, earlier: _Known) -> RowStage | None:
    """Return a stage that reads what stages before it have written, if it does so at its own place of the row."""
    rows: dict[Var, Var] = {}
    inside: dict[int, Var] = {}
    for element in stage.elements:
        if not isinstance(element, Read) or element.tensor not in earlier.at:
            continue
        if element.fill is not None:
            return None
        for index, source in zip(element.at, earlier.at[element.tensor], strict=True):
            axis = _variable(index)
            if source is None or (axis is None and index.constant != 0):
                if source is None and index.constant == 0:
                    continue
                return None
            if axis is None:
                return None
            if isinstance(source, int):
                if inside.setdefault(source, axis) != axis:
                    return None
            elif rows.setdefault(axis, source) != source or axis.extent != source.extent:
                return None
    folded = () if stage.fold is None else stage.fold.axes
    left = folded or tuple(axis for axis in stage.axes if axis not in rows)
    axes = stage.axes if folded else tuple(rows)
    is_whole = set(axes) == set(rows) and len(set(rows.values())) == len(rows)
    if not is_whole or any(position >= len(left) or left[position] != axis for position, axis in inside.items()):
        return None
    return RowStage(stage, rows, left)


def _places(made: RowStage) -> list[Var | int | None] | None:
    """Return where a stage stores, by dim; None: not at a place of its own."""
    places: list[Var | int | None] = []
    inside = () if made.stage.fold is not None else made.inside
    for index in made.stage.at:
        axis = _variable(index)
        if axis is None:
            if index != Index():
                return None
            places.append(None)
        else:
            places.append(made.rows[axis] if axis in made.rows else inside.index(axis))
    stored = [source for source in places if source is not None]
    return places if len(set(map(str, stored))) == len(stored) == len(made.rows) + len(inside) else None


def varies(element: object, axes: Sequence[Var]) -> bool:
    """Return whether an element differs along some axes."""
    return isinstance(element, Read) and any(index.variables() & set(axes) for index in places_of(element))


def _variable(index: Index) -> Var | None:
    match index.terms:
        case [((Var() as var,), 1)]:
            return var
        case _:
            return None


def _has_extent(axis: Var) -> bool:
    return isinstance(axis.extent, int)


def _extents(axes: Sequence[Var]) -> tuple[int, ...]:
    return tuple(axis.extent for axis in axes if isinstance(axis.extent, int))
