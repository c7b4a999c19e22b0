"""Statements on sizes that are known at run time only: one run of rule and definition, and guards in words."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from openinfer.compute.stage import Computation
from openinfer.dsl import graph
from openinfer.errors import SynthesisError
from openinfer.model import Model
from openinfer.ops import computations
from openinfer.plan import PlanOptions, make_plan, sized_calls
from openinfer.plan.accesses import walk
from openinfer.plan.steps import ComputeStep, EqualStep, PlaceStep
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import KernelTable
from openinfer.validate import resolve

TABLE = KernelTable("test", {}, frozenset({"f32", "i32", "i64", "u64", "bool"}), computations=True, state=True)
LIMITS = {"T": 8, "U": 8}
INTERNAL = re.compile(r"\b(n\d+|s_\w+|m\d+|extent_\w+|x\d+_\d+)\b")
"""Names that computations call sizes by, which no message may show."""


def planned(statements, declared="", memory="", results="y"):
    """Return the steps of a program over `x: f32[T, 2]`, `g: f32[U]`, and integers p and q."""
    text = f"""
    dynamic {{ x: f32[T, 2]; g: f32[U]; p: i32; q: i32; }}
    {memory}
    block entry {{ {declared} {statements} op neg(g) >> other; return {results}, other; }}
    """
    model = Model.from_arrays({}, sizevars={"T": 3, "U": 2})
    environment = Environment.default()
    resolved = resolve(graph(text), model, sizes=LIMITS, environment=environment)
    plan = make_plan(resolved, model, environment, TABLE, PlanOptions(given=LIMITS))
    return [step for procedure in plan.procedures for step in walk(procedure.steps)]


def demands(steps):
    return [s.demand.text for s in steps if isinstance(s, EqualStep | PlaceStep) and s.demand is not None]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("op reshape(x, shape=[4, 4]) >> y;", ["reshape: T must be 8"]),
        ("op select(x, axis=0, index=p) >> y;", ["select: p must be -T to T - 1"]),
        ("op select(x, axis=1, index=p) >> y;", ["select: p must be -2 to 1"]),
        ("op select(x, axis=0, index=-1) >> y;", ["select: T must be at least 1"]),
        ("op narrow(g, axis=0, start=0, length=T) >> y;", ["narrow: U must be at least T"]),
        ("op split(x, axis=0, sizes=[U, T-U]) >> y, z;", ["split: T must be at least U"]),
        ("op sum_axis(x, axes=[1]) >> row; op add(row, g) >> y;", ["add: T must be U"]),
        ("op max_axis(x, axes=[0]) >> y;", ["max_axis: T must not be 0"]),
        ("op slice(x, axes=[0], starts=[U], ends=[p]) >> y;", []),
        ("op iota() >> y;", []),
        ("op range(start=p, limit=p+T) >> y;", []),
    ],
)
def test_a_guard_is_a_test_in_the_words_of_the_program(statements, expected):
    declared = "assign y: f32[T];" if "iota" in statements else "assign y: i64[T];" if "range" in statements else ""
    assert demands(planned(statements, declared)) == expected


def test_a_rule_about_elements_is_in_the_words_of_the_program():
    steps = planned("op gather(x, ids) >> y;", memory="constant { ids: i64[3] @init(0); }")

    stages = [stage for step in steps if isinstance(step, ComputeStep) for stage in step.computation.stages]
    rules = [lookup.rule for stage in stages for lookup in stage.lookups]

    assert rules == ["indices are -T to T - 1"]


@pytest.mark.parametrize(
    "statements",
    [
        "op reshape(x, shape=[4, 4]) >> y;",
        "op slice(x, axes=[0], starts=[p], ends=[q]) >> part; op relu(part) >> y;",
        "op slice(x, axes=[0], starts=[U], ends=[T], steps=[2]) >> part; op softmax(part) >> y;",
        "op narrow(x, axis=0, start=p, length=q) >> part; op sum_axis(part, axes=[0]) >> y;",
    ],
)
def test_no_message_shows_a_name_of_the_planner(statements):
    assert not [text for text in demands(planned(statements)) if INTERNAL.search(text)]


def test_the_rule_and_the_definition_of_a_statement_run_once(monkeypatch):
    runs: Counter[str] = Counter()

    def counted(name, function):
        def call(*arguments, **named):
            runs[name] += 1
            return function(*arguments, **named)

        return call

    monkeypatch.setattr(sized_calls, "call_of", counted("rule", sized_calls.call_of))
    monkeypatch.setattr(computations, "_definition", counted("definition", computations._definition))

    planned(
        "op matmul(x, x, trans_b=true) >> s; op softmax(s) >> p_; op matmul(p_, x) >> a; op concat(a, x, axis=0) >> y;"
    )

    assert (runs["rule"], runs["definition"]) <= (6, 4)


def test_sizes_whose_number_an_operator_needs_are_refused_by_name():
    with pytest.raises(SynthesisError, match=r"resize2d has no form for every size .*`.*T") as caught:
        planned("op reshape(x, shape=[1, 1, T, 2]) >> image; op resize2d(image, scale=1.7) >> y;")

    assert caught.value.code == "unsupported"


def test_equal_sizes_are_one_parameter():
    steps = planned("op sum_axis(x, axes=[1]) >> row; op add(row, g) >> y;")

    (added,) = [step.computation for step in steps if isinstance(step, ComputeStep) and "add" in step.op]

    assert isinstance(added, Computation)
    assert [var.name for var in added.parameters] == ["extent_T"]
