"""Fewer axes: two of which every operand has the elements in a row become one, on which lanes fill whole registers."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within, rejoined
from openinfer.compute import Read
from openinfer.compute.substitution import moved
from openinfer.schedule.operands import used_layouts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.compute import Element, Stage
    from openinfer.layout import Layout


def merged(stage: Stage, layouts: Mapping[str, Layout]) -> Stage:
    """Return a stage without a fold that visits the same places along fewer axes.

    Axes of one place fall away. Two axes become one where all addresses step as evenly along both as along one: the
    places of a product of row-major tensors [3, 5] are 15 in a row.

    Args:
        layouts: where the tensors of the stage lie, by name.
    """
    return stage if stage.fold is not None else _merged(stage, used_layouts(stage, layouts))


def merged_places(stage: Stage, layouts: Mapping[str, Layout]) -> Stage:
    """Return a stage that visits the same places along fewer axes, those of its fold left as they are.

    The arguments are those of `merged`.
    """
    return _merged(stage, used_layouts(stage, layouts))


@lru_cache(maxsize=4096)
def _merged(stage: Stage, used: tuple[tuple[str, Layout], ...]) -> Stage:
    layouts = dict(used)
    extents = {axis: axis.extent for axis in stage.axes if isinstance(axis.extent, int)}
    is_running = stage.fold is not None and stage.fold.running
    is_free = not (is_running or stage.lookups or stage.checks or stage.is_sequential)
    if not is_free or len(extents) < len(stage.axes) or len(extents) < 2 or 0 in extents.values():
        return stage
    indices = list(_indices(stage, layouts))
    slopes = {
        axis: tuple(_slope(index, axis, is_address=is_address) for index, is_address in indices)
        for axis, extent in extents.items()
        if extent > 1
    }
    values: dict[Var, Index] = {axis: Index() for axis, extent in extents.items() if extent == 1}
    while (pair := _pair(slopes, extents)) is not None:
        outer, inner = pair
        count = extents[inner]
        both = Var(outer.name, extents[outer] * count)
        digits = {outer: both // count, inner: both % count}
        values = {axis: index.substituted(digits) for axis, index in values.items()} | digits
        extents[both] = extents[outer] * count
        slopes = {both if axis == inner else axis: slope for axis, slope in slopes.items() if axis != outer}
    if not values:
        return stage
    return replace(
        stage,
        axes=tuple(slopes),
        elements=tuple(_moved(element, values) for element in stage.elements),
        at=tuple(index.substituted(values) for index in stage.at),
    )


def _indices(stage: Stage, layouts: Mapping[str, Layout]) -> Iterator[tuple[Index, bool]]:
    """Yield the indices of a stage, and whether they are addresses or numbers; the others are tested."""
    yield layouts[stage.tensor].address(stage.at), True
    for element in stage.elements:
        if not isinstance(element, Read):
            yield element.at, True
            continue
        layout = layouts[element.tensor]
        yield layout.address(element.at), True
        if element.fill is None:
            continue
        bounds = map(Within, element.at, layout.shape)
        for test in (*element.guards, *bounds):
            if not test.is_certain:
                yield from ((test.index, False), (test.extent, False))


def _moved(element: Element, values: Mapping[Var, Index]) -> Element:
    moved_element = moved(element, values)
    return moved_element if isinstance(moved_element, Read) else replace(moved_element, at=rejoined(moved_element.at))


def _slope(index: Index, axis: Var, *, is_address: bool) -> int | None:
    if is_address:
        return index.coefficient(axis)
    return None if axis in index.variables() else 0


def _pair(slopes: Mapping[Var, tuple[int | None, ...]], extents: Mapping[Var, int]) -> tuple[Var, Var] | None:
    """Return an outer and an inner axis that can be walked as one."""
    for outer, inner in permutations(slopes, 2):
        wide = tuple(None if slope is None else slope * extents[inner] for slope in slopes[inner])
        if None not in wide and slopes[outer] == wide:
            return outer, inner
    return None
