"""Sizes behave as the integers that they stand for, on every way through a rule."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer import dims, symbolic
from openinfer.affine import IndexSyntaxError, Interval, Var
from openinfer.dims import Dim, NeedsNumberError, Path, Space, expression, parse_dim
from openinfer.dims.knowledge import Knowledge
from openinfer.symbolic import IntExpr

BOUNDS = {"T": (0, 12), "U": (0, 12), "N": (1, 12), "p": (-8, 8)}
NAMES = tuple(BOUNDS)
SIZES = st.fixed_dictionaries({name: st.integers(*bounds) for name, bounds in BOUNDS.items()})
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": dims.max,
    "min": dims.min,
    "from_end": dims.from_end,
}
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)

Rule = Callable[[dict[str, Any]], Any]


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> Rule:
    """Return a function of sizes that computes a random integer expression."""
    if depth == 0 or draw(st.booleans()):
        leaf = draw(st.one_of(st.integers(-6, 6), st.sampled_from(NAMES)))
        return lambda sizes: sizes[leaf] if isinstance(leaf, str) else leaf
    left, right = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    function = OPERATORS[draw(st.sampled_from(sorted(OPERATORS)))]
    return lambda sizes: function(left(sizes), right(sizes))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Return a function of sizes that chooses between expressions by comparisons of others."""
    left, right, yes, no = (draw(expressions()) for _ in range(4))
    compare = draw(st.sampled_from(COMPARISONS))
    return lambda sizes: yes(sizes) if compare(left(sizes), right(sizes)) else no(sizes)


def space_of_sizes() -> tuple[Space, dict[str, Any]]:
    space = Space()
    return space, {name: space.size(name, *bounds) for name, bounds in BOUNDS.items()}


def outcome(rule: Rule, sizes: dict[str, Any]) -> object:
    try:
        return rule(sizes)
    except ZeroDivisionError as error:
        return type(error)


def number(path: Path[Any], values: dict[str, int]) -> object:
    if path.error is not None:
        return type(path.error)
    return path.value.at(values) if type(path.value) is Dim else path.value


@given(rules(), st.lists(SIZES, min_size=1, max_size=8))
def test_exactly_one_way_holds_at_any_sizes_and_yields_what_numbers_do(rule: Rule, bindings: list[dict[str, int]]):
    space, sizes = space_of_sizes()

    paths = space.explore(lambda: rule(sizes))

    for values in bindings:
        (taken,) = (path for path in paths if path.is_taken(values))
        assert number(taken, values) == outcome(rule, values)


@given(expressions(), SIZES)
def test_what_is_certain_is_true(rule: Rule, values: dict[str, int]):
    space, sizes = space_of_sizes()
    for path in space.explore(lambda: rule(sizes)):
        if path.is_taken(values):
            bounds = path.knowledge.interval(dims.index_of(path.value)) if path.error is None else None
            assert bounds is None or bounds.low is None or bounds.low <= number(path, values)
            assert bounds is None or bounds.high is None or number(path, values) <= bounds.high
            assert all(condition.holds(values) for condition in path.knowledge.conditions)


@given(expressions())
def test_the_text_of_a_size_reads_back(rule: Rule):
    space, sizes = space_of_sizes()
    symbols = {var.name: var for size in sizes.values() for var in size.index.variables()}
    for path in space.explore(lambda: rule(sizes)):
        if path.error is None:
            index = dims.index_of(path.value)
            assert parse_dim(str(index), symbols) == index


@given(rules(), SIZES)
def test_an_expression_of_the_language_has_the_value_of_the_size(rule: Rule, values: dict[str, int]):
    space, sizes = space_of_sizes()
    for path in space.explore(lambda: rule(sizes)):
        if path.is_taken(values) and path.error is None:
            written = as_written(path.value, path.knowledge)
            assert written is None or symbolic.evaluate(written, values.__getitem__) == number(path, values)


def as_written(size: Any, knowledge: Knowledge) -> IntExpr | None:
    return expression(dims.index_of(size), lambda condition: knowledge.certain(condition) is True)


WRITTEN: dict[str, Rule] = {
    "0": lambda n: n["T"] - n["T"],
    "2*T+1": lambda n: 2 * n["T"] + 1,
    "T-U": lambda n: -n["U"] + n["T"],
    "T*U": lambda n: n["U"] * n["T"],
    "floor(T/2)": lambda n: n["T"] // 2,
    "T/2": lambda n: n["T"] // 2 if n["T"] % 2 == 0 else None,
    "floor((T-1)/2)": lambda n: (n["T"] - 3) // 2 + 1 if n["T"] >= 3 else None,
    "ceil((T+1)/4)": lambda n: 1 - (3 - n["T"]) // 4,
    "T%4": lambda n: n["T"] % 4,
    "floor(U/(T+1))": lambda n: n["U"] // (n["T"] + 1),
}


@pytest.mark.parametrize(("text", "rule"), WRITTEN.items(), ids=WRITTEN)
def test_a_size_is_written_as_the_language_writes_it(text: str, rule: Rule):
    space, sizes = space_of_sizes()
    (path,) = (path for path in space.explore(lambda: rule(sizes)) if path.value is not None)
    written = as_written(path.value, path.knowledge)
    assert written is not None
    assert symbolic.text(written) == text


@pytest.mark.parametrize("rule", [dims.max, dims.from_end, lambda t, u: (t - u) // 2], ids=["max", "end", "negative"])
def test_what_the_language_has_no_expression_for_is_not_written(rule: Callable[[Any, Any], Any]):
    space = Space()
    t, u = space.size("T", None, 64), space.size("U", 0, 64)
    (path,) = space.explore(lambda: rule(t, u))
    assert as_written(path.value, path.knowledge) is None


@pytest.mark.parametrize("text", ["max(T)", "abs(T)", "T /", "V", "max(T, 0, key=1)", "T[0]", "T + U"])
def test_text_that_is_not_a_size_is_refused(text: str):
    with pytest.raises(IndexSyntaxError):
        parse_dim(text, {"T": Var("T")})


def test_equal_expressions_are_one_size_without_a_question():
    space, sizes = space_of_sizes()
    size = sizes["T"]

    (path,) = space.explore(lambda: (2 * size + size, size * 3 - 0) == (3 * size, 3 * size))

    assert path.value is True
    assert path.guards == ()


def test_guards_say_where_a_path_holds():
    space, sizes = space_of_sizes()

    paths = space.explore(lambda: "equal" if sizes["T"] == sizes["U"] else "one" if sizes["U"] == 1 else "other")

    assert {path.value: [str(guard) for guard in path.guards] for path in paths} == {
        "equal": ["T == U"],
        "one": ["T != U", "U == 1"],
        "other": ["T != U", "U != 1"],
    }


def test_a_fact_answers_questions():
    space = Space()
    size = space.size("T", 0, 64)
    space.assume(dims.Condition((size * 2 - 8).index, dims.Relation.AT_LEAST))

    (path,) = space.explore(lambda: (size >= 4, size // 4 >= 1, size == 0))

    assert path.value == (True, True, False)


def test_a_size_is_never_a_number_in_silence():
    size = Space().size("T")
    for use in (int, float, hash, lambda n: [1, 2][n], lambda n: "ab" * n, range):
        with pytest.raises(NeedsNumberError, match="`T` is known at run time only") as caught:
            use(size)
        assert caught.value.sizes == {"T"}


NUMBERS_ALONE: dict[str, Callable[[Any], Any]] = {
    "2 ** T": lambda t: 2**t,
    "T ** T": lambda t: t**t,
    "T << 1": lambda t: t << 1,
    "1 >> T": lambda t: 1 >> t,
    "T & 3": lambda t: t & 3,
    "3 | T": lambda t: 3 | t,
    "T ^ 1": lambda t: t ^ 1,
    "T / 2.5": lambda t: t / 2.5,
    "5 / T": lambda t: 5 / t,
    "T + 1.5": lambda t: t + 1.5,
    "1.5 - T": lambda t: 1.5 - t,
    "T // 2.0": lambda t: t // 2.0,
    "T % 0.5": lambda t: t % 0.5,
    "range(0, T, 1)": lambda t: len(dims.range(t)),
    "range(2, T + 1, 1)": lambda t: list(dims.range(2, t + 1)),
    "range(T, 9, 1)": lambda t: 3 in dims.range(t, 9),
    "range(0, 2*T, 1)": lambda t: dims.range(2 * t)[5],
    "T": lambda t: (~t, round(t, 1), math.floor(t), f"{t:d}"),
}
"""What sizes do not have, by the expression that the message shows."""


@pytest.mark.parametrize(("shown", "use"), NUMBERS_ALONE.items(), ids=NUMBERS_ALONE)
def test_what_numbers_alone_can_do_names_the_size(shown: str, use: Callable[[Any], Any]):
    size = Space().size("T")
    with pytest.raises(NeedsNumberError, match=re.escape(f"`{shown}`")) as caught:
        use(size)
    assert caught.value.sizes == {"T"}


def test_other_operands_are_left_to_python():
    size = Space().size("T")
    with pytest.raises(TypeError, match="unsupported operand"):
        size + "a"


def test_questions_are_followed_within_rules_alone():
    space, sizes = space_of_sizes()
    space.explore(lambda: "three" if sizes["T"] == 3 else "other")
    with pytest.raises(NeedsNumberError, match="`T == 3` is known at run time only"):
        bool(sizes["T"] == 3)


def test_an_extreme_that_divides_is_not_replaced_by_a_part_that_may_be_0():
    space, sizes = space_of_sizes()

    def rule() -> bool:
        extreme = dims.max(sizes["U"] - 1, 1)
        return sizes["T"] // extreme >= extreme

    for values in ({"T": 4, "U": 0}, {"T": 9, "U": 4}, {"T": 2, "U": 9}):
        (taken,) = (path for path in space.explore(rule) if path.is_taken(values))
        assert taken.value is (values["T"] // max(values["U"] - 1, 1) >= max(values["U"] - 1, 1))


def test_what_is_no_integer_is_refused():
    space, sizes = space_of_sizes()
    for use in (lambda n: n**-1, lambda n: dims.max(n, 2.5)):
        with pytest.raises(NeedsNumberError):
            space.explore(lambda use=use: use(sizes["T"]))


def test_surely_follows_no_answer():
    space, sizes = space_of_sizes()

    (path,) = space.explore(lambda: (dims.surely(lambda: sizes["T"] >= 0), dims.surely(lambda: sizes["T"] >= 1)))

    assert path.value == (True, False)
    assert path.guards == ()


def test_open_questions_of_messages_are_denied():
    space, sizes = space_of_sizes()

    def rule() -> bool:
        with dims.unasked():
            return bool(sizes["T"] == 3)

    (path,) = space.explore(rule)

    assert path.value is False
    assert path.guards == ()


@given(
    st.integers(-20, 20),
    st.integers(-20, 20),
    st.sampled_from((-3, -2, -1, 1, 2, 3)),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_slices_of_a_size_have_the_places_of_slices_of_a_list(start: int, stop: int, step: int, low: int, more: int):
    space = Space()
    extent = space.size("T", low)

    paths = space.explore(lambda: dims.length(dims.range(*dims.slice(start, stop, step).indices(extent))))

    values = {"T": low + more}
    (taken,) = (path for path in paths if path.is_taken(values))
    assert number(taken, values) == len(range(low + more)[start:stop:step])


def test_products_with_floats_that_round_are_refused():
    space = Space()
    with pytest.raises(NeedsNumberError, match="no exact form"):
        space.size("T", 0, 2**40) * 0.1
    (path,) = space.explore(lambda: math.floor(space.size("U", 0, 64) * 1.5))
    assert [path.value.at({"U": number}) for number in (0, 1, 5)] == [0, 1, 7]


def test_outside_of_rules_a_space_may_answer_what_is_certain() -> None:
    space = Space(answers_outside=True)
    t, u = space.size("T", 1, 8), space.size("U", 1, 8)
    assert (t + 1 == 1 + t, t == u, t != u, t >= 1, t < 1) == (True, False, True, True, False)
    assert space.named("T") == t
    space.size("T", 2, 8)
    assert t >= 2
    assert [str(path.guards[0]) for path in space.explore(lambda: t == u)] == ["T == U", "T != U"]


OPEN_OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "T >= 2": lambda t: t >= 2,
    "T < 2": lambda t: t < 2,
    "sign of T - 2": lambda t: abs(t - 2),
    "quotient by T - 2": lambda t: 7 // (t - 2),
    "remainder by T - 1": lambda t: 7 % (t - 1),
    "length of a range": lambda t: dims.length(dims.range(0, 8, t - 2)),
    "slice": lambda t: dims.slice(0, 4, t - 2).indices(t),
}


@pytest.mark.parametrize("use", OPEN_OUTSIDE.values(), ids=OPEN_OUTSIDE)
def test_outside_of_rules_no_value_depends_on_an_open_answer(use: Callable[[Any], Any]) -> None:
    size = Space(answers_outside=True).size("T", 1, 8)
    with pytest.raises(NeedsNumberError, match="is known at run time only") as caught:
        use(size)
    assert caught.value.sizes == {"T"}


def test_surely_asks_outside_of_rules_too() -> None:
    size = Space(answers_outside=True).size("T", 1, 8)
    assert (
        dims.surely(lambda: size >= 1),
        dims.surely(lambda: size >= 2),
        dims.surely(lambda: 4 // (size - 2) > 0),
    ) == (
        True,
        False,
        False,
    )


def test_what_is_asked_of_a_quotient_says_nothing_of_its_divisor() -> None:
    space, sizes = space_of_sizes()
    quotient = next(path.value for path in space.explore(lambda: 7 // (sizes["T"] - 2)) if type(path.value) is Dim)
    positive = dims.Condition(sizes["T"].index - 3, dims.Relation.AT_LEAST)

    assert space.certain(dims.Condition(quotient.index, dims.Relation.AT_LEAST)) is None
    assert space.bounds(quotient.index) == Interval(None, None)
    assert space.certain(positive) is None
    space.assume(positive)
    assert space.certain(dims.Condition(quotient.index, dims.Relation.AT_LEAST)) is True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda space: space.size("T", 1, 8), "the bounds of T change"),
        (lambda space: space.assume(dims.Condition(space.named("T").index - 1, dims.Relation.AT_LEAST)), "is assumed"),
        (lambda space: space.explore(lambda: 0), "another rule is explored"),
    ],
    ids=["bounds", "fact", "rule"],
)
def test_a_rule_does_not_change_what_its_other_ways_rely_on(change: Callable[[Space], object], message: str) -> None:
    space, _ = space_of_sizes()
    with pytest.raises(ValueError, match=message):
        space.explore(lambda: change(space))


def test_a_size_that_is_named_within_a_rule_leaves_the_guards_of_the_way() -> None:
    space, sizes = space_of_sizes()

    paths = space.explore(lambda: (sizes["T"] == 3, space.size("M", 1, 4) >= 1, space.size("T", *BOUNDS["T"]) == 3))

    assert [(path.value, list(map(str, path.guards))) for path in paths] == [
        ((True, True, True), ["T == 3"]),
        ((False, True, False), ["T != 3"]),
    ]


@pytest.mark.parametrize("start", [None, -3, 2])
@pytest.mark.parametrize("stop", [None, -1, 3])
@pytest.mark.parametrize("step", [None, -2, 0, 1])
def test_slices_without_ends_are_those_of_python(start: int | None, stop: int | None, step: int | None) -> None:
    space = Space()
    extent = space.size("T", 0, 6)

    paths = space.explore(lambda: dims.slice(start, stop, step).indices(extent), (ValueError,))

    for number_of_places in range(7):
        (taken,) = (path for path in paths if path.is_taken({"T": number_of_places}))
        if step == 0:
            assert str(taken.error) == "slice step cannot be zero"
            continue
        assert taken.value is not None
        numbers = tuple(n.at({"T": number_of_places}) if type(n) is Dim else n for n in taken.value)
        assert numbers == slice(start, stop, step).indices(number_of_places)


FLOATS_ALONE: tuple[Callable[[Any], Any], ...] = (
    int,
    float,
    bool,
    hash,
    round,
    lambda ratio: ratio + 1,
    lambda ratio: 1 - ratio,
    lambda ratio: ratio * 2,
    lambda ratio: ratio // 1,
    lambda ratio: ratio == 1,
    lambda ratio: ratio < 1,
)


def test_a_ratio_is_rounded_to_a_size_and_nothing_else() -> None:
    size = Space().size("T", 0, 64)
    for factor in (0.5, -0.75, 0.0):
        for rounded in (math.floor, math.ceil, math.trunc):
            made = rounded(size * factor)
            for value in (0, 1, 3, 64):
                assert (made.at({"T": value}) if type(made) is Dim else made) == rounded(value * factor)
    for use in FLOATS_ALONE:
        with pytest.raises(NeedsNumberError, match=r"`T \* 1/2` is known at run time only"):
            use(size * 0.5)
    with pytest.raises(NeedsNumberError):
        size * math.inf


def test_the_largest_value_of_a_square_lies_anywhere_between_the_ends() -> None:
    space = Space()
    t, u = space.size("T", 0, 10), space.size("U", 0, 3)
    for size in (10 * t - t * t, t * t, t * u - t, t * t * u - 7 * t):
        most = max(size.at({"T": number, "U": other}) for number in range(11) for other in range(4))
        largest = space.largest(size.index)
        assert largest is not None
        assert largest >= most
    assert (space.largest((t * t).index), space.largest((t * u - t).index)) == (100, 20)
