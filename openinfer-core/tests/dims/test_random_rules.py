"""Random rules accept the same sizes as symbols and as numbers, with equal values, also at sizes of 31 bits."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from openinfer import dims
from openinfer.dims import Condition, Dim, NeedsNumberError, Relation, Space, index_of

LARGEST = (1 << 31) - 1
BOUNDS = {"T": (0, LARGEST), "U": (0, LARGEST), "N": (1, LARGEST), "p": (-LARGEST, LARGEST)}
ERRORS = (ZeroDivisionError, ValueError, IndexError)

Sizes = Mapping[str, Any]
Rule = Callable[[Sizes], Any]

ORDERS = (operator.lt, operator.le, operator.gt, operator.ge)
EQUATIONS = (operator.eq, operator.ne)
OPERATORS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.add,
    operator.sub,
    operator.mul,
    lambda left, right: left // right,
    operator.mod,
    dims.max,
    dims.min,
    dims.from_end,
    lambda left, right: abs(left - right),
    lambda left, right: dims.length(dims.range(left, right)),
    lambda left, right: dims.length(dims.range(0, left, right)),
    lambda left, right: dims.length(dims.range(*dims.slice(left, right, None).indices(5))),
    lambda left, right: dims.slice(None, left, -1).indices(right)[1],
    lambda left, right: dims.range(left, right)[-1],
)


def values() -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from((0, 1, 2, LARGEST)), st.integers(0, 6), st.integers(0, LARGEST))


@st.composite
def bindings(draw: st.DrawFn) -> dict[str, int]:
    """Return sizes within their bounds, some of which are often equal."""
    shared = draw(values())
    numbers = {name: draw(st.one_of(st.just(shared), values())) for name in BOUNDS}
    return numbers | {"N": max(numbers["N"], 1), "p": draw(st.sampled_from((1, -1))) * numbers["p"]}


@st.composite
def rules(draw: st.DrawFn, comparisons: Sequence[Callable[[Any, Any], bool]], depth: int = 2) -> Rule:
    """Return a function of sizes with conditions, errors, quotients, places and extremes within one another."""
    kind = draw(st.sampled_from(("leaf", "operator", "operator", "choice", "error"))) if depth else "leaf"
    if kind == "leaf":
        leaf = draw(st.one_of(st.integers(-3, 7), st.sampled_from(tuple(BOUNDS))))
        return lambda sizes: sizes[leaf] if isinstance(leaf, str) else leaf
    first, second = draw(rules(comparisons, depth - 1)), draw(rules(comparisons, depth - 1))
    if kind == "operator":
        function = draw(st.sampled_from(OPERATORS))
        return lambda sizes: function(first(sizes), second(sizes))
    compare = draw(st.sampled_from(comparisons))
    left, right = draw(rules(comparisons, depth - 1)), draw(rules(comparisons, 0))

    def chosen(sizes: Sizes) -> Any:
        if compare(left(sizes), right(sizes)):
            return first(sizes)
        if kind == "error":
            raise ValueError("refused")
        return second(sizes)

    return chosen


def space_of_sizes(*, answers_outside: bool = False) -> tuple[Space, dict[str, Any]]:
    space = Space(answers_outside=answers_outside)
    return space, {name: space.size(name, *bounds) for name, bounds in BOUNDS.items()}


def on_numbers(rule: Rule, numbers: Sizes) -> object:
    try:
        return rule(numbers)
    except ERRORS as error:
        return type(error)
    except OverflowError:
        return reject()  # Python's own ranges have no length above 63 bits.


def number(value: Any, numbers: Mapping[str, int]) -> int:
    return value.at(numbers) if type(value) is Dim else value


@settings(deadline=None)
@given(rules((*ORDERS, *EQUATIONS)), st.lists(bindings(), min_size=1, max_size=8))
def test_a_random_rule_accepts_sizes_as_it_does_numbers(rule: Rule, cases: list[dict[str, int]]) -> None:
    space, sizes = space_of_sizes()
    try:
        paths = space.explore(lambda: rule(sizes), ERRORS)
    except NeedsNumberError:
        return  # There are too many ways.
    for numbers in cases:
        (taken,) = (path for path in paths if path.is_taken(numbers))
        yielded = number(taken.value, numbers) if taken.error is None else type(taken.error)
        assert yielded == on_numbers(rule, numbers)
        assert all(condition.holds(numbers) for condition in taken.knowledge.conditions)


@settings(deadline=None)
@given(rules((*ORDERS, *EQUATIONS)), rules(ORDERS), st.lists(bindings(), min_size=1, max_size=8))
def test_what_a_space_answers_outside_of_rules_is_true_of_all_sizes(
    asked: Rule, outside: Rule, cases: list[dict[str, int]]
) -> None:
    """Answers about the results of a rule neither are wrong themselves nor make later ones wrong."""
    space, sizes = space_of_sizes(answers_outside=True)
    try:
        paths = space.explore(lambda: asked(sizes), ERRORS)
    except NeedsNumberError:
        return
    questions = [guard for path in paths for guard in path.guards]
    questions += [Condition(index_of(path.value), Relation.AT_LEAST) for path in paths if path.value is not None]
    space.is_never_negative(questions[-1].index if questions else index_of(0))

    for question in questions:
        answer = space.certain(question)
        assert answer is None or all(is_answer(question, numbers, answer) for numbers in cases)
    try:
        yielded = outside(sizes)
    except NeedsNumberError:
        return
    except ERRORS as error:
        yielded = type(error)
    for numbers in cases:
        at_numbers = yielded if isinstance(yielded, type) else number(yielded, numbers)
        assert at_numbers == on_numbers(outside, numbers)


def is_answer(question: Condition, numbers: Mapping[str, int], answer: bool) -> bool:
    """Return whether an answer is right at some sizes: where a question has no value, any is."""
    try:
        return question.holds(numbers) is answer
    except ZeroDivisionError:
        return True
