"""Branches, loops and returns (``specification: runtime.control``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator
from openinfer.simulate.program import machine


def executor(text: str, arrays: dict[str, Any] | None = None, **model: Any) -> Executor:
    return Simulator(oi.Model.from_arrays(arrays or {}, **model), graph(text)).make_executor()


def blocks(ex: Executor, **inputs: Any) -> list[str]:
    """Return the descriptions of a step, each with its block."""
    ex.insert(inputs)
    return [f"{run.event.block_name}: {run.event.node_desc}" for run in ex.iterate()]


@pytest.mark.rule("runtime.control.2")
def test_a_branch_is_a_call() -> None:
    ex = executor(
        "dynamic { c: bool; } persistent { n: i32; } block entry { branch c yes no; cache.increment 10 n; branch yes;"
        " return; } block yes { cache.increment n; return; } block no { cache.increment 100 n; }"
    )
    assert blocks(ex, c=True) == [
        "entry: branch c yes no",
        "yes: cache.increment n",
        "yes: return",
        "entry: cache.increment 10 n",
        "entry: branch yes",
        "yes: cache.increment n",
        "yes: return",
        "entry: return",
    ]
    assert ex.fetch("n") == 12
    ex.step(c=False)
    assert ex.fetch("n") == 123


@pytest.mark.rule("language.branch.2", "runtime.control.3")
@pytest.mark.parametrize(("value", "taken"), [(0.0, "no"), (-0.0, "no"), (0.5, "yes"), (float("nan"), "yes")])
def test_a_condition_is_true_unless_it_is_zero(value: float, taken: str) -> None:
    ex = executor(
        "dynamic { c: f32; } block entry { branch c yes no; return; } block yes { return; } block no { return; }"
    )
    assert f"{taken}: return" in blocks(ex, c=value)


@pytest.mark.rule("runtime.control.5")
@pytest.mark.parametrize("traced", [False, True])
def test_loops_nest_and_count_up_from_start(traced: bool) -> None:
    ex = executor(
        "persistent { n: i64; } block entry { assign t: i64; loop outer (i in 2..B) { loop inner (j in i..B+1) {"
        " cache.read n >> t; op add(t, j) >> t; cache.write t >> n; } } return; }",
        sizevars={"B": 5},
    )
    if traced:
        list(ex.iterate())
    else:
        ex.step()
    assert ex.fetch("n") == sum(j for i in range(2, 5) for j in range(i, 6))


@pytest.mark.rule("runtime.control.5")
def test_an_empty_range_runs_nothing() -> None:
    ex = executor(
        "persistent { n: i64; } block entry { loop none (i in 3..3) { cache.increment n; }"
        " loop less (i in 3..1) { cache.increment n; } return; }"
    )
    ex.step()
    assert ex.fetch("n") == 0


def test_a_loop_over_nothing_does_not_count() -> None:
    ex = executor("block entry { loop idle (i in 0..1000000000000) { } return; }")
    ex.step()
    assert next(iter([run.event.params for run in ex.iterate()])) == ("i=0..1000000000000",)


@pytest.mark.rule("language.loop.1", "runtime.control.5")
def test_bounds_are_read_once_and_may_be_variables() -> None:
    ex = executor(
        "dynamic { k: i32; } persistent { n: i32; } block entry { assign one: i32; loop all (i in 0..k) {"
        " op add(k, k) >> k; cache.increment n; } return; }"
    )
    ex.step(k=3)
    assert ex.fetch("n", "k") == (3, 24)


@pytest.mark.rule("runtime.control.4")
def test_a_return_inside_loops_leaves_the_block() -> None:
    ex = executor(
        "persistent { n: i32; } block entry { branch search; cache.increment 100 n; return; }"
        " block search { loop a (i in 0..5) { loop b (j in 0..5) { cache.increment n; return; } } }"
    )
    ex.step()
    assert ex.fetch("n") == 101


@pytest.mark.rule("runtime.control.8")
def test_a_branch_inside_a_loop_returns_into_the_loop_with_its_index() -> None:
    ex = executor(
        "volatile { w: i64; } persistent { n: i64; } block entry { assign t: i64; loop a (i in 0..4) { branch bump;"
        " cache.read n >> t; op add(t, i) >> t; cache.write t >> n; } return; }"
        " block bump { loop b (i in 10..20) { cache.increment n; } return; }"
    )
    ex.step()
    assert ex.fetch("n") == 4 * 10 + sum(range(4))


@pytest.mark.rule("language.expressions.2", "language.names.3", "runtime.control.6")
def test_an_inner_index_hides_an_outer_one_until_its_loop_ends() -> None:
    ex = executor(
        "persistent { n: i64; } block entry { assign t: i64; loop a (i in 0..2) { loop b (i in 5..6) { barrier; }"
        " cache.read n >> t; op add(t, i) >> t; cache.write t >> n; } return; }"
    )
    ex.step()
    assert ex.fetch("n") == 1


@pytest.mark.rule("runtime.control.9")
def test_recursion_ends_where_the_program_ends_it() -> None:
    ex = executor(
        "dynamic { k: i64; } constant { one: i64 @init(1); } persistent { n: i64; }"
        " block entry { branch down; return; }"
        " block down { branch k deeper stop; return; } block stop { return; }"
        " block deeper { op sub(k, one) >> k; cache.increment n; branch down; return; }"
    )
    ex.step(k=5000)
    assert ex.fetch("n") == 5000


@pytest.mark.rule("runtime.control.9")
def test_endless_recursion_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_FRAMES", 50)
    ex = executor(
        "persistent { n: i64; } block entry { branch again; } block again { cache.increment n; branch again; }"
    )
    with pytest.raises(oi.DepthError, match="nested more than 50 deep") as caught:
        ex.step()
    assert (caught.value.code, caught.value.node_desc) == ("depth", "branch again")
    assert ex.fetch("n") == 49


@pytest.mark.rule("runtime.control.9")
def test_loops_may_nest_deeper_than_the_python_stack_is_safe() -> None:
    depth = 60
    opened = "".join(f"loop l{k} (i{k} in 0..1) {{ " for k in range(depth))
    ex = executor(f"persistent {{ n: i64; }} block entry {{ {opened} cache.increment n; {'}' * depth} return; }}")
    ex.step()
    assert ex.fetch("n") == 1


@pytest.mark.rule("language.prefixes.3", "runtime.links.1")
def test_prefix_entries_follow_the_loop_index() -> None:
    weights = {f"w.{h}.{layer}": np.array([h, layer], np.float32) for h in range(2) for layer in range(3)}
    ex = executor(
        'volatile { W(l, h): f32[2] @pattern("w.{h}.{l}"); y: f32[2]; } block entry { loop a (l in 0..3) {'
        " loop b (h in 0..2) { op add(y, W[l, h]) >> y; } op add(y, W[l, 1]) >> y; transfer W[l, 0] >> y; } return; }",
        weights,
    )
    ex.step()
    assert ex.fetch("y").tolist() == [0.0, 2.0]
    ex.step()
    assert ex.fetch("W[2, 1]").tolist() == [1.0, 2.0]


@pytest.mark.rule("language.expressions.2", "language.prefixes.3")
def test_a_prefix_index_may_be_an_expression_or_a_variable() -> None:
    weights = {f"w{i}": np.array(i, np.float32) for i in range(5)}
    ex = executor(
        'dynamic { k: i32; } volatile { W(i): f32 @pattern("w{i}"); y: f32; } block entry {'
        " loop a (i in 0..2) { op add(y, W[i+1]) >> y; } op add(y, W[2*k]) >> y; transfer W[k] >> y; return y; }",
        weights,
    )
    ex.step(k=2)
    assert ex.outputs() == {"y": 2.0}


@pytest.mark.rule("language.prefixes.4", "runtime.links.4")
@pytest.mark.parametrize(("k", "code"), [(-1, "out-of-range"), (9, "model-data")])
def test_a_prefix_entry_that_is_not_there_is_an_error(k: int, code: str) -> None:
    ex = executor(
        'dynamic { k: i32; } volatile { W(i): f32 @pattern("w{i}"); y: f32; }'
        " block entry { transfer W[k] >> y; return; }",
        {"w0": np.array(1, np.float32)},
    )
    with pytest.raises(oi.ExecutionError, match=rf"`W\[{k}\]`") as caught:
        ex.step(k=k)
    assert caught.value.code == code
