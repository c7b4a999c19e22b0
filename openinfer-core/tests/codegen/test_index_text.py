"""Indices as text of languages of the C family: the text evaluates to what the index does."""

from hypothesis import given
from hypothesis import strategies as st

from openinfer.affine import Index, Var, Within
from openinfer.codegen import Notation

ROW, COLUMN = Var("i", 7), Var("j", 5)
PYTHON = Notation(
    variable=lambda var: var.name,
    quotient=lambda of, by: f"((({of}) // ({by})) if ({of}) >= 0 else nan)",
    remainder=lambda of, by: f"((({of}) % ({by})) if ({of}) >= 0 else nan)",
    quotient_down=lambda of, by: f"(({of}) // ({by}))",
    remainder_down=lambda of, by: f"(({of}) % ({by}))",
)


@st.composite
def indices(draw: st.DrawFn) -> Index:
    index = draw(st.integers(-9, 9)) + draw(st.integers(-4, 4)) * ROW + draw(st.integers(-4, 4)) * COLUMN
    for _ in range(draw(st.integers(0, 2))):
        by = draw(st.integers(1, 6))
        index = draw(st.sampled_from([index // by, index % by, (index // by) * 2 + ROW]))
    return Index.of(index)


@given(indices(), st.integers(0, 6), st.integers(0, 4))
def test_the_text_of_an_index_has_its_value(index: Index, i: int, j: int) -> None:
    assert eval(PYTHON.index(index), {"i": i, "j": j}) == index.evaluate({"i": i, "j": j})


@given(indices(), st.integers(1, 9), st.integers(0, 6), st.integers(0, 4))
def test_the_text_of_a_test_is_true_where_it_holds(index: Index, extent: int, i: int, j: int) -> None:
    text = PYTHON.tests((Within(index, Index.of(extent)),)).replace("&&", "and").replace("true", "True")

    assert eval(text, {"i": i, "j": j}) == (0 <= index.evaluate({"i": i, "j": j}) < extent)


def test_certain_tests_are_left_out() -> None:
    assert PYTHON.tests((Within(Index.of(ROW), Index.of(7)),)) == "true"
    assert PYTHON.tests((Within(ROW - 1, Index.of(7)),)) == "i - 1 >= 0"
