"""Statements on sizes that are known at run time only: one run of rule and definition, and guards in words."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from given_plugins import load, operator, ops, plugin

from openinfer.affine import Index
from openinfer.compute.stage import Computation
from openinfer.dims.lets import Signed
from openinfer.dsl import graph
from openinfer.errors import SynthesisError, ValidationError
from openinfer.loops import If
from openinfer.model import Model
from openinfer.ops import computations
from openinfer.ops.schema import Compute, InputSpec, OpTypeError
from openinfer.plan import PlanOptions, make_plan, sized_calls
from openinfer.plan.accesses import walk
from openinfer.plan.operands import symbols
from openinfer.plan.programs import loop_program
from openinfer.plan.steps import ComputeStep, CopyStep, EqualStep, PlaceStep
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import KernelTable
from openinfer.validate import resolve

TABLE = KernelTable("test", {}, frozenset({"f32", "i32", "i64", "u64", "bool"}), computations=True, state=True)
LIMITS = {"T": 8, "U": 8}
INTERNAL = re.compile(r"\b(n\d+|s_\w+|m\d+|extent_\w+|x\d+_\d+)\b")
"""Names that computations call sizes by, which no message may show."""


def planned(statements, declared="", memory="", results="y", environment=None):
    """Return the steps of a program over `x: f32[T, 2]`, `g: f32[U]`, and integers p and q."""
    text = f"""
    dynamic {{ x: f32[T, 2]; g: f32[U]; p: i32; q: i32; far: i64; }}
    {memory}
    block entry {{ {declared} {statements} op neg(g) >> other; return {results}, other; }}
    """
    model = Model.from_arrays({}, sizevars={"T": 3, "U": 2})
    environment = environment or Environment.default()
    resolved = resolve(graph(text), model, sizes=LIMITS, environment=environment)
    plan = make_plan(resolved, model, environment, TABLE, PlanOptions(given=LIMITS))
    return [step for procedure in plan.procedures for step in walk(procedure.steps)]


def demands(steps):
    return [s.demand.text for s in steps if isinstance(s, EqualStep | PlaceStep) and s.demand is not None]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("op reshape(x, shape=[4, 4]) >> y;", ["reshape: T must be 8"]),
        (
            "op reshape(x, shape=[p, 1]) >> y;",
            ["reshape: p + 1 must be at least 0", "reshape: p must be 2*T or -1"],
        ),
        ("op select(x, axis=0, index=p) >> y;", ["select: p must be -T to T - 1"]),
        ("op select(x, axis=1, index=p) >> y;", ["select: p must be -2 to 1"]),
        ("op select(x, axis=0, index=-1) >> y;", ["select: T must be at least 1"]),
        ("op narrow(g, axis=0, start=0, length=T) >> y;", ["narrow: U must be at least T"]),
        ("op split(x, axis=0, sizes=[U, T-U]) >> y, z;", ["split: T must be at least U"]),
        ("op sum_axis(x, axes=[1]) >> row; op add(row, g) >> y;", ["add: T and U must be equal, or one of them 1"]),
        ("op max_axis(x, axes=[0]) >> y;", ["max_axis: T must be at least 1"]),
        ("op slice(x, axes=[0], starts=[U], ends=[p]) >> y;", []),
        ("op pad(x, pads=[p, 0, 4 - p, 0]) >> y;", ["pad: T + p must be at least 0", "pad: T + 4 must be at least p"]),
        (
            'op pad(x, pads=[T, 0, 0-q, 0], mode="reflect") >> y;',
            ["pad: T must be at least q", "pad: T must be at least max(0, q) + min(1, 2*T - q)"],
        ),
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


def test_every_test_of_sizes_says_what_it_demands():
    """Also those of results that have to fit their variables, and of transfers."""
    steps = planned(
        "op slice(x, axes=[0], starts=[p], ends=[q]) >> part; op sum_axis(part, axes=[1]) >> y; transfer y >> z;",
        "assign z: f32[U];",
        "volatile { y: f32[T]; }",
    )
    tests = [step for step in steps if isinstance(step, EqualStep)]

    assert sorted(step.demand.text for step in tests) == [
        "sum_axis: dim 0 of part must be T",
        "transfer: T must be U",
    ]


@pytest.mark.parametrize(
    "statements",
    [
        'op pad(x, pads=[far, 0, 0, 0], mode="reflect") >> y;',
        "op reshape(x, shape=[3, -1]) >> y;",
        "op gt(g, g) >> mask; op nonzero(mask) >> places, n; op reshape(places, shape=[n, 2]) >> y;",
    ],
)
def test_no_refusal_shows_a_size_as_computations_call_it(statements):
    with pytest.raises((SynthesisError, ValidationError)) as caught:
        planned(statements)
    assert not INTERNAL.search(str(caught.value))


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


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("op sum_axis(x, axes=p) >> y;", "its results differ in form for different values of `p`"),
        ("op transpose(x, perm=[p, q]) >> y;", "its results differ in form for different values of `p`"),
        ("op cumsum(x, axis=p) >> y;", "it computes in different ways for different values of `p`"),
    ],
)
def test_a_dim_that_memory_names_is_refused_where_several_are_legal(statement, reason):
    with pytest.raises(SynthesisError, match=re.escape(reason)) as caught:
        planned(statement)

    assert caught.value.code == "unsupported"


def test_a_dim_that_memory_names_is_planned_where_one_is_legal():
    steps = planned("op cumsum(g, axis=p) >> y;")

    assert demands(steps) == ["cumsum: p + 1 must be at least 0", "cumsum: 0 must be at least p"]


def test_equal_sizes_are_one_parameter():
    steps = planned("op reshape(g, shape=[U, 1]) >> column; op concat(x, column, axis=1) >> y;")

    (added,) = [step.computation for step in steps if isinstance(step, ComputeStep) and "concat" in step.op]

    assert isinstance(added, Computation)
    assert [var.name for var in added.parameters] == ["extent_T"]


def limited(*lengths):
    """Return an environment with an operator that copies, and whose definition refuses one of some lengths."""

    def define(k, call):
        (x,) = k.inputs
        for length in lengths:
            if call.inputs[0].shape[0] == length:
                raise OpTypeError(f"has no form for {length} rows")
        at = k.axes(*call.outputs[0].shape)
        k.outputs[0][at] = x[at]

    copy = operator("copy_some", definition=Compute(define))
    return load(("example", plugin(ops(copy))))


def test_an_answer_that_a_definition_refuses_the_opposite_of_is_a_guard():
    steps = planned("op copy_some(x) >> y;", environment=limited(5, 7))

    assert demands(steps) == ["copy_some: T must not be 5", "copy_some: T must not be 7"]


def test_a_difference_that_must_not_be_0_is_tested_without_its_square():
    def infer(inputs, settings, declared):
        if inputs[0].shape[0] == inputs[1].shape[0] + 1:
            raise OpTypeError("has one more row")
        return (inputs[0],)

    def define(k, call):
        at = k.axes(*call.outputs[0].shape)
        k.outputs[0][at] = k.inputs[0][at]

    two = operator("of_two", inputs=(InputSpec(name="x"), InputSpec(name="g")), infer=infer, definition=Compute(define))

    steps = planned("op of_two(x, g) >> y;", environment=load(("example", plugin(ops(two)))))

    (clipped, at_least_one) = [step for step in steps if isinstance(step, PlaceStep | EqualStep)]
    assert demands(steps) == ["of_two: T must not be U + 1"]
    assert (clipped.range.low, clipped.range.high) == (Index.of(-1), Index.of(1))
    assert clipped.register in {symbol.operand.number for symbol in symbols(at_least_one.value)}


def test_a_computed_size_that_may_be_negative_is_a_parameter_without_a_least_value():
    steps = planned("op slice(x, axes=[0], starts=[p], ends=[q], steps=[-1]) >> y;")

    parameters = [var for step in steps if isinstance(step, ComputeStep) for var in step.computation.parameters]

    assert any(isinstance(var, Signed) for var in parameters)


ENDLESS = {
    "op tile(x, repeats=[far, 1]) >> y;": "T*far",
    "op tile(x, repeats=[floor((far+p)/q), 1]) >> y;": "T*floor((far + p)/q)",
    "op tile(x, repeats=[far%(q+far), 1]) >> y;": "T*(far%(far + q))",
    "op expand(x, shape=[far, T, 2]) >> y;": "far",
    "op pad(x, pads=[far, 0, far, 0]) >> y;": "T + 2*far",
}


@pytest.mark.parametrize("statement", ENDLESS)
def test_a_result_without_a_largest_shape_is_refused(statement):
    message = f"`{ENDLESS[statement]}` has no largest value (declare the result with its shape,"
    with pytest.raises(SynthesisError, match=re.escape(message)):
        planned(statement)


def test_a_shape_from_memory_is_a_copy_whose_extents_are_within_its_elements():
    steps = planned("op reshape(x, shape=[-1, far]) >> y;")

    (copy,) = (step for step in steps if isinstance(step, CopyStep))
    assert copy.count is not None
    assert demands(steps)[-1] == "reshape: 16 must be at least far"


def test_a_shape_from_memory_that_would_need_far_more_room_than_elements_is_refused():
    with pytest.raises(SynthesisError, match="each extent of the result may be 262,144, for which it would need room"):
        planned("op reshape(wide, shape=[far, far]) >> y;", memory="volatile { wide: f32[512, 512] @init(0.5); }")


@pytest.mark.parametrize("statement", ENDLESS)
def test_a_result_that_is_declared_has_the_room_of_its_declaration(statement):
    shape = "4, T, 2" if "expand" in statement else "T + 4, 2"
    steps = planned(statement, declared=f"assign y: f32[{shape}];")

    assert any(isinstance(step, EqualStep) for step in steps)


def test_a_length_that_is_copied_from_another_is_that_one():
    memory = "persistent { n: i32; S(t): f32 @table; }"
    body = "cache.read S[0..n] >> row; op neg(row) >> y; op add(y, row) >> y;"
    text = f"dynamic {{ p: i32; }} {memory} block entry {{ {body} return y; }}"
    model, environment = Model.from_arrays({}), Environment.default()
    plan = make_plan(resolve(graph(text), model), model, environment, TABLE, PlanOptions(limits={"t": 8}))

    steps = [step for step in walk(plan.procedures[-1].steps) if isinstance(step, ComputeStep)]

    assert not any(isinstance(step, EqualStep) for step in walk(plan.procedures[-1].steps))
    assert [len(step.arguments) for step in steps] == [1, 1]


def test_statements_on_sizes_that_broadcast_are_fused_in_two_versions():
    (step,) = (
        step
        for step in planned("op sum_axis(x, axes=[1]) >> row; op add(row, g) >> s; op mul(s, g) >> t; op neg(t) >> y;")
        if isinstance(step, ComputeStep) and "add" in step.op
    )

    tests = [statement.tests for statement in loop_program(step).body if isinstance(statement, If)]

    assert step.op == "add+mul+neg"
    assert [str(test) for (test,) in tests] == ["0 <= n2*n4 - 1 < 1", "0 <= n2*n4 < 1"]


def test_an_extent_that_is_declared_is_never_negative_where_it_is_read():
    """Steps that make it negative are refused by the declaration: the rule of the reader asks nothing."""
    steps = planned("op slice(less, starts=[0], ends=[2], axes=[0]) >> y;", declared="assign less: f32[U - 1];")

    assert set(demands(steps)) == {"`less`: U-1 must be at least 0"}


@pytest.mark.parametrize(
    "statement",
    [
        "op slice(x, axes=[0], starts=[far*4611686018427387904*4], ends=[2]) >> y;",
        "loop rows (i in 0..far*4611686018427387904*4) { barrier; } op neg(x) >> y;",
    ],
)
def test_numbers_of_more_than_64_bits_are_refused_at_their_statement(statement):
    with pytest.raises(SynthesisError, match=r"^<text>:4:.* has numbers of more than 64 bits"):
        planned(statement)
