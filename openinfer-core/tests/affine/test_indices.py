"""Index arithmetic equals Python's integers, folds what bounds decide, and its text reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.affine import Index, IndexSyntaxError, Interval, Quotient, Remainder, Var, Within, parse_index

ROW, J, N, M = Var("i", 6), Var("j", 4), Var("n"), Var("m")
K = Var("k", Index.of(N))
VARS = {var.name: var for var in (ROW, J, N, M, K)}


@st.composite
def indices(draw: st.DrawFn, depth: int = 3) -> Index:
    if depth == 0 or draw(st.booleans()):
        return Index.of(draw(st.one_of(st.integers(-20, 20), st.sampled_from((ROW, J, N, K)))))
    left = draw(indices(depth - 1))
    match draw(st.sampled_from("+-*/%")):
        case "+":
            return left + draw(indices(depth - 1))
        case "-":
            return left - draw(indices(depth - 1))
        case "*":
            return left * draw(indices(depth - 1))
        case "/":
            return left // draw(st.integers(1, 9))
        case _:
            return left % draw(st.integers(1, 9))


@st.composite
def values(draw: st.DrawFn) -> dict[str, int]:
    n = draw(st.integers(1, 9))
    return {
        "i": draw(st.integers(0, 5)),
        "j": draw(st.integers(0, 3)),
        "n": n,
        "m": draw(st.integers(1, 5)),
        "k": draw(st.integers(0, n - 1)),
    }


@given(indices(), indices(), values(), st.integers(1, 9))
def test_arithmetic_is_that_of_integers(a: Index, b: Index, at: dict[str, int], by: int) -> None:
    x, y = a.evaluate(at), b.evaluate(at)
    assert (a + b).evaluate(at) == x + y
    assert (a - b).evaluate(at) == x - y
    assert (a * b).evaluate(at) == x * y
    assert (a // by).evaluate(at) == x // by
    assert (a % by).evaluate(at) == x % by
    assert (a // (by * N)).evaluate(at) == x // (by * at["n"])
    assert (a % (N * M)).evaluate(at) == x % (at["n"] * at["m"])


@given(indices(), values())
def test_the_interval_holds_every_value(index: Index, at: dict[str, int]) -> None:
    bounds, value = index.interval, index.evaluate(at)
    assert bounds.low is None or bounds.low <= value
    assert bounds.high is None or value <= bounds.high


@given(indices(), indices(), values())
def test_what_is_within_for_certain_is_within(index: Index, extent: Index, at: dict[str, int]) -> None:
    if index.is_within(0, extent):
        assert 0 <= index.evaluate(at) < extent.evaluate(at)


@given(indices(), indices(), values())
def test_substitution_is_composition(index: Index, inner: Index, at: dict[str, int]) -> None:
    assert index.substituted({ROW: inner}).evaluate(at) == index.evaluate({**at, "i": inner.evaluate(at)})


@given(indices())
def test_text_reads_back(index: Index) -> None:
    assert parse_index(str(index), VARS) == index


@given(indices(), indices())
def test_equal_polynomials_are_equal(a: Index, b: Index) -> None:
    assert (a + b) * (a - b) == a * a - b * b
    assert hash(a + b) == hash(b + a)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (Index(), "0"),
        (Index.of(ROW) * 4 + J - 1, "4*i + j - 1"),
        ((Index.of(ROW) * 4 + J) // 4, "i"),
        ((Index.of(ROW) * 4 + J) % 4, "j"),
        ((Index.of(ROW) * 8 + J * 2 + 1) // 8, "i"),
        ((Index.of(ROW) - 1) // 2, "(i + 1)//2 - 1"),
        ((Index.of(ROW) + 6) % 4, "(i + 2)%4"),
        (Index.of(J) * (Index.of(ROW) // 4) * 3, "3*((i)//4)*j"),
        ((Index.of(ROW) * N + K) // N, "i"),
        ((Index.of(ROW) * N + K) % N, "k"),
        (Index.of(N) // M, "(n)//m"),
        (Index.of(ROW) % (N * Index.of(M)), "(i)%(m*n)"),
    ],
)
def test_canonical_text(index: Index, text: str) -> None:
    assert str(index) == text


def test_bounds_over_parameters_are_proved() -> None:
    assert Index.of(K).is_within(0, Index.of(N))
    assert (Index.of(ROW) * N + K).is_within(0, N * Index.of(6))
    assert not (Index.of(K) + 1).is_within(0, Index.of(N))
    assert not Index.of(N).is_within(0, 100)


@pytest.mark.parametrize(("place", "length"), [("a", "b"), ("b", "a")])
def test_a_length_that_is_at_most_what_follows_a_place_lies_within(place: str, length: str) -> None:
    start = Var(place, Index.of(N) + 1)
    many = Var(length, Index.of(N) - start + 1)
    assert (Index.of(Var("i", Index.of(many))) + start).is_within(0, Index.of(N))
    assert not (Index.of(Var("i", Index.of(many) + 1)) + start).is_within(0, Index.of(N))


def test_whole_parts_of_a_parameter_and_what_is_left_of_it_lie_within() -> None:
    whole, lane = Var("w", Index.of(N) // 16), Var("l", 16)
    pair, rest = Var("p", Index.of(N) // 64), Var("r", Index.of(N) - Index.of(N) // 16 * 16)
    assert (whole * 16 + lane).is_within(0, Index.of(N))
    assert (pair * 64 + lane + 48).is_within(0, Index.of(N))
    assert (Index.of(N) // 16 * 16 + rest).is_within(0, Index.of(N))
    assert not (whole * 16 + lane + 1).is_within(0, Index.of(N))
    assert not (whole * 17 + lane).is_within(0, Index.of(N))


def test_a_coefficient_is_known_where_the_variable_is_alone() -> None:
    index = Index.of(ROW) * 3 + Index.of(J) * N + Index.of(K) // 2
    assert index.coefficient(ROW) == 3
    assert index.coefficient(M) == 0
    assert index.coefficient(J) is None
    assert index.coefficient(K) is None


def test_intervals_multiply_with_open_ends() -> None:
    assert Interval(-2, 3) * Interval(-5, 4) == Interval(-15, 12)
    assert Interval(0, None) * Interval(0, 0) == Interval(0, 0)
    assert Interval(1, None) * Interval(-1, -1) == Interval(None, -1)
    assert Interval(None, None) * Interval(2, 3) == Interval(None, None)


def test_quotients_hold_what_could_not_be_folded() -> None:
    assert Index.of(ROW) // 4 == Index.of(Quotient(Index.of(ROW), Index.of(4)))
    assert Index.of(ROW) % 4 == Index.of(Remainder(Index.of(ROW), Index.of(4)))


@pytest.mark.parametrize("by", [0, -2, Index.of(N) + 1])
def test_divisors_are_positive_monomials(by: int | Index) -> None:
    with pytest.raises(ValueError, match="divided by a positive integer"):
        _ = Index.of(ROW) // by


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i +", "is not an index"),
        ("q + 1", "unknown index variable 'q'; known: i, j, k, m, n"),
        ("i / 2", r"expected \+ - \* // %"),
        ("i // 0", "divided by a positive integer"),
        ("True", "is not an index"),
        ("f(i)", "is not an index"),
        ("(" * 3000 + "i" + ")" * 3000, "is not an index"),
    ],
)
def test_what_is_not_an_index_is_refused(text: str, message: str) -> None:
    with pytest.raises(IndexSyntaxError, match=message):
        parse_index(text, VARS)


@pytest.mark.parametrize(
    ("index", "extent", "is_certain", "is_void"),
    [
        (0, 1, True, False),
        (-1, 4, False, True),
        (4, 4, False, True),
        (2 * ROW, 11, True, False),
        (ROW + 4, 4, False, True),
    ],
)
def test_a_condition_holds_everywhere_or_nowhere_by_the_bounds_of_its_index(index, extent, is_certain, is_void):
    condition = Within(Index.of(index), Index.of(extent))

    assert (condition.is_certain, condition.is_void) == (is_certain, is_void)


def test_bounds_of_quotients_within_one_another_are_found_once_for_each(monkeypatch):
    calls = []
    bounds = Index.interval_by
    monkeypatch.setattr(Index, "interval_by", lambda index, of: (calls.append(index), bounds(index, of))[1])
    index = Index.of(Var("i", 1000))
    for divisor in range(2, 12):
        index = Index.of(Quotient(index + 1, Index.of(divisor)))
    calls.clear()

    assert index.interval.low == 0
    assert len(calls) == 11
