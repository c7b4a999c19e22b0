"""Steps along the same rows are one step in plans for devices of many threads, and compute what they did apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import openinfer as oi
from openinfer.plan import PlanOptions, make_plan
from openinfer.plan.steps import ComputeStep
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.validate.resolve import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

ENVIRONMENT = Environment.default()
NORM = "dynamic {{ x: f32[4, {n}]; }} volatile {{ {out} }} block entry {{ {body} }}"


def operators(text: str, *, scheduled: bool = False) -> Sequence[str]:
    """Return the operators of the steps of a program that compute."""
    model = oi.Model.from_arrays({})
    resolved = resolve(oi.graph(text), model, environment=ENVIRONMENT)
    table = kernel_table(ENVIRONMENT, ENVIRONMENT.targets["c"])
    plan = make_plan(resolved, model, ENVIRONMENT, table, PlanOptions(scheduled=scheduled))
    return [step.op for each in plan.procedures for step in each.steps if isinstance(step, ComputeStep)]


def norm(n: int, body: str, out: str = "y: f32[4, {n}];") -> str:
    return NORM.format(n=n, body=body, out=out.format(n=n))


@pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
def test_a_norm_is_one_step(op: str) -> None:
    assert len(operators(norm(96, f"op {op}(x) >> y; return y;"))) == 1


def test_rows_that_no_group_of_threads_holds_stay_apart() -> None:
    assert len(operators(norm(1 << 20, "op layer_norm(x) >> y; return y;"))) > 1


def test_rows_that_are_too_short_for_groups_of_threads_stay_apart() -> None:
    assert len(operators(norm(8, "op layer_norm(x) >> y; return y;"))) > 1


def test_a_result_that_others_read_is_stored() -> None:
    body = "op mean_axis(x, axis=1, keepdims=true) >> m; op sub(x, m) >> y; return y, m;"
    out = "y: f32[4, {n}]; m: f32[4, 1];"

    assert len(operators(norm(96, body, out))) == 2


def test_a_product_stays_apart_from_what_reads_its_rows() -> None:
    body = "op matmul(x, x, trans_b=true) >> p; op softmax(p, axis=1) >> s; op matmul(s, x) >> y; return y;"

    assert "matmul" in operators(norm(96, body))
