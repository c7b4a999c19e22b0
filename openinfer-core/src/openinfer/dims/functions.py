"""Functions of integers that take sizes as well: ``max``, ``min``, ``range``, ``slice``, and how to ask."""

from __future__ import annotations

import builtins
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from openinfer.affine import Index
from openinfer.dims.asking import CURRENT, MANNER, Manner, UndecidedError
from openinfer.dims.condition import Condition, Relation
from openinfer.dims.dim import Dim, index_of, made
from openinfer.dims.errors import NeedsNumberError
from openinfer.dims.lets import Let, LetKind, sources

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from openinfer.dims.asking import Asked


def max(*items: Any, default: Any = None) -> Any:  # noqa: A001
    """Return the largest integer of some, or of one iterable."""
    return _extreme(items, default, LetKind.MAX)


def min(*items: Any, default: Any = None) -> Any:  # noqa: A001
    """Return the smallest integer of some, or of one iterable."""
    return _extreme(items, default, LetKind.MIN)


def _extreme(items: tuple[Any, ...], default: Any, kind: LetKind) -> Any:
    values: list[Any] = list(items[0]) if len(items) == 1 else list(items)
    if not values and default is not None:
        return default
    asked = _asked(values)
    if asked is None:
        return builtins.max(values) if kind is LetKind.MAX else builtins.min(values)
    extreme = values[0]
    for value in values[1:]:
        extreme = _extreme_of_two(extreme, value, kind, asked)
    return extreme


def _extreme_of_two(left: Any, right: Any, kind: LetKind, asked: Asked) -> Any:
    first, second = index_of(left), index_of(right)
    if asked.certain(Condition(first - second, Relation.AT_LEAST)):
        return left if kind is LetKind.MAX else right
    if asked.certain(Condition(second - first, Relation.AT_LEAST)):
        return right if kind is LetKind.MAX else left
    return made(Index.of(Let.of(kind, first, second)), asked)


def from_end(place: Any, extent: Any) -> Any:
    """Return a place, counted from the end of an extent where it is negative."""
    asked = _asked((place, extent))
    if asked is None:
        return place + extent if place < 0 else place
    index = index_of(place)
    is_counted_from_start = asked.certain(Condition(index, Relation.AT_LEAST))
    if is_counted_from_start is not None:
        return place if is_counted_from_start else place + extent
    return made(Index.of(Let.of(LetKind.FROM_END, index, index_of(extent))), asked)


def one_of(size: Any, numbers: Iterable[int]) -> int:
    """Return the number that a size is, of some in ascending order: each is a way, and so a form, of its own.

    Raises:
        NeedsNumberError: it may be another number.
    """
    if type(size) is not Dim:
        return size
    for number in numbers:
        if size.asked.chosen(Condition(size.index - number, Relation.EQUAL)):
            return number
    raise NeedsNumberError(f"`{size}` is known at run time only", sizes=sources(size.index))


def size_of(index: Index) -> Any:
    """Return an index over the sizes of the rule in progress as a size, a number where it is constant.

    Raises:
        ValueError: it is not constant, and no rule runs on sizes.
    """
    asked, constant = CURRENT.get(), index.constant
    if constant is not None:
        return constant
    if asked is None:
        raise ValueError(f"`{index}` is a size of a rule that `Space.explore` runs")
    return made(index, asked)


def surely(question: Callable[[], Any]) -> bool:
    """Return whether a question is certainly true, without following an answer: for choices between equal forms."""
    with _in_manner(Manner.PROVE):
        try:
            return bool(question())
        except UndecidedError:
            return False


@contextmanager
def unasked() -> Generator[None]:
    """Answer open questions with no, and note none: while a message is written, say."""
    with _in_manner(Manner.ANSWER_NO):
        yield


@contextmanager
def _in_manner(manner: Manner) -> Generator[None]:
    token = MANNER.set(manner)
    try:
        yield
    finally:
        MANNER.reset(token)


def length(items: Any) -> Any:
    """Return the length of a `range` or of a sequence; ``len`` itself accepts numbers only."""
    return items.count if type(items) is range else len(items)


class range:  # noqa: A001, N801
    """``range`` with ends that may be sizes; of numbers it is Python's own."""

    def __new__(cls, *ends: Any) -> Any:
        return super().__new__(cls) if _asked(ends) else builtins.range(*ends)

    start: Any
    stop: Any
    step: Any

    def __init__(self, *ends: Any) -> None:
        self.start, self.stop, self.step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
        if _is_zero(self.step):
            raise ValueError("range() arg 3 must not be zero")

    @property
    def count(self) -> Any:
        """How many places there are."""
        if self.step > 0:
            return max(-(-(self.stop - self.start) // self.step), 0)
        return max(-(-(self.start - self.stop) // -self.step), 0)

    def __bool__(self) -> bool:
        return bool(self.count)

    def __getitem__(self, item: Any) -> Any:
        if item == builtins.slice(None, None, -1):
            last = self.start + (self.count - 1) * self.step
            return range(last, self.start - self.step, -self.step)
        if item in (0, -1):
            if _is_zero(self.count):
                raise IndexError("range object index out of range")
            return self.start if item == 0 else self.start + (self.count - 1) * self.step
        raise self._needs_number(f"place {item}")

    def __len__(self) -> int:
        raise self._needs_number("the length")

    def __iter__(self) -> NoReturn:
        raise self._needs_number("each place")

    def __contains__(self, place: object) -> bool:
        raise self._needs_number(f"whether {place} is a place")

    def _needs_number(self, what: str) -> NeedsNumberError:
        ends = [index_of(end) for end in (self.start, self.stop, self.step)]
        text = f"range({', '.join(map(str, ends))})"
        return NeedsNumberError(
            f"{what} of `{text}` is known at run time only", sizes=frozenset[str]().union(*map(sources, ends))
        )


class slice:  # noqa: A001, N801
    """``slice`` with places that may be sizes."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self._ends = (start, stop, step)

    def indices(self, extent: Any) -> tuple[Any, Any, Any]:
        """Return (start, stop, step) for a sequence of this length, as Python's ``slice.indices`` does.

        Raises:
            ValueError: the step is 0, or the length is negative.
        """
        start, stop, step = self._ends
        if _asked((*self._ends, extent)) is None:
            return builtins.slice(start, stop, step).indices(extent)
        step = 1 if step is None else step
        if _is_zero(step):
            raise ValueError("slice step cannot be zero")
        if extent < 0:
            raise ValueError("length should not be negative")
        low, high = (0, extent) if step > 0 else (-1, extent - 1)
        ends = (low, high) if step > 0 else (high, low)
        first, last = (
            end if place is None else min(max(from_end(place, extent), low), high)
            for place, end in zip((start, stop), ends, strict=True)
        )
        return first, last, step


def _is_zero(size: Any) -> bool:
    """Return whether a size is 0, where an error depends on the answer."""
    return size.asked.followed(Condition(size.index, Relation.EQUAL)) if type(size) is Dim else size == 0


def _asked(values: Iterable[Any]) -> Asked | None:
    """Return who answers for the first size among some integers; None: all are numbers."""
    return next((value.asked for value in values if type(value) is Dim), None)
