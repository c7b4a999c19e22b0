"""Statements that repeat with other constants, written as short loops that compilers unroll.

A tile of a schedule is many statements that differ in numbers only: those of totals, and the distances of what is
loaded and stored. A run of them whose numbers count up in equal steps becomes a loop of constant length, and its totals
an array. Compilers unroll such loops before they place arrays in registers, and then make the same code as of the
statements. Statements with conditions stay as they are (`rolled_loops`).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from openinfer_synth_c.counting_statements import (
    COUNTER,
    TOTAL,
    Statement,
    counted,
    counting_text,
    is_plain,
    same_names,
    statements_of,
    uses,
)
from openinfer_synth_c.rolled_loops import condition_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

UNROLLED = "UNROLLED"
"""The macro before the head of such a loop."""

DEFINITION = """\
/* Has compilers unroll a short loop, so that they can keep the array that it counts through in registers. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__) && __GNUC__ >= 8 && defined(__OPTIMIZE__)
#define UNROLLED _Pragma("GCC unroll 64")
#else
#define UNROLLED
#endif
"""

_FEWEST, _MOST = 3, 64
"""Iterations: as many as are worth a loop, and as the macro unrolls."""

_LONGEST = 24
"""Statements in the body of a loop."""

_LEAST_SAVED = 300
"""Characters by which the statements must be longer than those of one iteration, for a loop to be easier to read."""

_LONGEST_LINE = 120
"""Characters of a loop that is on one line."""

_LIST = re.compile(r"\s*(?:\w+ total\d+,|total\d+ = total\d+ =)")
_DECLARED = re.compile(r"(\s*)(\w+) (total\d+(?:, total\d+)+);")
_ASSIGNED = re.compile(r"(\s*)((?:total\d+ = ){2,})(.*);")
_REPLACED = re.compile(r"\s*total\d+ = \w+\(")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class _Run:
    """Statements from ``start`` on, of which each ``period`` are one of the iterations of a loop."""

    start: int
    period: int
    iterations: int
    saved: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.iterations


def definition(lines: Iterable[str]) -> str:
    """Return the definition of the macro, or nothing where lines do not need it."""
    return DEFINITION if any(line.lstrip().startswith(f"{UNROLLED} ") for line in lines) else ""


def with_loops(lines: Iterable[str], helpers: Iterable[str], *, has_vector_types: bool) -> list[str]:
    """Return the lines of a function, in which statements that repeat are loops.

    Args:
        helpers: functions of the renderer that the lines may call; those with conditions in them are not repeated.
        has_vector_types: whether totals have vector types. GCC keeps an array of those of plain C99 in registers only
            where no condition is around what adds to them, they are not assigned to as a whole, and statements next to
            each other use one under the same index.
    """
    statements = list(_whole_lists(lines))
    has_condition = condition_in(helpers)
    apart = set[int]() if has_vector_types else set(_apart_in_plain_c(statements))
    while True:
        repeats = _Repeats(statements, apart)
        found: list[str] = []
        for indent, group in groupby(statements, lambda text: _indent_of_plain(text, has_condition)):
            block = list(group)
            found += block if indent is None else repeats.block(block, indent)
        if has_vector_types or not repeats.mixed:
            return [line for text in repeats.with_arrays(found) for line in text.split("\n")]
        apart |= repeats.mixed


def _whole_lists(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines; a list of totals on several lines is one, with the ends of lines in it."""
    begun: list[str] = []
    for line in lines:
        if begun or _LIST.match(line):
            begun.append(line)
            if line.endswith(";"):
                yield "\n".join(begun)
                begun = []
        else:
            yield line


def _indent_of_plain(text: str, has_condition: Callable[[str], bool]) -> str | None:
    """Return the indentation of a statement that loops may repeat; None: it is something else."""
    if not is_plain(text) or _ASSIGNED.fullmatch(text) or has_condition(text):
        return None
    return text[: len(text) - len(text.lstrip())]


class _Repeats:
    """The repeated statements of one function.

    Args:
        apart: totals that may not be elements of arrays.

    Attributes:
        mixed: totals that statements next to each other use under different indices.
    """

    def __init__(self, statements: Sequence[str], apart: set[int]) -> None:
        self.mixed: set[int] = set()
        self._indices: dict[int, str] = {}
        self._uses = Counter(word for text in statements for word in _WORD.findall(text))
        firsts = dict(_first_totals(statements))
        alone = {firsts[number] for number in apart if number in firsts}
        self._first = {number: first for number, first in firsts.items() if first not in alone}
        self._counts = Counter(self._first.values())
        self._arrays: set[int] = set()

    def block(self, texts: Sequence[str], indent: str) -> list[str]:
        """Return statements next to each other, with loops for those that repeat."""
        self._indices = {}
        return list(self._written(statements_of(texts, self._first), indent))

    def with_arrays(self, statements: Iterable[str]) -> Iterator[str]:
        """Yield statements with arrays in place of the totals that loops count through."""
        for text in statements:
            flat = " ".join(part.strip() for part in text.split("\n"))
            indent = text[: len(text) - len(text.lstrip())]
            declared, assigned = _DECLARED.fullmatch(flat), _ASSIGNED.fullmatch(flat)
            listed = declared[3] if declared else assigned[2] if assigned else ""
            numbers = [int(number) for number in TOTAL.findall(listed)]
            is_array = self._is_array(numbers)
            if is_array and declared is not None:
                # Analysers see that all of it is set; compilers remove what nothing reads.
                yield f"{indent}{declared[2]} total{numbers[0]}[{len(numbers)}] = {{0}};"
            elif is_array and assigned is not None:
                value = self._with_elements(assigned[3])
                yield f"{indent}{_loop(len(numbers))} {{ total{numbers[0]}[{COUNTER}] = {value}; }}"
            else:
                yield self._with_elements(text)

    def _is_array(self, numbers: Sequence[int]) -> bool:
        """Return whether totals are all of an array."""
        return bool(numbers) and numbers[0] in self._arrays and len(numbers) == self._counts[numbers[0]]

    def _with_elements(self, text: str) -> str:
        """Return a text with elements of arrays in place of their totals."""
        return TOTAL.sub(lambda found: self._element(int(found[1])), text)

    def _element(self, number: int) -> str:
        first = self._first.get(number)
        return f"total{number}" if first not in self._arrays else f"total{first}[{number - first}]"

    # --- Runs ---------------------------------------------------------------------------------------------------

    def _written(self, statements: Sequence[Statement], indent: str) -> Iterator[str]:
        run = self._best(statements)
        if run is None:
            for statement in statements:
                self._use(statement, statement, 1)
                yield statement.text
            return
        yield from self._written(statements[: run.start], indent)
        yield from self._loop(statements, run, indent)
        yield from self._written(statements[run.end :], indent)

    def _best(self, statements: Sequence[Statement]) -> _Run | None:
        """Return the run whose loop saves most, the first of several."""
        best: _Run | None = None
        sizes = list(accumulate((len(each.text) + 1 for each in statements), initial=0))
        for period in range(1, min(_LONGEST, len(statements) // _FEWEST) + 1):
            for start in range(len(statements) - period * _FEWEST + 1):
                if statements[start].shape != statements[start + period].shape:
                    continue
                count = self._iterations(statements, start, period)
                if count < _FEWEST:
                    continue
                end = start + count * period
                saved = sizes[end - period] - sizes[start]
                if saved > (best.saved if best else _LEAST_SAVED):
                    best = _Run(start, period, count, saved)
        return best

    def _iterations(self, statements: Sequence[Statement], start: int, period: int) -> int:
        """Return how many iterations of a loop the statements from one on are."""
        first, count = statements[start : start + period], 1
        second = statements[start + period : start + 2 * period]
        if not self._are_alone(first):
            return 1
        while count < _MOST:
            at = start + count * period
            iteration = statements[at : at + period]
            if len(iteration) < period or not self._is_iteration(first, second, iteration, count):
                break
            count += 1
        return count

    def _is_iteration(
        self,
        first: Sequence[Statement],
        second: Sequence[Statement],
        iteration: Sequence[Statement],
        number: int,
    ) -> bool:
        return (
            all(a.shape == b.shape for a, b in zip(first, iteration, strict=True))
            and all(map(self._count_up, first, second, iteration, [number] * len(first)))
            and same_names(first, iteration)
            and self._are_alone(iteration)
        )

    def _count_up(self, first: Statement, second: Statement, statement: Statement, number: int) -> bool:
        for a, b, c in zip(first.numbers, second.numbers, statement.numbers, strict=True):
            step = b.value - a.value
            if c.value != a.value + number * step or step < 0 or (step and not a.counts):
                return False
            if a.total and self._first[a.value] != self._first[c.value]:
                return False
        return True

    def _are_alone(self, iteration: Sequence[Statement]) -> bool:
        """Return whether only an iteration itself uses the constants that it declares."""
        used = uses(iteration)
        return all(used[each.constant] == self._uses[each.constant] for each in iteration if each.constant)

    def _loop(self, statements: Sequence[Statement], run: _Run, indent: str) -> Iterator[str]:
        first = statements[run.start : run.start + run.period]
        second = statements[run.start + run.period : run.start + 2 * run.period]
        for a, b in zip(first, second, strict=True):
            self._use(a, b, run.iterations)
        body = [counting_text(a, b, self._total) for a, b in zip(first, second, strict=True)]
        alone = f"{indent}{_loop(run.iterations)} {{ {body[0]} }}"
        if len(body) == 1 and len(alone) <= _LONGEST_LINE:
            yield alone
            return
        yield f"{indent}{_loop(run.iterations)} {{"
        yield from (f"{indent}    {text}" for text in body)
        yield f"{indent}}}"

    def _use(self, first: Statement, second: Statement, count: int) -> None:
        """Note the indices of the totals that a statement uses in so many iterations."""
        for a, b in zip(first.numbers, second.numbers, strict=True):
            step = b.value - a.value
            index = f"{a.value} {step} {count}" if step else ""
            for number in range(a.value, a.value + max(count * step, 1), max(step, 1)) if a.total else ():
                if self._indices.setdefault(number, index) != index:
                    self.mixed.add(number)

    def _total(self, number: int, step: int) -> str:
        if step == 0:
            return f"total{number}"
        first = self._first[number]
        self._arrays.add(first)
        return f"total{first}[{counted(number - first, step)}]"


def _loop(count: int) -> str:
    return f"{UNROLLED} for (ptrdiff_t {COUNTER} = 0; {COUNTER} < {count}; ++{COUNTER})"


def _first_totals(statements: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of totals that a statement declares together, each with the first of them."""
    for text in statements:
        declared = _DECLARED.fullmatch(" ".join(part.strip() for part in text.split("\n")))
        if declared is None:
            continue
        numbers = [int(number) for number in TOTAL.findall(declared[3])]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))) and len(numbers) <= _MOST:
            yield from ((number, numbers[0]) for number in numbers)


def _apart_in_plain_c(statements: Iterable[str]) -> Iterator[int]:
    """Yield the totals in the braces of conditions, and those that statements assign to for themselves."""
    opened: list[bool] = []
    for text in statements:
        if any(opened) or _REPLACED.match(text):
            yield from (int(number) for number in TOTAL.findall(text))
        if text.strip() == "}":
            opened.pop()
        elif text.endswith("{"):
            opened.append(text.lstrip().startswith("if ("))
