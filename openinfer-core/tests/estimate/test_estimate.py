"""What plans cost: operations, bytes, memory and cycles against numbers that are counted by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.arch import DeviceArch, TargetInfo
from openinfer.dsl import graph
from openinfer.estimate import PlanEstimate, StepEstimate, estimate, estimate_text, plan_document
from openinfer.layout import row_major
from openinfer.model import Model
from openinfer.plan import PlanOptions, make_plan
from openinfer.plan.steps import ComputeStep
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import KernelTable
from openinfer.schedule.tiling import estimated, ranked
from openinfer.validate import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plan.execution_plan import ExecutionPlan

TABLE = KernelTable("test", {}, frozenset({"f32", "i64", "bool"}), computations=True, state=True)
MACHINE = TargetInfo(vector_nbytes=16, registers=16)


def plan_of(
    text: str,
    arrays: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    machine: TargetInfo = MACHINE,
) -> ExecutionPlan:
    model = Model.from_arrays(arrays or {}, sizevars=sizes or {})
    environment = Environment.default()
    resolved = resolve(graph(text), model, environment=environment)
    return make_plan(resolved, model, environment, TABLE, PlanOptions(machine=machine))


def only_step(text: str, **arrays: Any) -> StepEstimate:
    """Return the estimate of the first step of a program."""
    return estimate(plan_of(text, arrays)).steps[0]


PRODUCT = """
dynamic { x: f32[3, 8]; }
volatile { w: f32[8, 20]; y: f32[3, 20]; }
block entry { op matmul(x, w) >> y; return y; }
"""


def test_a_product_takes_a_multiplication_and_an_addition_for_each_term() -> None:
    found = only_step(PRODUCT, w=np.ones((8, 20), np.float32))

    assert found.operations == 2 * 3 * 20 * 8
    assert found.macs == 3 * 20 * 8
    assert (found.read_nbytes, found.written_nbytes) == (4 * (3 * 8 + 8 * 20), 4 * 3 * 20)
    assert found.weight_nbytes == 4 * 8 * 20
    assert found.guarded == 0
    assert found.proved > 0


def test_the_cost_model_names_its_choice_and_the_next_best() -> None:
    (choice,) = only_step(PRODUCT, w=np.ones((8, 20), np.float32)).choices

    assert choice.cycles is not None
    assert choice.runner_up is not None
    assert choice.runner_up_cycles is not None
    assert choice.runner_up != choice.schedule
    # A product of 480 multiply-adds in lanes of four, two at a time, takes 60 cycles at least.
    assert 3 * 20 * 8 / 4 / 2 < choice.cycles < 480


def test_the_cycles_of_a_schedule_are_those_of_the_tiling_that_it_was_made_from() -> None:
    (step, *_) = plan_of(PRODUCT, {"w": np.ones((8, 20), np.float32)}).procedures[-1].steps
    assert isinstance(step, ComputeStep)
    computation = step.computation
    (stage,) = computation.stages
    layouts = {tensor.name: row_major(tensor.shape) for tensor in (*computation.inputs, *computation.outputs)}

    found = ranked(stage, layouts, MACHINE, 4)

    assert len(found) > 2
    assert [estimated(stage, layouts, MACHINE, 4, schedule) for _, schedule in found] == [cycles for cycles, _ in found]


def test_a_lookup_reads_the_elements_that_it_takes_and_not_the_whole_table() -> None:
    text = """
    dynamic { i: i64[3]; }
    volatile { w: f32[1000, 8]; y: f32[3, 8]; }
    block entry { op gather(w, i, axis=0) >> y; return y; }
    """
    found = only_step(text, w=np.ones((1000, 8), np.float32))

    # Three indices, and three rows of eight elements.
    assert found.read_nbytes == 3 * 8 + 3 * 8 * 4
    assert found.weight_nbytes == 32000


LOOP = """
dynamic { x: f32[4]; n: i64; }
volatile { y: f32[4]; }
block entry {
  op neg(x) >> y;
  loop l (i in 0..BOUND) { op sqrt(y) >> y; }
  return y;
}
"""


@pytest.mark.parametrize(("bound", "times", "operations"), [("6", 6, 4 + 6 * 4), ("n", None, 4 + 4)])
def test_loops_of_known_bounds_count_as_often_as_they_run(bound: str, times: int | None, operations: int) -> None:
    found = estimate(plan_of(LOOP.replace("BOUND", bound)))

    assert found.steps[2].times == times
    assert found.operations == operations


def test_an_entry_of_a_cache_moves_its_own_bytes_and_not_those_of_the_cache() -> None:
    text = """
    dynamic { x: f32[8]; }
    volatile { y: f32[8]; }
    persistent { K(l): f32[8] @table @fixed(l=100); }
    block entry {
      cache.write x >> K[3];
      cache.read K[4] >> k;
      op neg(k) >> y;
      return y;
    }
    """
    plan = plan_of(text)
    moved = {step.number: (step.read_nbytes, step.written_nbytes) for step in estimate(plan).steps}

    # What is read stays where it is: a view.
    assert (moved[1], moved[2]) == ((32, 32), (0, 0))
    assert any(line.startswith("state     K: ") for line in estimate_text(plan, estimate(plan)).splitlines())


def board(wait_states: int) -> DeviceArch:
    flash = {"name": "flash", "bytes": 1 << 20, "kind": "flash", "wait_states": wait_states}
    return DeviceArch.load(
        {
            "version": 2,
            "device": {"type": "cpu", "api": "c"},
            "target": {"lanes": 1, "fpu": "single"},
            "memories": [{"name": "ram", "bytes": 1 << 20, "kind": "sram"}, flash],
        }
    )


def test_loads_of_weights_wait_for_flash_and_others_do_not() -> None:
    text = """
    dynamic { x: f32[8]; }
    constant { w: f32[8]; }
    volatile { y: f32[8]; z: f32[8]; }
    block entry { op add(x, w) >> y; barrier; op exp(y) >> z; return z; }
    """
    plan = plan_of(text, {"w": np.ones(8, np.float32)}, machine=board(0).machine)
    at_once, late = (estimate(replace(plan, arch=board(wait))).steps for wait in (0, 3))

    assert late[0].counted_cycles == at_once[0].counted_cycles + 8 * 3
    assert [step.counted_cycles for step in late[1:]] == [step.counted_cycles for step in at_once[1:]]


def test_live_memory_is_what_a_step_and_later_ones_need() -> None:
    text = """
    dynamic { x: f32[100]; }
    volatile { y: f32[100]; }
    block entry {
      op cumsum(x, axis=0) >> a;
      op cumsum(a, axis=0) >> b;
      op cumsum(b, axis=0) >> c;
      op add(c, a) >> y;
      return y;
    }
    """
    found = estimate(plan_of(text))

    # a is needed until the end, b lies next to it; the last scan stores its sum with a as y, which is the caller's.
    assert [step.live_nbytes for step in found.steps] == [400, 800, 800, 0]
    # A scan adds once for each element, and the last one once more.
    assert [step.operations for step in found.steps] == [100, 100, 200, 0]


MACS = {
    "conv2d(x, w, padding=1)": 2 * 8 * 5 * 6 * (4 * 3 * 3),
    "conv2d(x, d, groups=4)": 2 * 4 * 3 * 4 * (3 * 3),
    "conv2d(x, w, stride=2)": 2 * 8 * 2 * 2 * (4 * 3 * 3),
    "sum_axis(x, axes=[0])": 0,
    "max_axis(x, axes=[0])": 0,
    "softmax(x)": 0,
    "relu(x)": 0,
    "sdpa(x, x, x)": 2 * (2 * 4 * 5 * 5 * 6),
}


@pytest.mark.parametrize("op", MACS)
def test_macs_are_terms_of_sums_that_are_products(op: str) -> None:
    arrays = {"w": np.ones((8, 4, 3, 3), np.float32), "d": np.ones((4, 1, 3, 3), np.float32)}
    constants = "".join(f"constant {{ {key}: f32{list(w.shape)}; }} " for key, w in arrays.items() if f", {key}" in op)
    text = f"dynamic {{ x: f32[2, 4, 5, 6]; }} {constants} block entry {{ op {op} >> y; return y; }}"

    assert estimate(plan_of(text, arrays)).macs == MACS[op]


def test_macs_count_for_each_turn_of_a_loop() -> None:
    text = """
    dynamic { x: f32[3, 8]; }
    volatile { w: f32[8, 8]; }
    block entry {
      op identity(x) >> h;
      loop turns (i in 0..6) { op matmul(h, w) >> h; }
      return h;
    }
    """
    assert estimate(plan_of(text, {"w": np.ones((8, 8), np.float32)})).macs == 6 * 3 * 8 * 8


def test_the_text_fits_100_columns_and_sums_up() -> None:
    plan = plan_of(PRODUCT, {"w": np.ones((8, 20), np.float32)})
    found = estimate(plan)

    text = estimate_text(plan, found)

    assert max(map(len, text.splitlines())) <= 100
    assert "work      960 operations (480 multiply-accumulates); 976 bytes read and written" in text
    assert f"accesses  {found.proved} proved in bounds, 0 guarded by a test" in text


def test_large_numbers_are_rounded() -> None:
    text = (
        "dynamic { x: f32[512, 512]; } volatile { y: f32[512, 512]; } block entry { op matmul(x, x) >> y; return y; }"
    )
    plan = plan_of(text)

    row = estimate_text(plan, estimate(plan)).partition("block entry\n")[2].splitlines()[0]

    # 2 · 512³ operations, and matrices of 2²⁰ bytes, of which both operands are one.
    assert row.split()[7:11] == ["268M", "134M", "1Mi", "1Mi"]


def test_the_document_has_the_estimate_of_every_step() -> None:
    plan = plan_of(LOOP.replace("BOUND", "6"))
    found = estimate(plan)

    document = json.loads(json.dumps(plan_document(plan, found), allow_nan=False))

    assert (document["format"], document["version"]) == ("openinfer-plan", 1)
    assert document["totals"]["operations"] == 28
    steps = document["blocks"][0]["steps"]
    assert [step["estimate"]["number"] for step in steps] == [1, 2, 4]
    assert steps[1]["body"][0]["estimate"]["times"] == 6
    assert steps[0]["estimate"]["choices"][0]["schedule"] == steps[0]["schedules"][0]


def test_unknown_work_is_left_out_of_sums() -> None:
    found = PlanEstimate((StepEstimate(number=1, operations=None), StepEstimate(number=2, operations=5, times=None)))

    assert found.operations == 5


@pytest.mark.parametrize("statement", ["add(x, w)", "slice(x, axes=[0], starts=[U], ends=[T], steps=[2])"])
def test_accesses_that_a_plan_proves_by_sizes_are_no_error(statement: str) -> None:
    limits = {"T": 8, "U": 8}
    model, environment = Model.from_arrays({}, sizevars=limits), Environment.default()
    program = graph(f"dynamic {{ x: f32[T]; w: f32[U]; }} block entry {{ op {statement} >> y; return y; }}")
    resolved = resolve(program, model, sizes=limits, environment=environment)
    plan = make_plan(resolved, model, environment, TABLE, PlanOptions(machine=MACHINE, given=limits))

    assert estimate(plan).steps[-1].proved == 0
