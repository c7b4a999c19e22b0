"""Tests of several variables: what they say about an index, the addresses under them say too."""

from __future__ import annotations

from itertools import count

from openinfer.affine import Index, Var, Within
from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.loops import Buffer, If, Load, Store, Value
from openinfer_synth_c.loop_programs.guards import NamedTests, guarded

ROW, TAP, COLUMN = Var("i0", 25), Var("i1", 10), Var("i2", 10)
X = Buffer("x0", F32, Index.of(490))
Y = Buffer("y0", F32, Index.of(250))


def copied(address):
    load = Load(X, Index.of(address))
    return (Store(Y, 10 * ROW + COLUMN, Value(tree.Input(0, F32), (load,))),)


def address_of(statement):
    return str(statement.value.leaves[0].address)


def test_the_index_of_a_test_is_named_and_addresses_are_multiples_of_it():
    test = Within(2 * ROW + TAP - 4, Index.of(49))

    found = guarded([test], copied(20 * ROW + 10 * TAP + COLUMN - 39), count(7).__next__)

    assert found.lines == ("const ptrdiff_t n_within7 = 2 * i0 + i1 - 4;",)
    assert found.test == "n_within7 >= 0 && n_within7 < 49"
    assert address_of(found.body[0]) == "i2 + 10*within7 + 1"


def test_an_address_that_is_not_a_multiple_of_the_index_stays():
    test = Within(2 * ROW + TAP - 4, Index.of(49))

    found = guarded([test], copied(20 * ROW + 11 * TAP), count().__next__)

    assert found.lines == ()
    assert found.test == "2 * i0 + i1 - 4 >= 0 && 2 * i0 + i1 - 4 < 49"
    assert found.body == copied(20 * ROW + 11 * TAP)


def test_each_test_is_named_on_its_own():
    tests = [Within(ROW + TAP - 1, Index.of(25)), Within(COLUMN + TAP - 2, Index.of(10))]
    body = (If((), copied(10 * ROW + 10 * TAP + COLUMN - 10)),)

    found = guarded(tests, body, count().__next__)

    assert found.lines == ("const ptrdiff_t n_within0 = i0 + i1 - 1;",)
    assert found.test == "n_within0 >= 0 && n_within0 < 25 && i1 + i2 - 2 >= 0 && i1 + i2 - 2 < 10"


def test_a_name_that_the_program_has_is_not_used():
    body = copied(2 * ROW + TAP + Var("within0", 3))

    found = guarded([Within(2 * ROW + TAP - 4, Index.of(49))], body, count().__next__)

    assert found.body == body
    assert found.lines == ()


def test_a_test_of_one_variable_has_no_name():
    found = guarded([Within(Index.of(TAP) - 1, Index.of(8))], copied(10 * TAP), count().__next__)

    assert found.lines == ()
    assert found.test == "i1 - 1 >= 0 && i1 - 1 < 8"


def bordered(address, *tests):
    return Load(X, Index.of(address), tests, tree.literal(0.0, F32))


def test_loads_under_one_test_share_the_name_of_its_index():
    row, tests = Within(2 * ROW + TAP - 4, Index.of(49)), NamedTests(count(7).__next__)

    lines, test, load = tests.load(bordered(20 * ROW + 10 * TAP + COLUMN - 40, row))
    again = tests.load(bordered(20 * ROW + 10 * TAP + COLUMN - 39, row))

    assert lines == ("const ptrdiff_t n_within7 = 2 * i0 + i1 - 4;",)
    assert test == again[1] == "n_within7 >= 0 && n_within7 < 49"
    assert str(load.address) == "i2 + 10*within7"
    assert again[0] == ()
    assert str(again[2].address) == "i2 + 10*within7 + 1"


def test_a_name_ends_with_the_block_that_declares_it():
    row, tests = Within(2 * ROW + TAP - 4, Index.of(49)), NamedTests(count().__next__)
    load = bordered(20 * ROW + 10 * TAP - 40, row)

    with tests.block():
        assert tests.load(load)[0] == ("const ptrdiff_t n_within0 = 2 * i0 + i1 - 4;",)
    assert tests.load(load)[0] == ("const ptrdiff_t n_within1 = 2 * i0 + i1 - 4;",)


def test_a_load_whose_address_is_not_a_multiple_of_the_index_declares_nothing():
    load = bordered(20 * ROW + 11 * TAP, Within(2 * ROW + TAP - 4, Index.of(49)))

    assert NamedTests(count().__next__).load(load) == ((), "2 * i0 + i1 - 4 >= 0 && 2 * i0 + i1 - 4 < 49", load)
