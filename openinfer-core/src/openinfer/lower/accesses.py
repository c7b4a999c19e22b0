"""The elements of a stage in their buffers: addresses, and the tests that keep them inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index, Within
from openinfer.compute import Read
from openinfer.loops import Load, Number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Var
    from openinfer.compute import Element
    from openinfer.layout import Layout
    from openinfer.loops import Buffer, Leaf


@dataclass(frozen=True, slots=True)
class Guard:
    """A test that a read needs, and how far its index may lie outside, in the halo, without it."""

    test: Within
    halo: tuple[int, int] = (0, 0)

    def needed(self, values: Mapping[Var, Index]) -> Within | None:
        """Return the test with variables replaced; None: it holds for certain, or the halo has the value."""
        before, after = self.halo
        index, extent = self.test.index.substituted(values), self.test.extent.substituted(values)
        if (index + before).is_within(0, extent + (before + after)):
            return None
        return Within(index, extent)


@dataclass(frozen=True, slots=True)
class Access:
    """A read of a stage, or the number of a place.

    Attributes:
        element: what is read.
        buffer, layout: where its tensor lies; None for the number of a place.
        guards: tests that are not certain to hold for every place of the stage.
        origin: the place that lies first in the buffer, where that holds a part of the tensor.
    """

    element: Element
    buffer: Buffer | None
    layout: Layout | None
    guards: tuple[Guard, ...]
    origin: tuple[Index, ...] = ()

    def index(self, values: Mapping[Var, Index]) -> Index:
        """Return the address, or the number, with variables replaced."""
        if not isinstance(self.element, Read) or self.layout is None:
            return places(self.element, values)[0]
        return self.layout.address(counted_from(places(self.element, values), self.origin))

    def tests(self, values: Mapping[Var, Index]) -> tuple[Within, ...]:
        """Return the tests that a read needs at a place."""
        tests = (guard.needed(values) for guard in self.guards)
        return tuple(test for test in tests if test is not None)

    def leaf(self, index: Index, tests: tuple[Within, ...]) -> Leaf:
        """Return the read at an address under tests."""
        if not isinstance(self.element, Read) or self.buffer is None:
            return Number(index, self.element.dtype)
        # An address that no test lets through may lie anywhere.
        address = Index() if any(test.is_void for test in tests) else index
        return Load(self.buffer, address, tests, self.element.fill if tests else None)


def access(
    element: Element,
    buffers: Mapping[str, Buffer],
    layouts: Mapping[str, Layout],
    origins: Mapping[str, tuple[Index, ...]] | None = None,
) -> Access:
    """Return an element in its buffer. ``origins`` has the first places of tensors of which buffers hold a part."""
    if not isinstance(element, Read):
        return Access(element, None, None, ())
    layout = layouts[element.tensor]
    origin = (origins or {}).get(element.tensor, ())
    if element.fill is None:
        return Access(element, buffers[element.tensor], layout, (), origin)
    guards: list[Guard] = [Guard(test) for test in element.guards if not test.is_certain]
    for dim, (index, extent) in enumerate(zip(element.at, layout.shape, strict=True)):
        test = Within(index, extent)
        # Of a dimension of which the buffer holds a part, every place that is read lies in the part.
        if not test.is_certain and (not origin or origin[dim] == Index()):
            guards.append(Guard(test, layout.halo[dim] if layout.halo and element.fills_with(layout.fill) else (0, 0)))
    return Access(element, buffers[element.tensor], layout, tuple(guards), origin)


def counted_from(at: tuple[Index, ...], origin: tuple[Index, ...]) -> tuple[Index, ...]:
    """Return a place counted from an origin; from zero where there is none."""
    return tuple(index - first for index, first in zip(at, origin, strict=True)) if origin else at


def places(element: Element, values: Mapping[Var, Index]) -> tuple[Index, ...]:
    """Return the indices of an element with variables replaced."""
    at = element.at if isinstance(element, Read) else (element.at,)
    return tuple(index.substituted(values) for index in at)
