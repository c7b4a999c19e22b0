"""Memory kinds during and between steps: one test for each rule of ``specification: runtime.memory``."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator


def executor(text: str, arrays: dict[str, Any] | None = None, **model: Any) -> Executor:
    return Simulator(oi.Model.from_arrays(arrays or {}, **model), graph(text)).make_executor()


ECHO = "dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op add(x, x) >> y; return; }"


@pytest.mark.rule("runtime.memory.5")
def test_a_dynamic_value_is_consumed_by_its_step() -> None:
    ex = executor(ECHO)
    ex.step(x=[1.0, 2.0])
    with pytest.raises(oi.DynamicUnsetError, match="`x`") as caught:
        ex.step()
    assert (caught.value.code, caught.value.block) == ("dynamic-unset", "entry")
    assert caught.value.node_desc == "op add(x,x) >> y"


@pytest.mark.rule("runtime.memory.5")
def test_a_dynamic_value_stays_fetchable_after_its_step() -> None:
    ex = executor(ECHO)
    ex.step(x=[1.0, 2.0])
    assert ex.fetch("x").tolist() == [1.0, 2.0]


@pytest.mark.rule("runtime.memory.5")
def test_a_dynamic_variable_starts_at_its_init_when_nothing_was_inserted() -> None:
    ex = executor("dynamic { x: f32 @init(3.0); } volatile { y: f32; } block entry { op add(x, x) >> y; return; }")
    ex.step(x=1.0)
    ex.step()
    assert ex.fetch("y") == 6.0


@pytest.mark.rule("runtime.memory.5")
def test_a_graph_may_write_a_dynamic_variable() -> None:
    ex = executor("dynamic { x: f32; } volatile { y: f32 @init(2.0); } block entry { transfer y >> x; return; }")
    ex.step()
    assert ex.fetch("x") == 2.0


@pytest.mark.rule("runtime.memory.11")
def test_the_executor_keeps_its_own_copy_of_what_was_inserted() -> None:
    ex = executor(ECHO)
    x = np.array([1, 2], np.float32)
    ex.insert(x=x)
    x[:] = 9
    ex.step()
    assert ex.fetch("y").tolist() == [2.0, 4.0]


@pytest.mark.rule("runtime.memory.6")
def test_a_volatile_variable_is_reset_every_step() -> None:
    ex = executor("volatile { y: f32 @init(5.0); } block entry { op add(y, y) >> y; return; }")
    for _ in range(2):
        ex.step()
        assert ex.fetch("y") == 10.0


@pytest.mark.rule("runtime.memory.7")
def test_model_data_is_never_modified() -> None:
    model = oi.Model.from_arrays({"w": np.array([1, 2], np.float32)})
    program = graph("volatile { w: f32[2]; } block entry { op add(w, w) >> w; return; }")
    first, second = Simulator(model, program).make_executor(), Simulator(model, program).make_executor()
    first.step()
    first.step()
    assert first.fetch("w").tolist() == [2.0, 4.0]
    assert second.fetch("w").tolist() == model.load_tensor("w").tolist() == [1.0, 2.0]


@pytest.mark.rule("runtime.memory.2")
def test_a_variable_reads_its_initial_value_before_the_first_step() -> None:
    ex = executor(
        "volatile { a: f32; b: i32 @init(4); } constant { c: f32; } persistent { p: i64 @init(-1); }"
        " block entry { return; }",
        metadata={"c": 0.5},
    )
    assert ex.fetch("a", "b", "c", "p") == (0.0, 4, 0.5, -1)


@pytest.mark.rule("runtime.links.1")
def test_a_reference_loads_the_tensor_it_names() -> None:
    ex = executor(
        'volatile { w: f32[2] @ref("layer.w"); } block entry { return; }', {"layer.w": np.ones(2, np.float32)}
    )
    assert ex.fetch("w").tolist() == [1.0, 1.0]


@pytest.mark.rule("runtime.control.7", "runtime.memory.8")
def test_assign_gives_zeros_each_time_it_runs() -> None:
    ex = executor(
        "dynamic { x: i32[2]; } volatile { y: i32[2]; } block entry {"
        " loop twice (i in 0..2) { assign t: i32[2]; op add(t, x) >> t; } transfer t >> y; return; }"
    )
    for _ in range(2):
        ex.step(x=[1, 2])
        assert ex.fetch("y").tolist() == [1, 2]


@pytest.mark.rule("runtime.memory.2")
def test_a_temporary_is_gone_between_steps() -> None:
    ex = executor("block entry { assign t: f32; return; }")
    ex.step()
    with pytest.raises(oi.ExecutionError, match="temporary"):
        ex.fetch("t")


def test_a_temporary_used_before_its_assign_is_an_error() -> None:
    ex = executor(
        "dynamic { b: bool; } volatile { y: f32; } block entry {"
        " branch b use skip; assign t: f32; branch use; return; }"
        " block use { transfer t >> y; return; } block skip { return; }"
    )
    ex.step(b=False)
    with pytest.raises(oi.ExecutionError, match="`t` is used before its `assign`") as caught:
        ex.step(b=True)
    assert caught.value.block == "use"


def test_persistent_memory_survives_the_step() -> None:
    ex = executor(
        "dynamic { x: f32[2]; } persistent { state: f32[2] @init(1.0); } block entry { assign t: f32[2];"
        " cache.read state >> t; op add(t, x) >> t; cache.write t >> state; return; }"
    )
    ex.step(x=[1.0, 2.0])
    ex.step(x=[1.0, 2.0])
    assert ex.fetch("state").tolist() == [3.0, 5.0]


@pytest.mark.rule("runtime.caches.10")
def test_persistent_memory_starts_with_the_models_data_and_resets_to_it() -> None:
    ex = executor(
        "dynamic { clear: bool; } persistent { n: i32; } block entry {"
        " cache.increment 2 n; branch clear empty keep; return; }"
        " block empty { cache.reset n; return; } block keep { return; }",
        {"n": np.array(40, np.int32)},
    )
    ex.step(clear=False)
    assert ex.fetch("n") == 42
    ex.step(clear=True)
    assert ex.fetch("n") == 40


def test_reset_of_an_executor_brings_back_initial_values() -> None:
    ex = executor("persistent { n: i32 @init(7); } block entry { cache.increment n; return n; }")
    ex.step()
    ex.reset()
    assert ex.fetch("n") == 7
    assert ex.outputs() == {"n": 8}


@pytest.mark.rule("runtime.caches.15")
@pytest.mark.parametrize(
    ("dtype", "start", "amount", "expected"),
    [
        ("u8", "250", 10, 4),
        ("i8", "127", 1, -128),
        ("i32", "0", 4294967297, 1),
        ("f32", "0.5", 2, 2.5),
        ("f16", "0.5", 2, 2.5),
    ],
)
def test_increment_wraps_integers_and_adds_floats(dtype: str, start: str, amount: int, expected: float) -> None:
    ex = executor(f"persistent {{ n: {dtype} @init({start}); }} block entry {{ cache.increment {amount} n; return; }}")
    ex.step()
    assert ex.fetch("n") == expected


@pytest.mark.rule("runtime.caches.15")
def test_decrement_goes_the_other_way() -> None:
    ex = executor("persistent { n: u8; } block entry { cache.decrement n; return; }")
    ex.step()
    assert ex.fetch("n") == 255


@pytest.mark.rule("runtime.host.3")
def test_executors_of_one_simulator_share_no_persistent_memory() -> None:
    sim = Simulator(oi.Model.from_arrays(), graph("persistent { n: i32; } block entry { cache.increment n; return; }"))
    first, second = sim.make_executor(), sim.make_executor()
    first.step()
    assert (first.fetch("n"), second.fetch("n")) == (1, 0)


@pytest.mark.rule("runtime.operators.7")
def test_a_transfer_behaves_as_a_copy() -> None:
    ex = executor("volatile { a: f32 @init(1.0); b: f32; } block entry { transfer a >> b; op add(b, b) >> b; return; }")
    ex.step()
    assert ex.fetch("a", "b") == (1.0, 2.0)


@pytest.mark.rule("runtime.memory.13")
def test_a_failed_step_keeps_persistent_changes_and_leaves_the_executor_usable() -> None:
    ex = executor(
        "dynamic { x: f32; } volatile { y: f32 @init(1.0); } persistent { n: i32; } block entry {"
        " cache.increment n; op add(y, y) >> y; op add(x, y) >> y; return; }"
    )
    with pytest.raises(oi.DynamicUnsetError):
        ex.step()
    assert ex.fetch("n") == 1
    assert not ex.is_running
    ex.step(x=1.0)
    assert ex.fetch("n", "y") == (2, 3.0)


def test_low_floats_come_and_go_as_ml_dtypes() -> None:
    ex = executor("dynamic { x: bf16[2]; } volatile { y: bf16[2]; } block entry { op add(x, x) >> y; return; }")
    ex.step(x=np.array([1.0, 1.0078125], ml_dtypes.bfloat16))
    assert ex.fetch("y").dtype == ml_dtypes.bfloat16
    assert ex.fetch("y").astype(np.float32).tolist() == [2.0, 2.015625]


@pytest.mark.rule("dtypes.packing.5")
def test_packed_values_are_fetched_unpacked_and_raw_as_stored() -> None:
    ex = executor("dynamic { x: i4[3]; } volatile { y: i4[3]; } block entry { transfer x >> y; return; }")
    ex.step(x=[-8, 7, 1])
    assert ex.fetch("y").tolist() == [-8, 7, 1]
    assert ex.fetch_raw("y").storage.tobytes().hex() == "7801"


@pytest.mark.rule("runtime.operators.12")
def test_zero_size_tensors_are_legal() -> None:
    ex = executor("dynamic { x: f32[0, 3]; } volatile { y: f32[0, 3]; } block entry { op add(x, x) >> y; return; }")
    ex.step(x=np.zeros((0, 3), np.float32))
    assert ex.fetch("y").shape == (0, 3)


@pytest.mark.rule("runtime.sizes.2")
def test_sizes_may_be_overridden() -> None:
    program = graph("dynamic { x: f32[B]; } volatile { y: f32[B]; } block entry { op add(x, x) >> y; return; }")
    sim = Simulator(oi.Model.from_arrays(sizevars={"B": 2}), program, sizes={"B": 3})
    ex = sim.make_executor()
    ex.step(x=[1.0, 2.0, 3.0])
    assert ex.fetch("y").tolist() == [2.0, 4.0, 6.0]
