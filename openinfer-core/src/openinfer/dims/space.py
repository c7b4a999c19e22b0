"""The sizes of a program, and every way through a rule that is run on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from openinfer.affine import FACTS, Index, Interval, Var
from openinfer.dims.asking import CURRENT, MANNER, Manner, UndecidedError
from openinfer.dims.condition import Condition, Relation
from openinfer.dims.dim import Dim, Size, made
from openinfer.dims.errors import NeedsNumberError
from openinfer.dims.knowledge import Knowledge
from openinfer.dims.lets import Signed, sources
from openinfer.errors import OpenInferError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Result = TypeVar("_Result")

_FAR = 1 << 63
"""No size is larger."""

MOST_PATHS = 400
"""Ways through one rule: those of the catalogue have at most 96, and each runs the rule once."""


@dataclass(frozen=True, slots=True)
class Path(Generic[_Result]):
    """One way through a rule: what it yields, or raises, where its guards hold.

    Attributes:
        guards: the answers that were followed, in the order in which they were needed.
        choices: those of them that tell forms apart, as `openinfer.dims.one_of` asks.
        value: the result; None where the rule raises.
        error: what the rule raises.
        knowledge: what is certain on this way.
    """

    guards: tuple[Condition, ...]
    choices: frozenset[Condition]
    value: _Result | None
    error: Exception | None
    knowledge: Knowledge

    def is_taken(self, values: Mapping[str, int]) -> bool:
        """Return whether the rule goes this way at these sizes."""
        return all(guard.holds(values) for guard in self.guards)


class Space:
    """Sizes that are known at run time only, with bounds and facts about them.

    Args:
        answers_outside: whether sizes are equal outside of rules where that is certain, and else unequal. Other open
            questions, such as which of two is larger, raise `NeedsNumberError` there.
        joins: whether extents that broadcast are one size where it is open which of them is 1; else each answer is
            followed, as by importers, which write a shape for each.
    """

    def __init__(self, *, answers_outside: bool = False, joins: bool = False) -> None:
        self._answers_outside = answers_outside
        self.joins = joins
        self._bounds: dict[str, Interval] = {}
        self._facts: list[Condition] = []
        self._start_path(())

    def size(self, name: str, low: int | None = 0, high: int | None = None) -> Dim:
        """Return the size of a name, with its least and largest value; None: no bound on that side.

        Raises:
            ValueError: a rule runs that may have relied on other bounds.
        """
        bounds = Interval(low, high)
        if self._bounds.get(name) != bounds:
            if name in self._bounds:
                self._refuse_within_rule(f"the bounds of {name} change")
            self._bounds[name] = bounds
            if CURRENT.get() is self:
                self._knowledge.declare(name, bounds)
            else:
                self._start_path(())
        return self.named(name)

    def named(self, name: str) -> Dim:
        """Return a size that was named before."""
        low = self._bounds[name].low
        symbol = Var(name) if low is not None and low >= 0 else Signed(name)
        return Dim(Index.of(symbol), self)

    def dim(self, index: Index) -> Size:
        """Return an index over sizes that were named before: a number where it is constant."""
        return made(index, self)

    def assume(self, condition: Condition) -> None:
        """Take in a fact about sizes that every run may rely on.

        Raises:
            ValueError: a rule runs, which may have followed another answer.
        """
        self._refuse_within_rule(f"`{condition}` is assumed")
        self._facts.append(condition)
        self._start_path(())

    @property
    def facts(self) -> tuple[Condition, ...]:
        """What every run relies on beyond the bounds of sizes."""
        return tuple(self._facts)

    def declared(self, name: str) -> Interval:
        """Return the least and the largest value that a size was named with."""
        return self._bounds[name]

    def certain(self, condition: Condition) -> bool | None:
        """Return whether a condition holds, or None where that is open."""
        return self._knowledge.certain(condition)

    def bounds(self, index: Index) -> Interval:
        """Return the interval of an index that bounds of its symbols give."""
        return self._knowledge.interval(index)

    @property
    def guards(self) -> tuple[Condition, ...]:
        """The answers that the way in progress followed up to here."""
        return tuple(self._guards)

    @property
    def choices(self) -> frozenset[Condition]:
        """Those of the guards that tell forms apart."""
        return frozenset(self._choices)

    def solutions(self) -> Mapping[Var, Index]:
        """Return the sizes that the guards of the way in progress determine, each by sizes that remain."""
        return self._knowledge.solutions()

    def is_never_negative(self, index: Index) -> bool:
        """Return whether an index over sizes is at least 0 for certain."""
        return self._knowledge.is_never_negative(index)

    def largest(self, index: Index) -> int | None:
        """Return the largest value of an index that is certain, or None: the exact one of a polynomial."""
        corners = self._knowledge.corners(index)
        if corners is not None and not self._knowledge.limits(index):
            return max(corners)
        high = self._knowledge.interval(index).high
        low, end = -1, _FAR if high is None else high
        # Most often nothing below the end of the interval is certain: one proof shows that, a search takes dozens.
        if not self.is_never_negative(Index.of(end - 1) - index):
            low = end
        while low < end:
            middle = (low + end) // 2
            if self.is_never_negative(Index.of(middle) - index):
                end = middle
            else:
                low = middle + 1
        return None if end == _FAR else end

    def decide(self, condition: Condition) -> bool:
        """Return the answer to a question: the certain one, that of the manner, or the one that `followed` returns.

        Raises:
            UndecidedError, NeedsNumberError: as `followed` does.
        """
        answer = self._knowledge.certain(condition)
        if answer is None:
            answer = self._answer_of_manner(condition)
        return self.followed(condition) if answer is None else answer

    def chosen(self, condition: Condition) -> bool:
        """Return the answer that `decide` returns, and note that each answer has a form of its own."""
        followed = len(self._guards)
        answer = self.decide(condition)
        self._choices.update(self._guards[followed:])
        return answer

    def _answer_of_manner(self, condition: Condition) -> bool | None:
        """Return the answer to an open question that is neither followed nor an error; None: there is none."""
        if MANNER.get() is Manner.ANSWER_NO:
            return False
        is_equation = condition.relation is not Relation.AT_LEAST
        is_outside = self._answers_outside and CURRENT.get() is None and MANNER.get() is Manner.FOLLOW
        return condition.relation is Relation.UNEQUAL if is_outside and is_equation else None

    def followed(self, condition: Condition) -> bool:
        """Return the answer to a question on which a value depends: the certain one, or that of the way in progress.

        Raises:
            UndecidedError: the answer is open, and `openinfer.dims.surely` asks.
            NeedsNumberError: the answer is open, and no rule runs that could follow both.
        """
        answer = self._knowledge.certain(condition)
        if answer is not None:
            return answer
        if MANNER.get() is Manner.PROVE:
            raise UndecidedError
        if CURRENT.get() is not self or MANNER.get() is not Manner.FOLLOW:
            message = f"whether `{condition}` is known at run time only"
            raise NeedsNumberError(message, sizes=sources(condition.index))
        number = len(self._answers)
        answer = self._chosen[number] if number < len(self._chosen) else True
        self._answers.append(answer)
        guard = condition if answer else condition.negated()
        self._guards.append(guard)
        self._knowledge.assume(guard)
        return answer

    def explore(
        self,
        rule: Callable[[], _Result],
        errors: tuple[type[Exception], ...] = (OpenInferError, ArithmeticError),
    ) -> list[Path[_Result]]:
        """Run a rule once for every way through its questions.

        The guards of exactly one path hold at any sizes, and its value is what the rule yields there.

        Args:
            errors: what the rule raises on purpose, which is the outcome of a path.

        Raises:
            NeedsNumberError: the rule needs the number of a size, or there are more than `MOST_PATHS` ways.
            ValueError: another rule runs on the sizes of this space.
        """
        self._refuse_within_rule("another rule is explored")
        paths: list[Path[_Result]] = []
        waiting: list[tuple[bool, ...]] = [()]
        try:
            while waiting:
                if len(paths) == MOST_PATHS:
                    raise NeedsNumberError(f"there are more than {MOST_PATHS} ways through the rule")
                chosen = waiting.pop()
                paths.append(self._path(rule, chosen, errors))
                answers = tuple(self._answers)
                waiting += [(*answers[:number], not answers[number]) for number in range(len(chosen), len(answers))]
        finally:
            # Guards of the last path hold in that path alone.
            self._start_path(())
        return paths

    def _path(
        self, rule: Callable[[], _Result], chosen: tuple[bool, ...], errors: tuple[type[Exception], ...]
    ) -> Path[_Result]:
        self._start_path(chosen)
        token, facts = CURRENT.set(self), FACTS.set(self._knowledge)
        try:
            value, error = rule(), None
        except NeedsNumberError:
            raise
        except errors as raised:
            value, error = None, raised
        finally:
            CURRENT.reset(token)
            FACTS.reset(facts)
        return Path(self.guards, self.choices, value, error, self._knowledge)

    def _refuse_within_rule(self, change: str) -> None:
        """Raise `ValueError` within a rule: every way through it relies on the same bounds and facts."""
        if CURRENT.get() is self:
            raise ValueError(f"{change} within a rule that `Space.explore` runs on the same sizes: do it before")

    def _start_path(self, chosen: tuple[bool, ...]) -> None:
        self._knowledge = Knowledge(self._bounds)
        for fact in self._facts:
            self._knowledge.assume(fact)
        self._chosen = chosen
        self._answers: list[bool] = []
        self._guards: list[Condition] = []
        self._choices: set[Condition] = set()
