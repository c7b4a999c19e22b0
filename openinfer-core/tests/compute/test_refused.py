"""Definitions of computations that mean nothing are refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from built_computations import one_stage

from openinfer.compute import Builder, ComputationError
from openinfer.dtypes import F32, U2
from openinfer.expr import tree

if TYPE_CHECKING:
    from collections.abc import Callable


def folded_axis_in_the_result(k: Builder) -> None:
    i, j = k.axes(3, 4)
    k.outputs[0][i] = k.sum(k.given[0][i, j], over=(j,)) * k.given[0][i, j]


def folded_axis_in_a_start(k: Builder) -> None:
    i, j = k.axes(3, 4)
    k.outputs[0][i] = k.fold(k.given[0][i, j], (j,), tree.add, start=k.given[0][i, j])


def folded_axis_in_a_check(k: Builder) -> None:
    i, j = k.axes(3, 4)
    k.refuse(k.given[0][i, j] < 0.0, "negative")
    k.outputs[0][i] = k.sum(k.given[0][i, j], over=(j,))


def starts_of_two_kinds(k: Builder) -> None:
    i, j = k.axes(3, 4)
    x = k.given[0][i, j]
    sums = k.folds((x, x), (j,), lambda t, e: [tree.add(a, b) for a, b in zip(t, e, strict=True)], (1.0, None))
    k.outputs[0][i] = sums[0] + sums[1]


def more_terms_than_starts(k: Builder) -> None:
    i, j = k.axes(3, 4)
    x = k.given[0][i, j]
    k.outputs[0][i] = k.folds((x, x), (j,), lambda t, _: t, (0.0,))[0]


def fewer_totals_than_terms(k: Builder) -> None:
    i, j = k.axes(3, 4)
    x = k.given[0][i, j]
    k.outputs[0][i] = k.folds((x, x), (j,), lambda t, e: (tree.add(t[0], e[1]),), (0.0, 0.0))[0]


def fold_of_nothing(k: Builder) -> None:
    i, j = k.axes(3, 0)
    k.outputs[0][i] = k.fold(k.given[0].within(i, j, fill=0.0), (j,), tree.maximum)


def part_of_the_result(k: Builder) -> None:
    i = k.axis(2)
    k.outputs[0][i] = k.given[0][i, 0]


def one_place_by_two_axes(k: Builder) -> None:
    i, j = k.axes(2, 2)
    k.outputs[0][i + j] = k.given[0][i, j]


def one_place_by_a_quotient(k: Builder) -> None:
    i = k.axis(6)
    k.outputs[0][i // 2] = k.given[0][i // 2, 0]


def name_with_a_statement(k: Builder) -> None:
    i = k.axis(3, "i; abort()")
    k.outputs[0][i] = k.given[0][i, 0]


def name_that_is_a_keyword(k: Builder) -> None:
    i = k.axis(3, "for")
    k.outputs[0][i] = k.given[0][i, 0]


def negative_extent(k: Builder) -> None:
    i = k.axis(-1)
    k.outputs[0][i] = k.given[0][i, 0]


def extent_beyond_integers(k: Builder) -> None:
    i, j = k.axes(3, 2**63)
    k.outputs[0][i] = k.sum(k.given[0][i, 0] * k.position(j, F32), over=(j,))


def check_after_the_last_stage(k: Builder) -> None:
    i = k.axis(3)
    k.outputs[0][i] = k.given[0][i, 0]
    k.refuse(k.given[0][i, 0] < 0.0, "negative")


def check_of_another_fold(k: Builder) -> None:
    i, j, r = k.axes(3, 4, 4)
    k.refuse(k.sum(k.given[0][i, r], over=(r,)) < 0.0, "negative")
    k.outputs[0][i] = k.sum(k.given[0][i, j], over=(j,))


def fold_in_a_fold(k: Builder) -> None:
    i, j, r = k.axes(3, 4, 4)
    k.outputs[0][i] = k.sum(k.sum(k.given[0][i, r], over=(r,)) * k.given[0][i, j], over=(j,))


def position_of_a_packed_type(k: Builder) -> None:
    i = k.axis(3)
    k.outputs[0][i] = k.position(i - 1, U2).cast(F32)


def value_as_a_condition(k: Builder) -> None:
    i = k.axis(3)
    k.outputs[0][i] = k.given[0][i, 0] if k.given[0][i, 0] < 0.0 else k.given[0][i, 1]


def store_of_nothing(_: Builder) -> None:
    return


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (folded_axis_in_the_result, "i1 is a folded axis, which only terms may use"),
        (folded_axis_in_a_start, "i1 is a folded axis, which only terms may use"),
        (folded_axis_in_a_check, "i1 is a folded axis, which only terms may use"),
        (starts_of_two_kinds, "some totals have a start and others begin with their first term"),
        (more_terms_than_starts, "defined: `folds` has 2 terms and 1 start, and `combine` returns 2 totals"),
        (fewer_totals_than_terms, "defined: `folds` has 2 terms and 2 starts, and `combine` returns 1 total:"),
        (fold_of_nothing, "a fold over no terms needs a start"),
        (part_of_the_result, "y has 3 elements, stages store 2"),
        (one_place_by_two_axes, "may store to one place of y several times"),
        (one_place_by_a_quotient, "may store to one place of y several times"),
        (name_with_a_statement, "the name 'i; abort()' is not an identifier"),
        (name_that_is_a_keyword, "the name 'for' is not an identifier"),
        (negative_extent, "i0 has the extent -1"),
        (extent_beyond_integers, "i1 has the extent 9223372036854775808"),
        (check_after_the_last_stage, "belong to the stage stored after them"),
        (check_of_another_fold, "one stage uses totals of different folds"),
        (fold_in_a_fold, "one stage uses totals of different folds"),
        (position_of_a_packed_type, "the position i0 - 1 is u2"),
        (value_as_a_condition, "known at run time only"),
        (store_of_nothing, "no stage writes y"),
    ],
)
def test_a_definition_without_meaning_is_refused(define: Callable[[Builder], None], message: str) -> None:
    with pytest.raises(ComputationError, match=re.escape(message)):
        one_stage(define)
