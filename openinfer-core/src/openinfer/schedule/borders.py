"""Terms that are zero for certain: products with what a window reads past the border of its image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute import Order, Read
from openinfer.dtypes import F32, F64, U32
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.schedule.folds import joining

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.affine import Var
    from openinfer.compute import Stage
    from openinfer.expr.tree import Expr
    from openinfer.layout import Layout


MOST_BORDERS = 2
"""Most tiles along an axis that are written out one by one, each without the terms that are zero there."""

LEAST_INSIDE = 16
"""Fewest statements that an iteration of a loop carries out that leaves out some of them: less is not worth a test."""

MOST_KEPT = 0.995
"""Largest share of terms along an axis that lie inside: where fewer are left out, a test costs more than it saves."""


def padded_factor(stage: Stage) -> tuple[int, str] | None:
    """Return the element of a term that is zero past the border of its tensor, and the tensor of its other factor.

    Where all of the other tensor is finite, such a term changes no total: it may be left out. None: terms are not such
    products, or their order is not free.
    """
    fold = stage.fold
    if fold is None or fold.order is not Order.ANY or fold.running or len(fold.totals) != 1:
        return None
    (total,) = fold.totals
    match total.term:
        case tree.Apply("mul", (first, second), dtype) if dtype.is_float and joining(total) == "add":
            a, b = (_number_of(stage, factor) for factor in (first, second))
            pairs = () if a is None or b is None else ((a, b), (b, a))
        case tree.Apply("mul", (first, second), dtype) if dtype is U32 and joining(total) == "add":
            pairs = _integer_factors(stage, first, second)
        case _:
            pairs = ()
    for number, other in pairs:
        padded, factor = stage.elements[number], stage.elements[other]
        if not isinstance(padded, Read) or not isinstance(factor, Read):
            continue
        if factor.fill is None and padded.fills_zeros and not padded.guards:
            return number, factor.tensor
    return None


def _number_of(stage: Stage, factor: Expr) -> int | None:
    """Return the element that a factor is, as it is or as an f32 or f64 of an integer, which is finite."""
    match factor:
        case tree.Input(number, dtype) if number >= 0 and dtype.is_float:
            return number
        case tree.Apply("cast", (tree.Input(number, _),), dtype) if number >= 0 and dtype in (F32, F64):
            return None if stage.elements[number].dtype.is_float else number
        case _:
            return None


def _integer_factors(stage: Stage, first: Expr, second: Expr) -> tuple[tuple[int, int], ...]:
    """Return pairs of the number of a factor that may be zero past a border and that of the other one."""
    numbers = tuple(_padded(stage, factor) for factor in (first, second))
    others = tuple(next(iter(linearise(factor).inputs), None) for factor in (second, first))
    pairs = zip(numbers, others, strict=True)
    return tuple((number, other) for number, other in pairs if number is not None and other is not None)


def _padded(stage: Stage, factor: Expr) -> int | None:
    """Return the element of a cast, or of its difference to a zero point that counts inside of the same border."""
    match factor:
        case tree.Apply("cast", (tree.Input(number, _),), _):
            return number
        case tree.Apply(
            "sub", (tree.Apply("cast", (tree.Input(number, _),), _), tree.Apply("cast", (tree.Input(zero, _),), _)), _
        ):
            x, z = stage.elements[number], stage.elements[zero]
            if not isinstance(x, Read) or not isinstance(z, Read) or stage.fold is None or not z.fills_zeros:
                return None
            tested = {test.index for test in z.guards}
            slid = {i for i in x.at if i.variables() & set(stage.fold.axes) and len(i.variables()) > 1}
            return number if slid <= tested <= set(x.at) else None
        case _:
            return None


@dataclass(frozen=True)
class Window:
    """A dimension of an image along which a window slides.

    Attributes:
        axis: the axis of places, ``tap`` the folded one.
        index: where they read, of ``extent`` places.
        step, dilation: between what neighbouring places, or neighbouring taps, read.
        halo: zeros before the dimension and after it.
    """

    axis: Var
    tap: Var
    index: Index
    extent: int
    step: int
    dilation: int
    halo: tuple[int, int] = (0, 0)

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """How many places read past the border at the front, nowhere, and past the one at the end."""
        places = _extent(self.axis)
        rest = self.index.substituted({self.axis: Index.of(0)}).interval
        if rest.low is None or rest.high is None:
            return (places,)
        before, after = self.halo
        first = max(0, -((before + rest.low) // self.step))
        end = min(places, (self.extent + after - 1 - rest.high) // self.step + 1)
        return (first, end - first, places - end) if first < end else (places,)

    @cached_property
    def share(self) -> float:
        """How many of all terms read inside of the image."""
        places, taps = _extent(self.axis), _extent(self.tap)
        first = self.index.substituted({self.axis: Index.of(0), self.tap: Index.of(0)}).constant or 0
        inside = 0
        for tap in range(taps):
            begin = first + tap * self.dilation
            from_zero = max(0, -(begin // self.step))
            before_end = min(places, -((begin - self.extent) // self.step))
            inside += max(0, before_end - from_zero)
        return inside / (places * taps) if places and taps else 1.0


def windows(stage: Stage, number: int, layout: Layout) -> Iterator[Window]:
    """Yield the dimensions along which an element slides past the border of its tensor."""
    element, fold = stage.elements[number], stage.fold
    if fold is None or not isinstance(element, Read):
        return
    nowhere = ((0, 0),) * len(layout.shape)
    halo = layout.halo if layout.halo and element.fills_with(layout.fill) else nowhere
    for index, extent, zeros in zip(element.at, layout.shape, halo, strict=True):
        taps = [axis for axis in index.variables() if axis in fold.axes]
        own = [axis for axis in index.variables() if axis not in fold.axes]
        size = extent.constant
        if len(taps) != 1 or len(own) != 1 or size is None or index.is_within(0, extent):
            continue
        step, dilation = index.coefficient(own[0]), index.coefficient(taps[0])
        if step is not None and step > 0 and dilation is not None:
            yield Window(own[0], taps[0], index, size, step, dilation, zeros)


def _extent(axis: Var) -> int:
    return axis.extent if isinstance(axis.extent, int) else 0
