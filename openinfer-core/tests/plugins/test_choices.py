"""What carries out a call and the calls that its decomposition consists of, within limits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from openinfer.dtypes import F32
from openinfer.expr.tree import Input
from openinfer.ir.types import TensorType
from openinfer.ops.calls import Decomposition, OpCall, Step
from openinfer.plugins.selection import (
    DEEPEST_DECOMPOSITION,
    MOST_PARTS,
    Choice,
    Decomposed,
    DerivedExpression,
    Missing,
    choose,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.plugins.selection import Implementation

KIND = TensorType(F32, (2,))
EXPRESSION = DerivedExpression(Input(0, F32))


def call(name: str) -> OpCall:
    return OpCall(op=name, inputs=(KIND,), outputs=(KIND,), settings={})


def selecting(
    definitions: Mapping[str, Sequence[str]], asked: list[str] | None = None, absent: Sequence[str] = ()
) -> Callable[[OpCall], Implementation]:
    """Return a selection in which operators consist of others by name; all others have an expression."""

    def select_one(part: OpCall) -> Implementation:
        if asked is not None:
            asked.append(part.op)
        if part.op in absent:
            return Missing(part, f"no {part.op}")
        if part.op not in definitions:
            return EXPRESSION
        names = definitions[part.op]
        steps = tuple(Step(call(name), (0,), (place + 1,)) for place, name in enumerate(names))
        return Decomposed(Decomposition((KIND,) * (len(names) + 1), (0,), (len(names),), steps))

    return select_one


def test_parts_are_chosen_in_order_once_for_each_call() -> None:
    asked: list[str] = []
    found = choose(call("a"), selecting({"a": ("b", "c"), "b": ("c", "d")}, asked))

    assert isinstance(found.chosen, Decomposed)
    first, second = found.parts
    assert [part.call.op for part in first.parts] == ["c", "d"]
    assert second == Choice(call("c"), EXPRESSION)
    assert Counter(asked) == Counter({"a": 1, "b": 1, "c": 2, "d": 1})


def test_what_is_missing_is_named_in_order_of_the_parts() -> None:
    found = choose(call("a"), selecting({"a": ("x", "b", "y"), "b": ("z",)}, absent="xyz"))

    assert [missing.call.op for missing in found.missing()] == ["x", "z", "y"]
    assert [missing.reason for missing in found.missing()] == ["no x", "no z", "no y"]
    assert {missing.code for missing in found.missing()} == {"kernel-missing"}


def chain(length: int) -> dict[str, tuple[str, ...]]:
    """Return definitions nested so deeply."""
    return {f"n{place}": (f"n{place + 1}",) for place in range(length)}


def test_the_deepest_decomposition_is_taken_and_a_deeper_one_is_missing_as_a_whole() -> None:
    assert not list(choose(call("n0"), selecting(chain(DEEPEST_DECOMPOSITION))).missing())
    (missing,) = choose(call("n0"), selecting(chain(DEEPEST_DECOMPOSITION + 1))).missing()
    assert (missing.call.op, missing.code) == ("n0", "unsupported")
    assert "does its definition lead back to itself?" in missing.reason


@pytest.mark.parametrize("definitions", [{"a": ("a",)}, {"a": ("a", "a")}, {"a": ("b",), "b": ("a",)}])
def test_a_definition_that_leads_back_to_itself_is_missing(definitions: Mapping[str, Sequence[str]]) -> None:
    (missing,) = choose(call("a"), selecting(definitions)).missing()
    assert (missing.call.op, missing.code) == ("a", "unsupported")


def test_the_number_of_parts_is_limited() -> None:
    wide = {"a": ("b",) * (MOST_PARTS - 1)}
    assert not list(choose(call("a"), selecting(wide)).missing())
    (missing,) = choose(call("a"), selecting({"a": ("b",) * MOST_PARTS})).missing()
    assert f"{MOST_PARTS:,} parts" in missing.reason
