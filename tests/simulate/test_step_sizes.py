"""Sizes that steps take from what is inserted: one executor runs prompts of several lengths, and its caches stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import openinfer as oi
from openinfer import symbolic
from openinfer.plugins.environment import Environment
from openinfer.simulate.execute import bindings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MODEL = oi.Model.from_arrays({"W": np.full((2, 2), 0.5, np.float32)}, sizevars={"T": 1, "D": 2})
PROGRAM = """
dynamic { x: f32[T, D]; scale: f32 @init(1.0); mask: f32[T] @init(0.0); }
constant { W: f32[D, D]; }
volatile { y: f32[T, D]; }
persistent { K(t): f32[D] @table; step: i32; }
block entry {
  cache.read step >> at;
  cache.write x >> K[at..at+T];
  cache.increment T step;
  op matmul(x, W) >> y;
  op mul(y, scale) >> y;
  cache.read K[] >> past;
  op sum_axis(past, axes=[0]) >> total;
  return y, total;
}
"""


def prompt(length: int, value: float = 1.0) -> np.ndarray:
    return np.full((length, 2), value, np.float32)


@pytest.mark.rule("runtime.sizes.4", "runtime.sizes.5")
def test_prefill_and_decoding_share_an_executor_and_its_caches() -> None:
    executor = oi.Simulator(MODEL, PROGRAM).make_executor()
    seen = 0
    for length in (5, 1, 1, 3, 1, 5):
        executor.step(x=prompt(length))
        seen += length
        y, total = executor.outputs().values()
        np.testing.assert_array_equal(y, prompt(length))
        np.testing.assert_array_equal(total, [seen, seen])
    assert executor.fetch("step") == seen


RESHAPED = {
    "a size": ("[T, 2]", "f32[2, T]", {3: (3, 2), 0: (0, 2)}),
    "an expression": ("[2*T]", "f32[2, T]", {3: (6,), 0: (0,)}),
    "a size at a place of another extent": ("[3*T, T]", "f32[3*T, T]", {2: (6, 2), 0: (0, 0)}),
    "a written 0 before a computed one": ("[0, T]", "f32[2, T]", {3: (2, 3), 0: (2, 0)}),
    "what is left": ("[2*T, 2, -1]", "f32[T, 12]", {3: (6, 2, 3)}),
}


@pytest.mark.rule("operators.shapes.6")
@pytest.mark.parametrize(("shape", "x", "results"), RESHAPED.values(), ids=RESHAPED)
@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
def test_an_extent_that_is_computed_to_be_0_copies_none(
    device: str, shape: str, x: str, results: dict[int, tuple[int, ...]]
) -> None:
    if device not in {name.partition(":")[0] for name in Environment.default().devices}:
        pytest.skip(f"device {device} is not installed")
    program = f"dynamic {{ t: f32[T]; x: {x}; }} block entry {{ op reshape(x, shape={shape}) >> y; return y; }}"
    with oi.Simulator(MODEL, program, device=device).make_executor() as executor:
        for size, wanted in results.items():
            extents = tuple(symbolic.evaluate(dim, {"T": size}.__getitem__) for dim in oi.graph(program).vars["x"].dims)
            executor.step(t=np.zeros(size, np.float32), x=np.ones(extents, np.float32))
            assert executor.outputs()["y"].shape == wanted


TOTALS = """
dynamic { x: f32[T]; amount: i64; scale: f32 @init(7.0); }
volatile { total: i64 @init(18); scaled: f32; }
block entry {
  loop rows (i in 0..T) { op add(total, amount) >> total; }
  op relu(scale) >> scaled;
  return total, scaled;
}
"""


@pytest.mark.rule("runtime.sizes.5")
@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
def test_the_first_step_of_a_size_begins_with_initial_values(device: str) -> None:
    if device not in {name.partition(":")[0] for name in Environment.default().devices}:
        pytest.skip(f"device {device} is not installed")
    with oi.Simulator(MODEL, TOTALS, device=device).make_executor() as executor:
        executor.step(x=np.zeros(5, np.float32), amount=3, scale=2.0)
        assert list(executor.outputs().values()) == [33, 2.0]
        for size in (0, 2, 0):
            executor.step(x=np.zeros(size, np.float32), amount=3)
            assert list(executor.outputs().values()) == [18 + 3 * size, 7.0]


@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
def test_an_extent_that_is_read_must_be_the_declared_one(device: str) -> None:
    """Also where both have as many elements: none."""
    if device not in {name.partition(":")[0] for name in Environment.default().devices}:
        pytest.skip(f"device {device} is not installed")
    declared = "dynamic { x: f32[T, B]; rows: i64; } volatile { y: f32[T, B]; }"
    program = f"{declared} block entry {{ op reshape(x, shape=[rows, B]) >> y; return y; }}"
    model = oi.Model.from_arrays({}, sizevars={"T": 1, "B": 2})
    with oi.Simulator(model, program, device=device).make_executor() as executor:
        for shape in ((3, 2), (0, 2), (3, 0)):
            x = np.ones(shape, np.float32)
            executor.step(x=x, rows=shape[0])
            np.testing.assert_array_equal(executor.outputs()["y"], x)
            with pytest.raises(oi.ShapeError):
                executor.step(x=x, rows=2)


@pytest.mark.rule("operators.shapes.6")
def test_an_extent_that_is_read_as_0_copies_none() -> None:
    program = "dynamic { x: f32[2, T]; k: i64; } block entry { op reshape(x, shape=[k, 2]) >> y; return y; }"
    with oi.Simulator(MODEL, program).make_executor() as executor:
        for size in (3, 0):
            executor.step(x=np.ones((2, size), np.float32), k=size)
            assert executor.outputs()["y"].shape == (size, 2)
        with pytest.raises(oi.ExecutionError, match=r"6 elements, shape \[0,2\] has 0"):
            executor.step(x=np.ones((2, 3), np.float32), k=0)


@pytest.mark.parametrize("ragged", [[[1, 2], [3]], [[], [1, 2]], [1, [2, 3]]])
def test_a_list_whose_rows_differ_in_length_is_refused(ragged: list[object]) -> None:
    executor = oi.Simulator(MODEL, PROGRAM).make_executor()
    with pytest.raises(oi.ShapeError, match=r"`x` is declared f32\[1,2\], found a list whose rows differ in length"):
        executor.insert(x=ragged)


def test_the_type_of_an_input_has_the_sizes_that_other_values_give() -> None:
    executor = oi.Simulator(MODEL, PROGRAM).make_executor()
    executor.step(x=prompt(4))
    assert str(executor.input_type("mask", {"x": prompt(3)})) == "f32[3]"
    assert str(executor.input_type("x", {"mask": [0, 0, 0, 0, 0]})) == "f32[5,2]"
    assert str(executor.input_type("scale", {"x": prompt(3)})) == "f32[]"
    with pytest.raises(oi.ShapeError, match="size `T` is 3 by `x` and 2 by `mask`"):
        executor.input_type("x", {"x": prompt(3), "mask": [0, 0]})


def test_inputs_without_the_size_go_along_and_results_stay_until_the_next_step() -> None:
    executor = oi.Simulator(MODEL, PROGRAM).make_executor()
    executor.step(x=prompt(2))
    executor.insert(scale=3.0)
    executor.insert(x=prompt(4))
    np.testing.assert_array_equal(executor.fetch("y"), prompt(2))
    np.testing.assert_array_equal(executor.outputs()["y"], prompt(2))
    executor.step()
    np.testing.assert_array_equal(executor.fetch("y"), prompt(4, 3.0))


@pytest.mark.rule("runtime.sizes.4")
def test_values_of_one_step_have_one_size() -> None:
    executor = oi.Simulator(MODEL, PROGRAM).make_executor()
    with pytest.raises(oi.ExecutionError, match="size `T` is 3 by `x` and 2 by `mask`") as caught:
        executor.step(x=prompt(3), mask=np.zeros(2, np.float32))
    assert caught.value.code == "insert-mismatch"
    executor.insert(x=prompt(3))
    with pytest.raises(oi.ExecutionError, match="size `T` is 2 by `mask`, and 3 by `x`"):
        executor.insert(mask=np.zeros(2, np.float32))


def test_a_size_of_weights_is_fixed() -> None:
    executor = oi.Simulator(MODEL, PROGRAM).make_executor()
    with pytest.raises(oi.ExecutionError):
        executor.step(x=np.ones((1, 3), np.float32))


@pytest.mark.parametrize("device", ["cpu", "c"])
def test_every_device_takes_them(device: str) -> None:
    text = "dynamic { x: f32[T, D]; } block entry { op neg(x) >> n; op exp(n) >> y; return y; }"
    executor = oi.Simulator(MODEL, text, device=device).make_executor()
    for length in (1, 4, 1):
        executor.step(x=prompt(length))
        np.testing.assert_allclose(executor.outputs()["y"], np.exp(-prompt(length)), rtol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "c"])
def test_a_step_that_failed_leaves_no_sizes(device: str) -> None:
    text = """
    dynamic { x: f32[T]; scale: f32[T] @init(1.0); place: i64; }
    volatile { y: f32[T]; }
    persistent { K(t): f32 @table @fixed(t=2); }
    block entry { op sum(x) >> s; cache.write s >> K[place]; op mul(x, scale) >> y; return y; }
    """
    executor = oi.Simulator(oi.Model.from_arrays({}, sizevars={"T": 1}), text, device=device).make_executor()
    with pytest.raises(oi.ExecutionError):
        executor.step(scale=np.ones(3, np.float32), x=np.ones(3, np.float32), place=2)
    executor.step(x=np.ones(4, np.float32), place=1)
    assert executor.fetch("y").shape == (4,)


def test_the_sizes_used_last_stay_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings, "MOST_SIZES", 2)
    resolved = list[int]()
    simulator = oi.Simulator(MODEL, PROGRAM)
    resized = simulator._resized
    monkeypatch.setattr(
        simulator, "_resized", lambda program, sizes: resolved.append(sizes["T"]) or resized(program, sizes)
    )
    executor = simulator.make_executor()
    for length in (1, 2, 3, 2, 4, 2, 1, 4, 3):
        executor.step(x=prompt(length))
        np.testing.assert_array_equal(executor.fetch("y"), prompt(length))
    assert resolved == [2, 3, 4, 3]


def test_sizes_stay_bound_up_to_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings, "MOST_SIZES", 6)
    resolved = list[int]()
    simulator = oi.Simulator(MODEL, PROGRAM)
    resized = simulator._resized
    monkeypatch.setattr(
        simulator, "_resized", lambda program, sizes: resolved.append(sizes["T"]) or resized(program, sizes)
    )
    executor = simulator.make_executor()
    for length in (1, 2, 3, 4, 5, 6, 7) * 2:
        executor.step(x=prompt(length))
    assert resolved == [2, 3, 4, 5, 6, 7]


TWO_SIZES = """
dynamic { x: f32[T]; mask: f32[T] @init(0.0); twice: f32[2 * T] @init(0.0); w: f32[S]; }
volatile { h: f32[T]; y: f32[T]; z: f32[2 * T]; v: f32[S]; }
block entry { op neg(x) >> h; op add(h, mask) >> y; op neg(twice) >> z; op neg(w) >> v; return y, z, v; }
"""


def vector(length: int, value: float = 1.0) -> np.ndarray:
    return np.full(length, value, np.float32)


@pytest.fixture(params=["cpu", "c"])
def two_sizes(request: pytest.FixtureRequest) -> Iterator[oi.Executor]:
    """An executor whose steps have two sizes, T and S."""
    if request.param == "c":
        pytest.importorskip("openinfer_synth_c", reason="device c is not installed: openinfer-synth-c")
    model = oi.Model.from_arrays({}, sizevars={"T": 1, "S": 1})
    with oi.Simulator(model, TWO_SIZES, device=request.param).make_executor() as executor:
        yield executor


@pytest.mark.rule("runtime.sizes.5")
def test_values_stay_inserted_when_another_value_gives_another_size(two_sizes: oi.Executor) -> None:
    two_sizes.insert(x=vector(3, 7.0))
    two_sizes.step(w=vector(2))
    assert two_sizes.outputs()["y"].tolist() == [-7.0] * 3


@pytest.mark.rule("runtime.sizes.4")
@pytest.mark.parametrize(("name", "extent"), [("mask", 3), ("twice", 6)])
def test_no_value_of_a_step_is_dropped_for_a_size_that_it_does_not_fit(
    two_sizes: oi.Executor, name: str, extent: int
) -> None:
    two_sizes.insert({"x": vector(3), name: vector(extent, 5.0)})
    with pytest.raises(oi.ShapeError, match=rf"`{name}` was inserted as f32\[{extent}\].*T = 4 by `x`") as refused:
        two_sizes.insert(x=vector(4))
    assert refused.value.code == "insert-mismatch"
    two_sizes.step(w=vector(1))
    assert two_sizes.outputs()["y"].shape == (3,)
    two_sizes.insert({"x": vector(3), name: vector(extent)})
    two_sizes.insert({"x": vector(4), name: vector(extent // 3 * 4, 5.0)})
    two_sizes.step(w=vector(1))
    assert two_sizes.outputs()["y"].shape == (4,)


@pytest.mark.parametrize(
    "refused",
    [{"w": np.ones(2, np.int32)}, {"v": 1}, {"twice": vector(5)}, {"mask": vector(3)}],
    ids=["type", "variable", "shape", "size"],
)
def test_a_refused_insertion_leaves_no_sizes_behind(two_sizes: oi.Executor, refused: dict[str, object]) -> None:
    two_sizes.insert(x=vector(3), w=vector(2))
    with pytest.raises(oi.ExecutionError):
        two_sizes.insert({"x": vector(2, 9.0), **refused})
    assert two_sizes.program.sizes["T"] == 3
    two_sizes.step(mask=vector(3, 5.0))
    assert two_sizes.outputs()["y"].tolist() == [4.0] * 3


def test_refused_insertions_of_many_sizes_leave_the_sizes_of_the_step_bound(
    two_sizes: oi.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bindings, "MOST_SIZES", 1)
    two_sizes.insert(x=vector(5))
    closed = list[str]()
    consumers = two_sizes._steps.binding.consumers
    monkeypatch.setattr(consumers, "close", lambda: closed.append("in use"))
    for length in (2, 3, 4):
        with pytest.raises(oi.ExecutionError):
            two_sizes.insert(x=vector(length), w=1.5)
    two_sizes.step(w=vector(1))
    assert (closed, two_sizes.outputs()["y"].shape) == ([], (5,))


@pytest.mark.parametrize(
    "given", [{"x": vector(2)}, {"x": vector(3)}, {"w": vector(2)}], ids=["x, resized", "x", "w, resized"]
)
def test_a_value_that_a_whole_step_did_not_leave_is_gone_with_its_inputs(
    two_sizes: oi.Executor, given: dict[str, np.ndarray]
) -> None:
    two_sizes.step(x=vector(3, 7.0), w=vector(1))
    runs_whole = two_sizes.runs_whole
    two_sizes.insert(given)
    if not runs_whole:
        assert two_sizes.fetch("h").tolist() == [-7.0] * 3
        return
    with pytest.raises(oi.StepStateError, match=r"`h` is not a result .* fetch it before inserting new values"):
        two_sizes.fetch("h")


def test_the_type_of_a_value_is_that_of_the_step_that_left_it(two_sizes: oi.Executor) -> None:
    two_sizes.step(x=vector(3), w=vector(1))
    two_sizes.insert(x=vector(2))
    assert [two_sizes.type_of(name).shape for name in ("x", "y")] == [(2,), (3,)]
    assert two_sizes.fetch("y").shape == (3,)


@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
def test_a_value_that_a_step_did_not_leave_is_that_of_its_sizes(device: str) -> None:
    if device == "c":
        pytest.importorskip("openinfer_synth_c", reason="device c is not installed: openinfer-synth-c")
    text = """
    dynamic { x: f32[T, D] @init(7.0); }
    volatile { h: f32[T, D]; y: f32[T, D]; }
    block entry { op neg(x) >> h; op neg(h) >> y; return y; }
    """
    try:
        executor = oi.Simulator(MODEL, text, device=device).make_executor()
    except oi.errors.DeviceError as error:
        pytest.skip(str(error))
    with executor:
        executor.step(x=prompt(3))
        np.testing.assert_array_equal(executor.fetch("h"), -prompt(3))
        np.testing.assert_array_equal(executor.outputs()["y"], prompt(3))


FAILING = """
dynamic { x: f32[T]; i: i64[2]; }
volatile { mid: f32[T]; y: f32[T]; z: f32[2]; }
block entry { op neg(x) >> mid; op gather(x, i) >> z; op mul(mid, x) >> y; return y, z; }
"""


def with_state(text: str) -> str:
    """Return the program with a persistent variable, which devices keep that run it whole."""
    return f"persistent {{ n: i32; }} {text.replace('block entry {', 'block entry { cache.increment n;')}"


def stopped(executor: oi.Executor, way: str, i: Sequence[int], length: int = 5) -> None:
    """Run a step of other sizes that does not end."""
    executor.insert(x=vector(length, 2.0), i=i)
    if way == "dropped":
        runs = executor.iterate()
        next(runs)
        runs.close()
        return
    ways: dict[str, Callable[[], object]] = {
        "step": executor.step,
        "async": lambda: executor.step_async().result(),
        "iterate": lambda: list(executor.iterate()),
    }
    with pytest.raises(oi.ExecutionError, match="out of range"):
        ways[way]()


@pytest.mark.rule("runtime.sizes.6")
@pytest.mark.parametrize("way", ["step", "async", "iterate", "dropped"])
@pytest.mark.parametrize("text", [FAILING, with_state(FAILING)], ids=["plain", "state"])
@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
@pytest.mark.usefixtures("needs_device")
def test_what_a_step_of_new_sizes_did_not_end_to_write_has_no_value(device: str, text: str, way: str) -> None:
    model = oi.Model.from_arrays({}, sizevars={"T": 3})
    with oi.Simulator(model, text, device=device, limits={"T": 8}).make_executor() as executor:
        executor.step(x=vector(3), i=[0, 2])
        stopped(executor, way, [0, 9])
        for ask in (executor.fetch, executor.fetch_raw, executor.result, executor.type_of):
            with pytest.raises(
                oi.StepStateError, match="`y` holds no value: the last step, which writes it, did not end"
            ):
                ask("y")
        assert executor.outputs() == {}
        assert executor.fetch("x").tolist() == [2.0] * 5
        executor.insert(x=vector(3))
        with pytest.raises(oi.StepStateError, match="`y` holds no value"):
            executor.fetch("y")
        executor.step(x=vector(4, 3.0), i=[0, 1])
        assert executor.fetch("y").tolist() == executor.outputs()["y"].tolist() == [-9.0] * 4
        executor.insert(x=vector(5))
        assert executor.fetch("y").tolist() == [-9.0] * 4


@pytest.mark.rule("runtime.sizes.6")
@pytest.mark.parametrize("device", ["cpu", "c"])
def test_values_of_a_step_of_new_sizes_are_there_while_it_runs(device: str) -> None:
    if device == "c":
        pytest.importorskip("openinfer_synth_c", reason="device c is not installed: openinfer-synth-c")
    executor = oi.Simulator(oi.Model.from_arrays({}, sizevars={"T": 3}), FAILING, device=device).make_executor()
    executor.insert(x=vector(5, 2.0), i=[0, 1])
    values = [run.fetch("mid").tolist() for run in executor.iterate()]
    assert values == [[-2.0] * 5] * 4
    assert executor.fetch("y").tolist() == [-4.0] * 5


@pytest.mark.rule("runtime.memory.15")
@pytest.mark.parametrize("device", ["c", "vulkan"])
@pytest.mark.usefixtures("needs_device")
def test_a_step_that_failed_as_a_whole_leaves_no_values(device: str) -> None:
    model = oi.Model.from_arrays({}, sizevars={"T": 3})
    with oi.Simulator(model, with_state(FAILING), device=device, limits={"T": 8}).make_executor() as executor:
        executor.step(x=vector(3), i=[0, 2])
        stopped(executor, "step", [0, 9], length=3)
        for name in ("y", "z", "mid"):
            with pytest.raises(oi.StepStateError, match=f"`{name}` holds no value"):
                executor.fetch(name)
        assert executor.fetch("n") == 2


def test_live_bytes_after_a_step_are_those_of_a_program_that_always_has_its_sizes() -> None:
    text = """
    dynamic { x: f32[T, 2]; l: i64; }
    constant { V(i): f32[2] @pattern("V.{i}"); W: f32[2, 2]; }
    volatile { y: f32[T, 2]; scale: f32 @init(2.0); }
    persistent { K(t): f32[2] @table; step: i32; mean: f32[2]; }
    block entry {
      cache.read step >> at;
      cache.write x >> K[at..at+T];
      cache.increment T step;
      op matmul(x, W) >> h;
      op mul(h, scale) >> h;
      op add(h, V[l]) >> y;
      op mean_axis(y, axes=[0]) >> m;
      cache.write m >> mean;
      return y;
    }
    """
    arrays = {"W": np.ones((2, 2), np.float32), "V.0": np.ones(2, np.float32), "V.1": np.ones(2, np.float32)}
    model = oi.Model.from_arrays(arrays, sizevars={"T": 4})
    varying = oi.Simulator(model, text).make_executor()
    for step, length in enumerate((3, 4, 1, 3)):
        varying.step(x=prompt(length), l=step % 2)
        same = oi.Simulator(model, text, sizes={"T": length}).make_executor()
        same.step(x=prompt(length), l=0)
        same.step(x=prompt(length), l=1)
        expected, taken = same.live_bytes(), varying.live_bytes()
        rows = sum((3, 4, 1, 3)[: step + 1]) - 2 * length
        entries = 2 * 4 if step == 0 else 0
        assert taken == {
            **expected,
            "persistent": expected["persistent"] + rows * 2 * 4,
            "constant": expected["constant"] - entries,
        }
