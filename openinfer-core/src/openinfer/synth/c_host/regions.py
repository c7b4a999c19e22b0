"""Accesses to regions of states as C: tests of the places first, then growth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.steps import Register
from openinfer.synth.c_host.annotations import write_merge, write_split
from openinfer.synth.c_host.integers import declare_integers, number_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Index
    from openinfer.plan.regions import Axis, Growth, Region
    from openinfer.synth.c_host.integers import IntegerOperands
    from openinfer.synth.c_host.lines import Lines


class RegionTests:
    """Writes the tests of one access in braces of its own; `enter` comes first.

    Args:
        follows: whether the analyser Eva is to follow the access for each place where a range may start, up to `leave`.

    Attributes:
        code, region: what it was made with.
        lengths: C expressions of the lengths of the region's ranges.
        strides: elements between their places.
        first: C expression of the first element.
    """

    def __init__(self, code: Lines, operands: IntegerOperands, region: Region, *, follows: bool = False) -> None:
        self._follows = follows
        self.code = code
        self._operands = operands
        self.region = region
        self.lengths: list[str] = []
        self.strides: list[int] = []
        self._terms: list[str] = []
        self._ends: list[str] = []
        self._starts: list[str] = []

    @property
    def first(self) -> str:
        return " + ".join(self._terms) or "0"

    def enter(self, given: Sequence[Index] = ()) -> None:
        """Append the tests and the growth.

        Args:
            given: extents of a value that is stored; they have to be the lengths of the ranges.
        """
        for place, axis in enumerate(self.region.table):
            self._axis(axis, f"{place}")
        if not self.region.inner:
            self._fit(given, ())
        for place, growth in enumerate(self.region.growth):
            self._test_growth(f"grown{place}", growth)
        undo = self._grow(keeps_old=bool(given))
        for place, axis in enumerate(self.region.inner, len(self.region.table)):
            self._axis(axis, f"{place}")
        if self.region.inner:
            self._fit(given, undo)

    def _grow(self, *, keeps_old: bool) -> list[str]:
        """Append the growth; return the statements that take it back."""
        undo: list[str] = []
        for place, (register, reached, condition) in enumerate(self._reached()):
            if keeps_old and self.region.inner:
                self.code.line(f"const int64_t old{place} = {register};")
                undo.append(f"{register} = old{place};")
            with self.code.braces(f"if ({condition}{register} < {reached})"):
                self.code.line(f"{register} = {reached};")
        return undo

    def _reached(self) -> Iterator[tuple[str, str, str]]:
        """Yield registers, what they become if it is more, and when, as the beginning of a condition."""
        table = len([axis for axis in self.region.table if axis.end is not None])
        stores = "".join(f"{length} > 0 && " for length in self.lengths[:table] if not length.isdigit())
        is_empty = "0" in self.lengths[:table]
        for axis, reached in zip(self.region.table, self._ends, strict=True):
            if axis.grown is not None and not is_empty:
                yield self._operands.place(Register(axis.grown)), reached, stores
        for place, growth in enumerate(self.region.growth):
            yield self._operands.place(Register(growth.register)), f"grown{place}", ""

    def _axis(self, axis: Axis, suffix: str) -> None:
        certain = _known_range(axis)
        if certain is not None:
            first, end = certain
            self._term(number_text(first), axis.stride)
            self._ends.append(number_text(end))
            self.lengths.append(number_text(end - first))
            self.strides.append(axis.stride)
            return
        code, passed = self.code, "MODEL_LIMIT" if axis.is_bound else "MODEL_INDEX"
        start, size, known = f"at{suffix}", f"size{suffix}", axis.size.constant
        needed = {start: axis.start} | ({} if axis.end is None else {f"written{suffix}": axis.end})
        if known is None:
            needed[size] = axis.size
        if axis.current is not None:
            needed[f"current{suffix}"] = axis.current
        declare_integers(code, self._operands, needed, flag=f"overflow{suffix}")
        limit = size if known is None else number_text(known)
        if axis.end is None:
            code.refuse(f"{start} < 0")
            code.refuse(f"{start} >= {limit}", passed)
            self._term(start, axis.stride)
            self._ends.append(f"{start} + 1")
            return
        end = f"written{suffix}"
        if axis.current is not None:
            code.line(f"const int64_t end{suffix} = {end} < 0 ? {end} + current{suffix} : {end};")
            end = f"end{suffix}"
        late = ""
        starts_anywhere = known is not None and axis.start.constant is None
        if starts_anywhere:
            # A start is never past an end that is not: it is said for analysers, and compilers leave it out.
            late = f" || {start} > {limit}"
        code.refuse(f"{start} < 0 || {end} < {start}")
        code.refuse(f"{end} > {limit}{late}", passed)
        if starts_anywhere and self._follows:
            # Intervals alone do not say that a later start leaves fewer places.
            write_split(code, [start])
            self._starts.append(start)
        self._term(start, axis.stride)
        self._ends.append(end)
        self.lengths.append(f"({end} - {start})")
        self.strides.append(axis.stride)

    def leave(self) -> None:
        """Append the end of what the analyser Eva follows for each place where a range may start."""
        write_merge(self.code, self._starts)

    def _term(self, start: str, stride: int) -> None:
        self._terms.append(start if stride == 1 else f"{start} * {stride}")

    def _fit(self, given: Sequence[Index], undo: Sequence[str]) -> None:
        """Append the tests that a value has the extents of the ranges; ``undo`` is done where it has not."""
        names = [f"given{place}" for place in range(len(given))]
        declare_integers(self.code, self._operands, dict(zip(names, given, strict=True)), flag="given_overflow")
        for name, length in zip(names, self.lengths, strict=False):
            with self.code.braces(f"if ({name} != {length})"):
                self.code.line(*undo, self.code.ending("MODEL_SHAPE"))

    def _test_growth(self, name: str, growth: Growth) -> None:
        declare_integers(self.code, self._operands, {name: growth.value}, flag=f"{name}_overflow")
        self.code.refuse(f"{name} < 0")
        self.code.refuse(f"{name} > {number_text(growth.limit)}", "MODEL_LIMIT")


def _known_range(axis: Axis) -> tuple[int, int] | None:
    """Return a range that lies inside for certain: it needs no test, and steps without a status have none."""
    start, end, size = axis.start.constant, None if axis.end is None else axis.end.constant, axis.size.constant
    if start is None or end is None or size is None or not 0 <= start <= end <= size:
        return None
    return start, end
