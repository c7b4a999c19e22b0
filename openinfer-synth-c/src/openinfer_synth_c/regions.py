"""Accesses to regions of states as C: tests of the places first, then growth, then the elements."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from openinfer.plan.indices import constant
from openinfer.synth.c_host.integers import number_text
from openinfer_synth_c.integers import declare_integers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from openinfer.plan.regions import Axis, Growth, Region
    from openinfer.plan.steps import IndexExpr
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.names import Names


class RegionWriter:
    """Writes one access in braces of its own; `enter` comes first.

    Args:
        follows: whether the analyser Eva is to follow the access for each place where a range may start, up to `leave`.

    Attributes:
        lengths: C expressions of the lengths of the region's ranges.
        first: C expression of the first element.
    """

    def __init__(self, code: Code, names: Names, region: Region, *, follows: bool = False) -> None:
        self._follows = follows
        self._code = code
        self._names = names
        self._region = region
        self.lengths: list[str] = []
        self._strides: list[int] = []
        self._terms: list[str] = []
        self._ends: list[str] = []
        self._starts: list[str] = []

    @property
    def first(self) -> str:
        return " + ".join(self._terms) or "0"

    def enter(self, given: Sequence[IndexExpr] = ()) -> None:
        """Append the tests and the growth.

        Args:
            given: extents of a value that is stored; they have to be the lengths of the ranges.
        """
        for place, axis in enumerate(self._region.table):
            self._axis(axis, f"{place}")
        if not self._region.inner:
            self._fit(given, ())
        for place, growth in enumerate(self._region.growth):
            self._test_growth(f"grown{place}", growth)
        undo = self._grow(keeps_old=bool(given))
        for place, axis in enumerate(self._region.inner, len(self._region.table)):
            self._axis(axis, f"{place}")
        if self._region.inner:
            self._fit(given, undo)

    def _grow(self, *, keeps_old: bool) -> list[str]:
        """Append the growth; return the statements that take it back."""
        undo: list[str] = []
        for place, (register, reached, condition) in enumerate(self._reached()):
            if keeps_old and self._region.inner:
                self._code.line(f"const int64_t old{place} = {register};")
                undo.append(f"{register} = old{place};")
            with self._code.braces(f"if ({condition}{register} < {reached})"):
                self._code.line(f"{register} = {reached};")
        return undo

    def _reached(self) -> Iterator[tuple[str, str, str]]:
        """Yield registers, what they become if it is more, and when, as the beginning of a condition."""
        table = len([axis for axis in self._region.table if axis.end is not None])
        stores = "".join(f"{length} > 0 && " for length in self.lengths[:table] if not length.isdigit())
        is_empty = "0" in self.lengths[:table]
        for axis, reached in zip(self._region.table, self._ends, strict=True):
            if axis.grown is not None and not is_empty:
                yield self._names.register(axis.grown), reached, stores
        for place, growth in enumerate(self._region.growth):
            yield self._names.register(growth.register), f"grown{place}", ""

    def _axis(self, axis: Axis, suffix: str) -> None:
        certain = _known_range(axis)
        if certain is not None:
            first, end = certain
            self._term(number_text(first), axis.stride)
            self._ends.append(number_text(end))
            self.lengths.append(number_text(end - first))
            self._strides.append(axis.stride)
            return
        code, passed = self._code, "MODEL_LIMIT" if axis.is_bound else "MODEL_INDEX"
        start, size, known = f"at{suffix}", f"size{suffix}", constant(axis.size)
        needed = {start: axis.start} | ({} if axis.end is None else {f"written{suffix}": axis.end})
        if known is None:
            needed[size] = axis.size
        if axis.current is not None:
            needed[f"current{suffix}"] = axis.current
        declare_integers(code, self._names, needed, flag=f"overflow{suffix}")
        limit = size if known is None else number_text(known)
        if axis.end is None:
            code.line(f"if ({start} < 0) {{ return MODEL_INDEX; }}", f"if ({start} >= {limit}) {{ return {passed}; }}")
            self._term(start, axis.stride)
            self._ends.append(f"{start} + 1")
            return
        end = f"written{suffix}"
        if axis.current is not None:
            code.line(f"const int64_t end{suffix} = {end} < 0 ? {end} + current{suffix} : {end};")
            end = f"end{suffix}"
        late = ""
        starts_anywhere = known is not None and constant(axis.start) is None
        if starts_anywhere:
            # A start is never past an end that is not: it is said for analysers, and compilers leave it out.
            late = f" || {start} > {limit}"
        code.line(
            f"if ({start} < 0 || {end} < {start}) {{ return MODEL_INDEX; }}",
            f"if ({end} > {limit}{late}) {{ return {passed}; }}",
        )
        if starts_anywhere and self._follows:
            # Intervals alone do not say that a later start leaves fewer places.
            code.line(f"/*@ split {start}; */")
            self._starts.append(start)
        self._term(start, axis.stride)
        self._ends.append(end)
        self.lengths.append(f"({end} - {start})")
        self._strides.append(axis.stride)

    def leave(self) -> None:
        """Append the end of what the analyser Eva follows for each place where a range may start."""
        self._code.line(*(f"/*@ merge {start}; */" for start in reversed(self._starts)))

    def _term(self, start: str, stride: int) -> None:
        self._terms.append(start if stride == 1 else f"{start} * {stride}")

    def _fit(self, given: Sequence[IndexExpr], undo: Sequence[str]) -> None:
        """Append the tests that a value has the extents of the ranges; ``undo`` is done where it has not."""
        names = [f"given{place}" for place in range(len(given))]
        declare_integers(self._code, self._names, dict(zip(names, given, strict=True)), flag="given_overflow")
        for name, length in zip(names, self.lengths, strict=False):
            with self._code.braces(f"if ({name} != {length})"):
                self._code.line(*undo, "return MODEL_SHAPE;")

    def _test_growth(self, name: str, growth: Growth) -> None:
        declare_integers(self._code, self._names, {name: growth.value}, flag=f"{name}_overflow")
        self._code.line(
            f"if ({name} < 0) {{ return MODEL_INDEX; }}",
            f"if ({name} > {number_text(growth.limit)}) {{ return MODEL_LIMIT; }}",
        )

    def rows(self, state: str, item: str, action: str, value: str = "") -> None:
        """Append loops over the rows of the region, with an action on each.

        Args:
            state: pointer to the state's first element.
            item: C type of an element.
            action: C in which ``{place}`` is the first element of a row in the state, and ``row`` how many there are.
            value: declaration of a pointer ``value`` to the elements of a value, which goes from row to row.
        """
        code = self._code
        lengths, strides = self._row()
        code.line(f"{item} *const first = {state} + {self.first};")
        if value:
            code.line(value)
        with ExitStack() as stack:
            offset = ["first", *self._walked(stack, lengths, strides)]
            code.line(action.format(place=" + ".join(offset)))
            if value and len(offset) > 1:
                code.line("value += row;")

    def cells(self, action: Callable[[str, str], str]) -> None:
        """Append loops over the elements of the region, one by one: those of packed types have no address.

        ``action`` returns the statement for an element, from its place in the state and its number among the others.
        """
        code = self._code
        lengths, strides = self._row()
        code.line(f"const int64_t first = {self.first};", "size_t number = 0;")
        with ExitStack() as stack:
            offset = ["first", *self._walked(stack, lengths, strides)]
            with code.braces("for (size_t i = 0; i < row; ++i)"):
                code.line(action(f"(size_t)({' + '.join(offset)}) + i", "number"), "++number;")

    def _row(self) -> tuple[list[str], list[int]]:
        """Append how many elements lie in a row; return the lengths and strides of the loops over rows."""
        lengths, strides, row = list(self.lengths), list(self._strides), str(self._region.entry)
        if strides and strides[-1] == self._region.entry:
            length, _ = lengths.pop(), strides.pop()
            row = length if self._region.entry == 1 else f"{length} * {self._region.entry}"
        self._code.line(f"const size_t row = (size_t)({row});")
        return lengths, strides

    def _walked(self, stack: ExitStack, lengths: Sequence[str], strides: Sequence[int]) -> list[str]:
        """Open loops over rows; return the terms of where each begins."""
        offset: list[str] = []
        for place, (length, stride) in enumerate(zip(lengths, strides, strict=True)):
            stack.enter_context(self._code.braces(f"for (int64_t j{place} = 0; j{place} < {length}; ++j{place})"))
            offset.append(f"j{place} * {stride}")
        return offset


def _known_range(axis: Axis) -> tuple[int, int] | None:
    """Return a range that lies inside for certain: it needs no test, and steps without a status have none."""
    start, end, size = constant(axis.start), None if axis.end is None else constant(axis.end), constant(axis.size)
    if start is None or end is None or size is None or not 0 <= start <= end <= size:
        return None
    return start, end
