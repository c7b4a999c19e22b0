"""Elements that an operator has no result for, each put into a call that is legal otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from openinfer.testing.oracle import known

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.cases import Case
    from openinfer.testing.values import Array


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an input.

    Attributes:
        input: number of the input.
        value: the element.
        place: where it is in row-major order; negative: counted from the end.
    """

    input: int
    value: float
    place: int = -1

    def __str__(self) -> str:
        return f"{self.value} at place {self.place} of input {self.input}"

    def put_into(self, given: Array) -> Array:
        """Return the input with this element."""
        changed = given.copy()
        changed.reshape(-1)[self.place] = self.value
        return changed


RefusedElements: TypeAlias = "Callable[[OpCall], Iterator[Element]]"
"""Yields elements each of which ends the step of a call with the error ``out-of-range``; types that cannot hold one of
them have it left out."""


@dataclass(frozen=True, slots=True)
class RefusedCase:
    """A case, and elements each of which has to end it with an error."""

    case: Case
    elements: tuple[Element, ...]

    def __str__(self) -> str:
        return str(self.case)


def refused_case(case: Case) -> RefusedCase | None:
    """Return a case with the elements that it has no result for; None where there are none.

    Where a result has no element, none is checked.
    """
    rule: RefusedElements | None = known("REFUSED").get(case.call.op)
    if rule is None or case.target is not None or case.shapes == "large" or not all(o.count for o in case.call.outputs):
        return None
    fitting = tuple(element for element in rule(case.call) if _fits(element, case.call))
    return RefusedCase(case, fitting) if fitting else None


def past_the_ends(number: int, extent: int, *, place: int = -1) -> Iterator[Element]:
    """Yield the two indices next to those of a dim, of which negative ones count from its end."""
    yield Element(number, extent, place)
    yield Element(number, -extent - 1, place)


def _fits(element: Element, call: OpCall) -> bool:
    given = call.inputs[element.input] if element.input < len(call.inputs) else None
    return given is not None and bool(given.count) and _holds(given.dtype, element.value)


def _holds(dtype: DType, value: float) -> bool:
    if dtype.minimum is None or dtype.maximum is None:
        return dtype.is_float
    is_no_sign = dtype.name == "t1" and not value
    return dtype.minimum <= value <= dtype.maximum and value == int(value) and not is_no_sign
