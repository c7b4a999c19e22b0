"""Plans made from programs: what is chosen, fused and kept, and what cannot be planned."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import SynthesisError
from openinfer.expr.linear import linearise
from openinfer.model import Model
from openinfer.plan import PlanOptions, make_plan
from openinfer.plan.document import plan_json
from openinfer.plan.steps import CallStep, ComputeStep, CopyStep, FillStep, KernelStep, LoopStep
from openinfer.plan.values import ArenaMemory, InputMemory, OutputMemory, Role, WeightMemory
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import KernelTable
from openinfer.plugins.types import KernelSpec
from openinfer.validate import resolve

KERNELS = {name: (KernelSpec(op=name, kernel=None),) for name in ("matmul", "transpose")}
TABLE = KernelTable("test", KERNELS, frozenset({"f32", "f64", "i32", "i64", "bool"}))
COMPUTING = replace(TABLE, computations=True)
"""A target that carries out operators by their stages."""


def plan_of(text, arrays=None, sizes=None, metadata=None, epilogues=True, table=None):
    model = Model.from_arrays(arrays or {}, sizevars=sizes or {}, metadata=metadata or {})
    environment = Environment.default()
    resolved = resolve(graph(text), model, environment=environment)
    return make_plan(resolved, model, environment, table or TABLE, PlanOptions(epilogues=epilogues))


def entry(plan):
    return plan.procedures[-1].steps


def kinds(plan):
    return [type(step).__name__.removesuffix("Step") for step in entry(plan)]


CHAIN = """
dynamic {{ x: f32[4]; }}
volatile {{ y: f32[4]; }}
block entry {{
  assign t: f32[4];
  op add(x, x) >> t{first};
  {between}
  op relu(t) >> y{second};
  return y;
}}
"""


def chain(first="", between="", second=""):
    return kinds(plan_of(CHAIN.format(first=first, between=between, second=second)))


def test_a_chain_of_elementwise_operators_is_fused():
    plan = plan_of(CHAIN.format(first="", between="", second=""))

    (step, _) = entry(plan)
    assert isinstance(step, ComputeStep)
    assert step.op == "add+relu"
    assert [(s.line, s.text) for s in step.origin.statements] == [(6, "op add(x, x) >> t"), (8, "op relu(t) >> y")]
    assert plan.arena_nbytes == 0


@pytest.mark.parametrize(
    "parts",
    [
        {"between": "barrier;"},
        {"first": " with { fuse=false }"},
        {"second": " with { fuse=false }"},
        {"first": ' with { group="a" }', "second": ' with { group="b" }'},
    ],
)
def test_what_keeps_operators_apart(parts):
    assert chain(**parts).count("Compute") == 2


def test_scopes_are_boundaries_of_fusion():
    text = """
    dynamic { x: f32[4]; }
    volatile { y: f32[4]; }
    block entry {
      assign t: f32[4];
      scope "one" { op add(x, x) >> t; }
      scope "two" { op relu(t) >> y; }
      return y;
    }
    """
    assert kinds(plan_of(text)).count("Compute") == 2


MATMUL = """
dynamic { x: f32[2, 3]; }
volatile { w: f32[3, 4]; b: f32[4]; y: f32[2, 4]; }
block entry {
  op matmul(x, w) >> y;
  op add(y, b) >> y;
  op relu(y) >> y;
  return y;
}
"""
WEIGHTS = {"w": np.zeros((3, 4), np.float32), "b": np.ones(4, np.float32)}


def test_elementwise_operators_become_the_epilogue_of_a_kernel():
    (step, _) = entry(plan_of(MATMUL, WEIGHTS))

    assert isinstance(step, KernelStep)
    assert step.call.op == "matmul"
    assert len(step.origin.statements) == 3
    assert step.epilogue is not None


def test_a_target_without_epilogues_gets_none():
    plan = plan_of(MATMUL, WEIGHTS, epilogues=False)

    assert kinds(plan) == ["Kernel", "Compute", "Return"]


def test_roles_and_memory():
    plan = plan_of(
        MATMUL.replace("volatile {", "constant { c: f32[2, 4] @init(2.0); } volatile {")
        .replace("op relu(y) >> y;", "op mul(y, c) >> y; op transpose(y) >> z; op transpose(z) >> y;")
        .replace("block entry {", "block entry { assign z: f32[4, 2];"),
        WEIGHTS,
    )

    by_name = {value.name: value for value in plan.values}
    assert isinstance(by_name["x"].memory, InputMemory)
    assert isinstance(by_name["w"].memory, WeightMemory)
    assert isinstance(by_name["y"].memory, OutputMemory)
    assert isinstance(by_name["z"].memory, ArenaMemory)
    assert by_name["c"].role is Role.CONSTANT
    assert [port.name for port in plan.outputs] == ["y"]


def test_without_a_return_every_written_volatile_is_a_result():
    text = """
    dynamic { x: f32[2]; }
    volatile { b: f32[2]; never: f32[2]; a: f32[2]; }
    block entry { op add(x, x) >> a; transfer a >> b; }
    """
    assert [port.name for port in plan_of(text).outputs] == ["b", "a"]


def test_zeros_that_are_overwritten_are_not_written():
    plan = plan_of("dynamic { x: f32[2]; } block entry { assign t: f32[2]; op add(x, x) >> t; return t; }")

    assert not any(isinstance(step, FillStep) for step in entry(plan))


def test_a_loop_that_never_runs_is_left_out():
    text = """
    dynamic { x: f32[2]; }
    block entry { loop none (i in 3..3) { op add(x, x) >> x; } loop two (i in 0..L) { op add(x, x) >> x; } return x; }
    """
    loops = [step for step in entry(plan_of(text, sizes={"L": 2})) if isinstance(step, LoopStep)]

    assert [(loop.name, loop.runs) for loop in loops] == [("two", True)]


def test_a_block_that_is_never_called_is_left_out():
    text = """
    dynamic { x: f32[2]; }
    block entry { loop none (i in 3..3) { branch never; } op add(x, x) >> x; return x; branch never; }
    block never { return; }
    """
    assert [procedure.name for procedure in plan_of(text).procedures] == ["entry"]


def test_a_result_that_only_a_block_never_called_would_write_is_given_its_initial_value():
    text = """
    dynamic { x: f32[3]; }
    volatile { y: f32[3] @init(5.0); }
    block entry { loop none (i in 2..2) { branch never; } return x, y; }
    block never { op add(x, x) >> x; op add(y, x) >> y; return; }
    """
    plan = plan_of(text)

    copied = [(plan.values[s.source.value].name, s.output) for s in entry(plan) if isinstance(s, CopyStep)]
    assert copied == [(port.name, port.value) for port in plan.outputs]


def test_entries_of_a_prefix_table_that_can_be_requested():
    text = """
    dynamic { x: f32[2]; }
    volatile { w(l): f32[2] @pattern("w.{l}"); y: f32[2]; }
    block entry { loop layers (l in 1..3) { op add(y, w[l]) >> y; } op add(y, x) >> y; return y; }
    """
    arrays = {f"w.{number}": np.full(2, number, np.float32) for number in range(5)}

    plan = plan_of(text, arrays)

    (table,) = plan.tables
    assert (table.starts, table.extents) == ((1,), (2,))
    assert [plan.weights[number].source for number in table.entries] == ["w.1", "w.2"]


def test_entries_that_are_far_apart_are_read_by_number_without_a_table_between():
    text = """
    volatile { w(l): f32 @pattern("w.{l}"); y: f32; }
    block entry { transfer w[100000] >> y; op add(y, w[0]) >> y; return y; }
    """
    plan = plan_of(text, {"w.0": np.float32(1), "w.7": np.float32(2), "w.100000": np.float32(3)})

    (table,) = plan.tables
    assert table.entries == ()
    assert [(i, plan.weights[n].source) for i, n in table.fixed] == [((100000,), "w.100000"), ((0,), "w.0")]
    assert len(plan.weights) == 2


def test_adjacent_indices_are_separated_in_every_way():
    text = """
    dynamic { a: i64; b: i64; }
    volatile { w(l, h): f32 @pattern("w{l}{h}"); y: f32; }
    block entry { transfer w[a, b] >> y; return y; }
    """
    (table,) = plan_of(text, {"w123": np.float32(1), "w105": np.float32(2), "w1": np.float32(3)}).tables

    places = itertools.product(*(range(s, s + n) for s, n in zip(table.starts, table.extents, strict=True)))
    found = {place for place, entry in zip(places, table.entries, strict=True) if entry is not None}
    assert found == {(1, 23), (12, 3), (10, 5)}


def test_run_time_indices_that_span_too_much_are_refused():
    text = """
    dynamic { at: i64; }
    volatile { w(l): f32 @pattern("w.{l}"); y: f32; }
    block entry { transfer w[at] >> y; return y; }
    """
    assert len(plan_of(text, {"w.0": np.float32(1), "w.100000": np.float32(2)}).tables[0].entries) == 100001
    with pytest.raises(SynthesisError, match="span more than 1048576 places"):
        plan_of(text, {"w.0": np.float32(1), "w.1048576": np.float32(2)})


def test_a_setting_may_name_a_constant_of_the_model():
    text = """
    dynamic { x: f32[2]; }
    constant { slope: f32; }
    volatile { y: f32[2]; }
    block entry { op relu(x, alpha=slope) >> y; return y; }
    """
    plan = plan_of(text, metadata={"slope": 0.25})

    literals = [
        i.value for i in linearise(entry(plan)[0].computation.stages[0].value).instructions if i.function == "literal"
    ]
    assert 0.25 in literals


@pytest.mark.parametrize(
    ("body", "message", "line"),
    [
        ("op relu(x, alpha=s) >> y;", "setting 'alpha' depends on 's'", 5),
        ("cache.increment n;", "`cache.increment` cannot be synthesised", 5),
        ("op conv2d(image, image) >> image;", "test has no kernel for conv2d", 5),
        ("branch again;", "block 'again' reaches itself", 8),
        ("op add(half, half) >> half;", "test has no add for f16", 5),
    ],
)
def test_what_cannot_be_planned_names_construct_and_line(body, message, line):
    text = f"""dynamic {{ x: f32[2]; s: f32; image: f32[1, 1, 1, 1]; half: f16[2]; }}
    volatile {{ y: f32[2]; }}
    persistent {{ n: i32; }}
    block entry {{
      {body}
      return x;
    }}
    block again {{ branch again; }}
    """
    with pytest.raises(SynthesisError, match=message) as caught:
        plan_of(text)

    (finding,) = caught.value.diagnostics
    assert finding.span.line == line


def test_every_statement_that_is_refused_is_named_with_what_to_write_instead():
    text = """dynamic { x: f32[3, 2]; i: i64; s: f32; }
    volatile { y: f32[2]; }
    persistent { n: i32; k(t): f32[2] @table; }
    block entry {
      cache.increment n;
      loop turns (l in 0..3) { op select(x, axis=0, index=l) >> y; op sum_axis(x, axes=[l - l]) >> y; }
      op select(x, axis=0, index=i) >> y;
      op add(y, y) >> y;
      branch deeper;
      return y;
    }
    block deeper { op relu(y, alpha=s) >> y; cache.read k[0] >> y; return; }
    """
    with pytest.raises(SynthesisError, match=r"setting 'alpha' depends on 's'.*\(and 5 more\)$") as caught:
        plan_of(text)

    assert [(finding.span.line, finding.hint.partition(":")[0]) for finding in caught.value.diagnostics] == [
        (12, "declare `s` as constant with data in the model, or write its value"),
        (12, "keep the state outside of the program"),
        (5, "keep the state outside of the program"),
        (6, "`op gather(x, l, axis=0)` takes such an index as an input"),
        (6, "take the statement out of the loop, and write it once for each value of `l`"),
        (7, "`op gather(x, i, axis=0)` takes such an index as an input"),
    ]


def test_a_program_without_results_is_an_error():
    with pytest.raises(SynthesisError, match="no results") as caught:
        plan_of("dynamic { x: f32[2]; } block entry { op add(x, x) >> x; }")

    assert caught.value.code == "no-outputs"


def test_an_empty_slice_has_no_greatest_element():
    with pytest.raises(Exception, match="empty"):
        plan_of("dynamic { x: f32[2, 0]; } block entry { assign y: f32[2]; op max_axis(x, axes=1) >> y; return y; }")


FLOW = """
dynamic { x: f32[4]; go: bool; }
volatile { y: f32[4]; }
block entry { branch go yes no; op softmax(y) >> y; return y; }
block yes { op add(x, x) >> y; }
block no { barrier; op fill(y, value=inf) >> y; }
"""


def test_the_document_is_json_and_the_same_every_time():
    first, second = (json.dumps(plan_json(plan_of(FLOW, table=COMPUTING)), allow_nan=False) for _ in range(2))

    assert first == second
    assert json.loads(first)["format"] == "openinfer-plan"


def test_the_document_has_the_stages_of_a_computation_and_their_schedules():
    made = plan_json(plan_of(CHAIN.format(first="", between="", second="")))
    step = made["blocks"][0]["steps"][0]

    assert step["computation"][0].startswith("def ")
    assert step["schedules"] == ["i0:4 i0=lanes"]


def test_the_report_and_the_memory_map_show_steps_and_places():
    plan = plan_of(FLOW, table=COMPUTING)

    assert "  if go call yes else no  (line 4)" in plan.report().splitlines()
    assert plan.memory_map().splitlines()[0] == f"arena of {plan.arena_nbytes} bytes"
    assert any(isinstance(step, CallStep) for step in entry(plan))
    assert any(isinstance(step, ComputeStep) and step.computation.stages[0].fold for step in entry(plan))


def test_the_memory_map_counts_the_halo_of_a_value():
    text = """
      dynamic { x: f32[1, 1, 4, 4]; }
      constant { w: f32[1, 1, 3, 3]; }
      volatile { y: f32[1, 1, 2, 2]; }
      block entry { op conv2d(x, w, stride=2, padding=1) >> y; return y; }
    """
    plan = plan_of(text, {"w": np.ones((1, 1, 3, 3), np.float32)}, table=COMPUTING)

    (row,) = [line.split() for line in plan.memory_map().splitlines() if "x.bordered" in line]
    assert row == ["0", str(5 * 5 * 4), "x.bordered", "f32[1,1,4,4]"]


def test_a_step_without_inputs_and_an_arena_without_values_leave_no_holes():
    plan = plan_of("dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op add(x, x) >> y; return y; }")
    filled = plan_of("dynamic { x: f32[2]; } block entry { assign y: f32[2]; op fill(y, value=2) >> y; return y; }")

    assert plan.memory_map() == "arena of 0 bytes"
    assert not [line for line in filled.report().splitlines() if "  >>" in line]
    assert any(line.strip().startswith("fill >> y") for line in filled.report().splitlines())


def test_an_input_that_is_overwritten_in_vain_is_read_in_place():
    plan = plan_of(
        "dynamic { x: f32[2]; } block entry { assign t: f32[2]; op add(x, x) >> t; op mul(t, t) >> x; return t; }"
    )

    assert isinstance(plan.values[plan.inputs[0].value].memory, InputMemory)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"between": "barrier;"}, "barrier or return before its reader"),
        ({"first": " with { fuse=false }"}, "kept apart from relu by hints or scopes"),
        ({"between": "op mul(t, t) >> u;"}, "needed after mul"),
        ({"between": "op sum_axis(t, axes=[0]) >> s; op add(t, s) >> u;"}, "needed after sum_axis"),
        ({"between": "op matmul(t, t) >> s; op add(x, s) >> u;"}, "read by matmul"),
        (
            {"between": "op fill(x, value=1) >> x; op matmul(x, x) >> s; op add(x, s) >> u;"},
            "an operand changes before its reader",
        ),
    ],
)
def test_a_plan_says_why_a_result_is_stored(parts, reason):
    text = CHAIN.replace("assign t: f32[4];", "assign t: f32[4]; assign u: f32[4]; assign s: f32;")
    text = text.replace("return y;", "op add(y, u) >> y; return y;")

    report = plan_of(text.format(**{"first": "", "between": "", "second": "", **parts})).report()

    assert f"stored: {reason})" in next(line for line in report.splitlines() if line.startswith("  add x"))


VIEWS = """
dynamic {{ x: f32[4, 6]; }}
volatile {{ y: f32[6, 4]; }}
block entry {{
  assign a: f32[24]; assign b: f32[4, 6]; assign c: f32[6, 4]; assign d: f32[4, 6];
  {}
  return y;
}}
"""


@pytest.mark.parametrize(
    ("statements", "kinds", "arena"),
    [
        # Of what was computed, of an input, and where one of the two is a result.
        ("op relu(x) >> d; op reshape(d) >> a; op reshape(a) >> b; op transpose(b) >> y;", "relu view view", 128),
        ("op reshape(x) >> a; op reshape(a) >> b; op transpose(b) >> y;", "view view", 0),
        ("op transpose(x) >> c; op reshape(c) >> b; op reshape(b) >> y;", "transpose view view", 0),
        # The result of the first reshape changes while what it was reshaped from is needed.
        (
            "op transpose(x) >> c; op reshape(c) >> b; op add(b, x) >> b; op transpose(b) >> y; op add(y, c) >> y;",
            "copy",
            256,
        ),
        # What is written cannot be the memory of an input.
        ("op reshape(x) >> a; op relu(a) >> a; op reshape(a) >> b; op transpose(b) >> y;", "copy relu view", 128),
    ],
)
def test_a_reshape_is_a_view_where_neither_changes_while_the_other_is_needed(statements, kinds, arena):
    plan = plan_of(VIEWS.format(statements), table=COMPUTING)

    found = [step["kind"] for step in plan_json(plan)["blocks"][0]["steps"]]
    assert kinds in " ".join(found)
    assert plan.arena_nbytes == arena


def test_a_setting_that_divides_by_a_constant_zero_is_refused_at_its_statement():
    text = """
    dynamic { x: f32[4]; }
    constant { n: i64 @init(0); }
    block entry {
      op slice(x, starts=[0], ends=[4 / n]) >> y;
      return y;
    }
    """
    with pytest.raises(SynthesisError, match="slice: `4/n` divides 4 by 0") as caught:
        plan_of(text)
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.span.line) == ("bad-division", 5)


def test_intermediate_results_of_one_name_are_numbered_in_written_order():
    statements = "op rms_norm(y) >> y; " * 3
    plan = plan_of(f"volatile {{ y: f32[4]; }} block entry {{ {statements} return; }}", table=COMPUTING)

    found = [value.name for value in plan.values if value.name.startswith("y.mean_axis")]
    assert found == ["y.mean_axis", "y.mean_axis.2", "y.mean_axis.3"]
