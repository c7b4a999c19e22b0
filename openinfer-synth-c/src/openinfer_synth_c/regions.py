"""Accesses to regions of states as C: the elements, after the tests of their places."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from openinfer.synth.c_host.regions import RegionTests
from openinfer_synth_c.integers import operands_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.plan.regions import Region
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.names import Names


class RegionWriter(RegionTests):
    """Writes one access in braces of its own; `enter` comes first."""

    def __init__(self, code: Code, names: Names, region: Region, *, follows: bool = False) -> None:
        super().__init__(code, operands_of(code, names), region, follows=follows)

    def rows(self, state: str, item: str, action: str, value: str = "") -> None:
        """Append loops over the rows of the region, with an action on each.

        Args:
            state: pointer to the state's first element.
            item: C type of an element.
            action: C in which ``{place}`` is the first element of a row in the state, ``row`` how many there are, and
                ``{value}`` the first element of as many of a value.
            value: declaration of a pointer ``value`` to the elements of the value.
        """
        code = self.code
        lengths, strides = self._row()
        code.line(f"{item} *const first = {state} + {self.first};")
        if value:
            code.line(value)
        with ExitStack() as stack:
            if len(lengths) < len(self.lengths) and not self.lengths[-1].isdigit():
                # Functions of the C library need a valid pointer for 0 bytes too; past the last entry there is none.
                stack.enter_context(code.braces("if (row > 0)"))
            offset = ["first", *self._walked(stack, lengths, strides)]
            # The number of a row is computed: analysers cannot bound a counter.
            code.line(action.format(place=" + ".join(offset), value=_after_rows("value", lengths)))

    def cells(self, action: Callable[[str, str], str]) -> None:
        """Append loops over the elements of the region, one by one: those of packed types have no address.

        ``action`` returns the statement for an element, from its place in the state and its number among the others.
        """
        code = self.code
        lengths, strides = self._row()
        code.line(f"const int64_t first = {self.first};")
        with ExitStack() as stack:
            offset = ["first", *self._walked(stack, lengths, strides)]
            with code.braces("for (size_t i = 0; i < row; ++i)"):
                code.line(action(f"(size_t)({' + '.join(offset)}) + i", _after_rows("i", lengths)))

    def _row(self) -> tuple[list[str], list[int]]:
        """Append how many elements lie in a row; return the lengths and strides of the loops over rows."""
        lengths, strides, row = list(self.lengths), list(self.strides), str(self.region.entry)
        if strides and strides[-1] == self.region.entry:
            length, _ = lengths.pop(), strides.pop()
            row = length if self.region.entry == 1 else f"{length} * {self.region.entry}"
        self.code.line(f"const size_t row = (size_t)({row});")
        return lengths, strides

    def _walked(self, stack: ExitStack, lengths: Sequence[str], strides: Sequence[int]) -> list[str]:
        """Open loops over rows; return the terms of where each begins."""
        offset: list[str] = []
        for place, (length, stride) in enumerate(zip(lengths, strides, strict=True)):
            stack.enter_context(self.code.braces(f"for (int64_t j{place} = 0; j{place} < {length}; ++j{place})"))
            offset.append(f"j{place} * {stride}")
        return offset


def _after_rows(value: str, lengths: Sequence[str]) -> str:
    """Return where a value goes on within loops over its rows."""
    number = ""
    for place, length in enumerate(lengths):
        number = f"({number}) * {length} + j{place}" if number else f"j{place}"
    if not number:
        return value
    return f"{value} + (size_t){number if number == 'j0' else f'({number})'} * row"
