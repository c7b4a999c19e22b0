"""Costs of plans whose sizes differ from step to step, against those of plans of programs that have these sizes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.estimate import estimate, estimate_text, plan_document
from openinfer.model import Model
from openinfer.plan import PlanOptions, make_plan
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import KernelTable
from openinfer.validate import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plan.execution_plan import ExecutionPlan

TABLE = KernelTable("test", {}, frozenset({"f32", "i64", "bool"}), computations=True, state=True)
LIMITS = {"T": 128, "U": 64}
MODEL = Model.from_arrays({"w": np.ones((8, 8), np.float32)}, sizevars=dict.fromkeys(LIMITS, 4))

HEAD = "dynamic { x: f32[T, 8]; k: f32[U, 8]; } constant { w: f32[8, 8]; } block entry {"
PROGRAMS = {
    "product": "op matmul(x, w) >> y; return y;",
    "softmax of products": "op matmul(x, w) >> h; op softmax(h, axis=1) >> a; op relu(a) >> y; return y, h;",
    "two sizes": "op matmul(x, k, trans_b=true) >> s; op relu(s) >> y; return y, s;",
    "sum of two sizes": "op concat(x, k, axis=0) >> z; op sum_axis(z, axes=[0]) >> y; return y, z;",
    "loop over a size": "op exp(k) >> y; loop turn (i in 0..T) { op exp(y) >> y; } return y;",
    "bits": "op is_nan(x) >> m; op not(m) >> y; return y;",
}


def planned(text: str, sizes: Mapping[str, int], limits: Mapping[str, int]) -> ExecutionPlan:
    """Return a plan without fusion, whose steps are the same at all sizes."""
    program, environment = graph(f"{HEAD} {text} }}"), Environment.default()
    resolved = resolve(program, MODEL, sizes={**sizes, **limits}, environment=environment)
    options = PlanOptions(given=limits, most_ops=1)
    return make_plan(resolved, MODEL, environment, TABLE, options)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("sizes", [{"T": 1, "U": 1}, {"T": 5, "U": 64}, {"T": 17, "U": 3}, LIMITS])
def test_costs_at_some_sizes_are_those_of_a_program_that_always_has_them(name: str, sizes: dict[str, int]) -> None:
    varying, fixed = (
        [
            (step.times or 1, step.operations, step.macs, step.written_nbytes)
            for step in made.steps
            if step.operations or step.written_nbytes
        ]
        for made in (
            estimate(planned(PROGRAMS[name], {}, LIMITS)).at(sizes),
            estimate(planned(PROGRAMS[name], sizes, {})),
        )
    )
    assert varying == fixed


def test_live_bytes_are_an_expression_and_the_arena_holds_them_at_the_limits() -> None:
    plan = planned("op matmul(x, w) >> h; op softmax(h, axis=1) >> a; op matmul(a, w) >> y; return y;", {}, LIMITS)
    live = estimate(plan).live_nbytes
    assert str(live).endswith("*T")
    assert estimate(plan).at(LIMITS).live_nbytes <= plan.arena_nbytes
    assert estimate(plan).at({"T": 1, "U": 1}).live_nbytes * LIMITS["T"] == estimate(plan).at(LIMITS).live_nbytes
    assert estimate(plan).at({"T": 0, "U": 0}).live_nbytes == 0


def test_text_and_json_have_numbers_of_the_largest_sizes_and_expressions() -> None:
    plan = planned(PROGRAMS["product"], {}, LIMITS)
    costs = estimate(plan)
    text = estimate_text(plan, costs)
    assert "sizes     T = 128, U = 64 at most" in text
    work = " ".join(text.split())
    assert "work 16,384 operations, 128*T in a step (8,192 multiply-accumulates, 64*T in a step); " in work
    totals = json.loads(json.dumps(plan_document(plan, costs)))["totals"]
    assert totals["operations"] == 2 * 128 * 8 * 8
    assert totals["macs"] == 128 * 8 * 8
    assert {name: totals["expressions"][name] for name in ("operations", "macs")} == {
        "operations": "128*T",
        "macs": "64*T",
    }


def test_a_size_that_steps_are_not_given_stays_a_number() -> None:
    plan = planned(PROGRAMS["product"], {"T": 6}, {})
    assert estimate(plan).operations == 2 * 6 * 8 * 8
    assert "sizes" not in estimate_text(plan, estimate(plan))


def test_accesses_that_tests_of_sizes_keep_in_bounds_are_not_counted() -> None:
    plan = planned("op select(x, axis=0, index=-1) >> y; return y;", {}, LIMITS)
    assert [step.needs_guards for step in estimate(plan).steps if step.written_nbytes] == [True]
    text = estimate_text(plan, estimate(plan))
    assert "those of 1 step are in bounds by tests of sizes" in text
    assert "accesses  in bounds by tests of sizes before the step" in text
