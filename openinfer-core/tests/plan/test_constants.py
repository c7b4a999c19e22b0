"""What is constant is computed when a plan is made: which steps become data, what they hold, and which ones stay."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.plan import ExecutionPlan, make_plan
from openinfer.plan.document import plan_json
from openinfer.plan.steps import ComputeStep, CopyStep, FillStep, LoopStep, Step
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import KernelTable
from openinfer.validate import resolve

Array = npt.NDArray[Any]

TABLE = KernelTable("test", {}, frozenset({"f32", "f64", "i8", "i32", "i64", "bool"}), computations=True)
WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)


def plan_of(text: str, **arrays: Array) -> ExecutionPlan:
    model, environment = Model.from_arrays(arrays), Environment.default()
    return make_plan(resolve(graph(text), model, environment=environment), model, environment, TABLE)


def steps(plan: ExecutionPlan) -> list[Step]:
    return [step for procedure in plan.procedures for step in procedure.steps]


def operators(plan: ExecutionPlan) -> list[str]:
    return [step.op for step in steps(plan) if isinstance(step, ComputeStep)]


def computed(plan: ExecutionPlan) -> dict[str, Array]:
    """Return the data that operators computed when the plan was made."""
    types = {"f32": "<f4", "f64": "<f8", "i32": "<i4", "i64": "<i8"}
    return {
        weight.source: np.frombuffer(weight.data, types[weight.type.dtype.name]).reshape(weight.type.shape)
        for weight in plan.weights
        if weight.ops
    }


def over(statements: str, constants: str = "w: f32[2, 3];", x: str = "f32[2, 3]", result: str = "mul(x, c)") -> str:
    return f"""
    dynamic {{ x: {x}; }}
    constant {{ {constants} }}
    block entry {{ {statements} op {result} >> y; return y; }}
    """


def test_a_chain_over_weights_becomes_data_and_its_weights_go() -> None:
    text = over("op mul(w, w) >> s; op sub(s, w) >> c;")

    plan = plan_of(text, w=WEIGHT)

    assert operators(plan) == ["mul"]
    assert [weight.source for weight in plan.weights] == ["c"]
    np.testing.assert_array_equal(computed(plan)["c"], WEIGHT * WEIGHT - WEIGHT)


def test_the_scale_and_the_shift_of_a_batch_norm_become_data() -> None:
    rng = np.random.default_rng(1)
    names = ("gamma", "beta", "mean", "var")
    arrays = {name: (rng.random(5) + 0.5).astype(np.float32) for name in names}
    text = over(
        "",
        " ".join(f"{name}: f32[5];" for name in names),
        "f32[1, 5, 2, 2]",
        "batch_norm(x, gamma, beta, mean, var, eps=1e-3)",
    )

    plan = plan_of(text, **arrays)

    (op,) = operators(plan)
    assert "sqrt" not in op
    scale = arrays["gamma"].astype(np.float64) / np.sqrt(arrays["var"].astype(np.float64) + 1e-3)
    assert any(
        data.size == 5 and np.allclose(data.ravel(), scale, rtol=3e-7, atol=0) for data in computed(plan).values()
    )


def test_weights_are_transposed_and_reshaped_in_advance() -> None:
    text = over("op reshape(v, shape=[3, 2]) >> u; op transpose(u, perm=[1, 0]) >> c;", "v: f32[6];")

    plan = plan_of(text, v=WEIGHT.ravel())

    assert operators(plan) == ["mul"]
    assert not any(isinstance(step, CopyStep) for step in steps(plan))
    np.testing.assert_array_equal(computed(plan)["c"], WEIGHT.ravel().reshape(3, 2).T)


EXACT = {
    "exp": math.exp,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "log": lambda value: math.log(abs(value)),
}


@pytest.mark.parametrize("function", sorted(EXACT))
def test_elementary_functions_of_f32_are_right_to_two_units_in_the_last_place(function: str) -> None:
    values = np.linspace(-6, 6, 64, dtype=np.float32)
    given = "op abs(w) >> m; op log(m) >> c;" if function == "log" else f"op {function}(w) >> c;"

    plan = plan_of(over(given, "w: f32[64];", "f32[64]", "add(x, c)"), w=values)

    exact = np.array([EXACT[function](float(value)) for value in values])
    ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(computed(plan)["c"] - exact) / ulp) <= 2


def test_data_does_not_depend_on_the_machine() -> None:
    w = (np.arange(256, dtype=np.float32).reshape(16, 16) * 37 % 256) / 64 - 2
    statements = """
      op exp(w) >> e; op sin(w) >> s; op matmul(e, s) >> p; op mul(p, w) >> q; op tanh(q) >> t; op softmax(t) >> c;
    """

    plan = plan_of(over(statements, "w: f32[16, 16];", "f32[16, 16]"), w=w)

    exact = np.tanh((np.exp(w.astype(np.float64)) @ np.sin(w.astype(np.float64))) * w)
    exact = np.exp(exact) / np.exp(exact).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(computed(plan)["c"], exact, rtol=2e-5)
    (weight,) = plan.weights
    assert hashlib.sha256(weight.data).hexdigest()[:16] == "2b6e600d73dedaaa"


@pytest.mark.parametrize(
    "statement",
    [
        "op pow(w, w) >> c;",
        "op log(w) >> n; op mul(n, w) >> c;",
    ],
    ids=["a function of a library", "NaN"],
)
def test_what_a_machine_decides_is_computed_when_the_program_runs(statement: str) -> None:
    plan = plan_of(over(statement), w=WEIGHT - 2)

    assert "c" not in computed(plan)
    assert len("+".join(operators(plan)).split("+")) > 1


def test_functions_of_f64_stay() -> None:
    plan = plan_of(over("op exp(w) >> c;", "w: f64[3];", "f64[3]", "add(x, c)"), w=np.ones(3))

    assert not computed(plan)


def test_a_scalar_is_expanded_when_the_program_runs() -> None:
    plan = plan_of(over("op add(s, s) >> t; op expand(t, shape=[2, 3]) >> c;", "s: f32[];"), s=np.float32(0.5))

    assert {name: data.shape for name, data in computed(plan).items()} == {"t": ()}
    assert plan.weights_nbytes == 4


def test_data_grows_only_by_what_is_costly_to_compute() -> None:
    text = "op mul(p, f) >> a; op cos(a) >> c;"
    arrays = {"p": np.arange(100, dtype=np.float32)[:, None], "f": np.linspace(0, 1, 8, dtype=np.float32)[None]}
    constants = "p: f32[100, 1]; f: f32[1, 8];"

    waves = plan_of(over(text, constants, "f32[100, 8]", "mul(x, c)"), **arrays)
    products = plan_of(over("op mul(p, f) >> c;", constants, "f32[100, 8]", "mul(x, c)"), **arrays)

    assert computed(waves)["c"].shape == (100, 8)
    assert not computed(products)


def test_integers_are_not_stored_as_the_floats_that_they_stand_for() -> None:
    text = over("op cast(w, to=f32) >> c;", "w: i8[2, 3];")

    plan = plan_of(text, w=WEIGHT.astype(np.int8))

    assert plan.weights_nbytes == 6


def test_a_weight_that_others_read_is_not_stored_twice() -> None:
    text = over(
        "op transpose(w, perm=[1, 0]) >> c; op matmul(x, c) >> z;", "w: f32[2, 3];", "f32[4, 3]", "matmul(z, w)"
    )

    plan = plan_of(text, w=WEIGHT)

    assert not computed(plan)


def test_a_result_of_constants_alone_is_copied() -> None:
    plan = plan_of("constant { w: f32[2, 3]; } block entry { op neg(w) >> y; return y; }", w=WEIGHT)

    (step, _) = steps(plan)
    assert isinstance(step, CopyStep)
    np.testing.assert_array_equal(computed(plan)["y.constant"], -WEIGHT)


def test_what_is_written_twice_is_not_a_constant() -> None:
    text = """
    dynamic { x: f32[2, 3]; }
    constant { w: f32[2, 3]; }
    volatile { y: f32[2, 3]; }
    block entry { loop l (i in 0..2) { op add(y, x) >> y; op neg(w) >> c; op mul(y, c) >> y; } return y; }
    """

    plan = plan_of(text, w=WEIGHT)

    assert list(computed(plan)) == ["c"]
    (fill, loop, _) = steps(plan)
    assert isinstance(fill, FillStep)
    assert isinstance(loop, LoopStep)
    assert [step.op for step in loop.body if isinstance(step, ComputeStep)] == ["add+mul"]


def test_a_step_that_refuses_its_operands_fails_when_the_program_runs() -> None:
    text = over("op gather(w, i, axis=0) >> c;", "w: f32[2, 3]; i: i64[2];")

    plan = plan_of(text, w=WEIGHT, i=np.array([0, 7]))

    assert not computed(plan)


def test_plans_say_what_was_computed_and_by_what() -> None:
    plan = plan_of(over("op mul(w, w) >> s; op neg(s) >> c;"), w=WEIGHT)

    assert "computed c: f32[2,3] (mul+neg)" in plan.report().splitlines()
    assert [weight["computed_by"] for weight in plan_json(plan)["weights"]] == [["mul", "neg"]]
