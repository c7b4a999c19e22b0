"""What the host may insert and fetch, and how simulators are made (``specification: runtime.host``)."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Device, Executor, Simulator
from openinfer_oinf import SizeVar, write_oinf

PROGRAM = graph("""
dynamic { x: f32[2]; k: u8; b: bool; w: bf16[1]; q: i4[2]; }
volatile { W(l): f32[2] @pattern("w{l}"); y: f32[2]; }
persistent { n: i32; K(i): f32 @table; }
block entry { op add(x, W[0]) >> y; cache.increment n; return y; }
""")
MODEL = oi.Model.from_arrays({"w0": np.array([1, 2], np.float32)})


@pytest.fixture
def ex() -> Executor:
    return Simulator(MODEL, PROGRAM).make_executor()


class Exporter:
    """Has only the DLPack protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


@pytest.mark.rule("runtime.memory.10")
@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        (1.0, 2.0),
        np.array([1, 2], np.float32),
        np.array([1, 9, 2], np.float32)[::2],
        Exporter(np.array([1, 2], np.float32)),
    ],
)
def test_values_of_many_kinds_can_be_inserted(ex: Executor, value: Any) -> None:
    ex.step(x=value)
    assert ex.fetch("y").tolist() == [2.0, 4.0]


@pytest.mark.rule("runtime.errors.7", "runtime.memory.10")
@pytest.mark.parametrize(
    ("name", "value", "error", "found"),
    [
        ("x", [1.0], oi.ShapeError, r"f32\[2\].*\[1\]"),
        ("x", [[1.0], [2.0, 3.0]], oi.ShapeError, "a list whose rows differ in length"),
        ("x", np.array([1, 2], np.float64), oi.DTypeError, "float64"),
        ("x", np.array([1, 2], ">f4"), oi.DTypeError, ">f4"),
        ("x", [1e300, 0.0], oi.DTypeError, "overflows"),
        ("x", ["a", "b"], oi.DTypeError, "str"),
        ("x", {"a": 1}, oi.DTypeError, "dict"),
        ("x", True, oi.DTypeError, "float"),
        ("k", 256, oi.DTypeError, "0..255"),
        ("k", -1, oi.DTypeError, "0..255"),
        ("k", 1.0, oi.DTypeError, "integer"),
        ("k", np.array(1, np.int8), oi.DTypeError, "int8"),
        ("b", 2, oi.DTypeError, "bool"),
        ("q", np.array([8, 0], np.int8), oi.DTypeError, "-8..7"),
    ],
)
def test_a_value_of_another_type_or_shape_is_refused(
    ex: Executor, name: str, value: Any, error: type[oi.ExecutionError], found: str
) -> None:
    with pytest.raises(error, match=found) as caught:
        ex.insert({name: value})
    assert caught.value.code == "insert-mismatch"
    assert f"`{name}`" in str(caught.value)


def test_variables_may_be_called_like_parameters() -> None:
    program = graph(
        "dynamic { self: f32; values: f32; } volatile { y: f32; } block entry { op sub(self, values) >> y; return; }"
    )
    ex = Simulator(MODEL, program).make_executor()
    ex.step(self=5.0, values=2.0)
    assert ex.fetch("y") == 3.0
    ex.insert({"self": 1.0}, values=0.0)
    ex.run_step()
    assert ex.fetch("y") == 1.0


@pytest.mark.rule("runtime.host.4")
def test_insertion_is_all_or_nothing(ex: Executor) -> None:
    with pytest.raises(oi.DTypeError):
        ex.insert(x=[1.0, 2.0], k=-1)
    with pytest.raises(oi.DynamicUnsetError):
        ex.fetch("x")


@pytest.mark.rule("runtime.memory.10")
def test_low_floats_and_packed_values_are_converted(ex: Executor) -> None:
    ex.insert(w=[1.00390625], q=[-8, 7], b=1, k=np.uint8(3))
    assert ex.fetch("w").dtype == ml_dtypes.bfloat16
    assert (float(ex.fetch("w")[0]), ex.fetch("q").tolist(), ex.fetch("b"), ex.fetch("k")) == (1.0, [-8, 7], True, 3)


@pytest.mark.rule("runtime.memory.12")
@pytest.mark.parametrize(
    ("name", "code"), [("y", "not-dynamic"), ("n", "not-dynamic"), ("W", "not-dynamic"), ("z", "unknown-variable")]
)
def test_only_dynamic_variables_take_values(ex: Executor, name: str, code: str) -> None:
    with pytest.raises(oi.ExecutionError, match=f"`{name}`") as caught:
        ex.insert({name: 1.0})
    assert caught.value.code == code


@pytest.mark.rule("runtime.host.17")
def test_a_misspelt_name_lists_near_ones(ex: Executor) -> None:
    program = graph("dynamic { image: f32; } volatile { logits: f32; } block entry { return; }")
    ex = Simulator(MODEL, program).make_executor()
    with pytest.raises(oi.ExecutionError, match="did you mean `image`"):
        ex.insert(imgae=1.0)
    with pytest.raises(oi.ExecutionError, match="did you mean `logits`"):
        ex.fetch("logit")


needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.mark.rule("runtime.memory.12")
@pytest.mark.parametrize("device", ["cpu", pytest.param("c", marks=needs_compiler)])
@pytest.mark.parametrize("name", [None, 3, ["y"], b"y"])
def test_a_name_that_is_not_text_is_refused(device: str, name: Any) -> None:
    program = graph("dynamic { x: f32; } volatile { y: f32; } block entry { op exp(x) >> y; return y; }")
    ex = Simulator(MODEL, program, device=device).make_executor()
    calls = [lambda: ex.fetch(name), lambda: ex.fetch_raw(name)]
    if not isinstance(name, list):
        calls.append(lambda: ex.insert({name: 1.0}))
    for call in calls:
        with pytest.raises(oi.ExecutionError, match=f"names of variables as strings, found {type(name).__name__}") as c:
            call()
        assert c.value.code == "unknown-variable"


@pytest.mark.rule("runtime.host.4")
def test_values_that_are_not_a_mapping_are_refused(ex: Executor) -> None:
    with pytest.raises(oi.DTypeError, match="a mapping of names to values, found list") as caught:
        ex.insert(cast("Any", [1.0]))
    assert caught.value.code == "insert-mismatch"
    ex.insert(None, k=1)
    assert ex.fetch("k") == 1


@pytest.mark.rule("runtime.host.7")
def test_a_value_is_fetched_raw_as_it_is_stored(ex: Executor) -> None:
    ex.insert(q=[-8, 7], k=3)
    found = ex.fetch_raw("q")
    assert (found.dtype.name, found.shape, found.storage.tolist(), found.array.tolist()) == (
        "i4",
        (2,),
        [0x78],
        [-8, 7],
    )
    assert (ex.fetch_raw("k").shape, ex.fetch_raw("k").array.item()) == ((), 3)


@pytest.mark.rule("runtime.host.5", "runtime.memory.9")
def test_fetch_gives_scalars_tuples_and_copies(ex: Executor) -> None:
    ex.step(x=[1.0, 2.0])
    y, n = ex.fetch("y", "n")
    assert type(n) is int
    y[:] = 0
    assert ex.fetch("y").tolist() == [2.0, 4.0]
    before = ex.fetch("y")
    ex.step(x=[5.0, 5.0])
    assert before.tolist() == [2.0, 4.0]


@pytest.mark.rule("runtime.host.6")
@pytest.mark.parametrize(
    ("access", "code"),
    [
        ("W", "needs-index"),
        ("W[0, 0]", "index-count"),
        ("W[l]", "index-count"),
        ("W[-1]", "out-of-range"),
        ("W[7]", "model-data"),
        ("y[0]", "not-indexable"),
        ("K[-1]", "index-count"),
        ("x", "dynamic-unset"),
        ("y]", "unknown-variable"),
    ],
)
def test_what_cannot_be_fetched_says_why(ex: Executor, access: str, code: str) -> None:
    with pytest.raises(oi.ExecutionError) as caught:
        ex.fetch(access)
    assert caught.value.code == code


@pytest.mark.parametrize("kind", ["f32[1125899906842624]", "f32[2305843009213693951]"], ids=["much", "addresses"])
def test_what_is_too_large_for_this_machine_is_named(kind: str) -> None:
    program = graph(f"dynamic {{ x: {kind} @init(0.0); }} volatile {{ y: {kind}; }} block entry {{ return; }}")
    ex = Simulator(MODEL, program).make_executor()
    with pytest.raises(oi.ExecutionError, match=r"`y` is more than this machine holds: .*allocate") as caught:
        ex.fetch("y")
    assert caught.value.code == "too-large"


def test_an_index_of_5000_digits_is_refused(ex: Executor) -> None:
    with pytest.raises(oi.ExecutionError, match=r"`W\[9+…` is more than this machine holds") as caught:
        ex.fetch("W[" + "9" * 5000 + "]")
    assert len(str(caught.value)) < 300


@pytest.mark.rule("runtime.host.5")
def test_fetch_checks_the_type_that_is_requested(ex: Executor) -> None:
    assert ex.fetch("W[ 0 ]", dtype="f32").tolist() == [1.0, 2.0]
    with pytest.raises(oi.DTypeError, match="`y` is f32, requested as f64"):
        ex.fetch("y", dtype="f64")
    with pytest.raises(oi.DTypeError, match="unknown dtype"):
        ex.fetch("y", dtype="float")


@pytest.mark.rule("api.python.3")
def test_a_model_may_be_given_as_the_path_of_its_file(tmp_path: Path) -> None:
    program = oi.graph("volatile { w: f32[B]; } block entry { return w; }")
    write_oinf({"B": SizeVar(2), "w": np.array([1, 2], np.float32)}, tmp_path / "m.oinf")
    for path in (tmp_path / "m.oinf", str(tmp_path / "m.oinf")):
        executor = oi.Simulator(path, program).make_executor()
        executor.step()
        assert executor.fetch("w").tolist() == [1.0, 2.0]
        del executor
    gc.collect()
    if (descriptors := Path("/proc/self/fd")).exists():
        assert (tmp_path / "m.oinf").resolve() not in [descriptor.resolve() for descriptor in descriptors.iterdir()]
    with pytest.raises(oi.ModelError, match=r"no\.oinf"):
        oi.Simulator(tmp_path / "no.oinf", program)


@pytest.mark.rule("runtime.host.1")
def test_graph_and_device_are_told_apart_by_type() -> None:
    assert Simulator(MODEL, PROGRAM, "cpu").device == Simulator(MODEL, Device.CPU, PROGRAM).device == "cpu"
    with pytest.raises(TypeError, match="one program and one device"):
        Simulator(MODEL, "cpu", device="cpu")
    with pytest.raises(TypeError, match="int"):
        Simulator(MODEL, cast("Any", 3))


def test_the_names_of_devices_may_be_written_as_classes_are() -> None:
    assert (Device.Cpu, Device.Vulkan) == (Device.CPU, Device.VULKAN) == ("cpu", "vulkan")
    assert [device.name for device in Device] == ["CPU", "VULKAN", "C"]
    assert Simulator(MODEL, Device.Cpu, PROGRAM).device == "cpu"


@pytest.mark.rule("runtime.host.1")
@pytest.mark.parametrize(
    ("device", "found"), [("cpo", "did you mean `cpu`"), ("cpu:x", "cpu:1"), ("", "unknown device")]
)
def test_an_unknown_device_is_an_error_at_once(device: str, found: str) -> None:
    with pytest.raises(oi.DeviceError, match=found):
        Simulator(MODEL, device=device)


@pytest.mark.rule("runtime.checks.12")
def test_a_simulator_validates_its_graph_when_it_is_made() -> None:
    with pytest.raises(oi.ValidationError, match="unknown operator"):
        Simulator(MODEL, graph("volatile { y: f32; } block entry { op frobnicate(y) >> y; return; }"))


@pytest.mark.rule("runtime.checks.12")
def test_without_a_graph_there_is_nothing_to_run() -> None:
    with pytest.raises(oi.ValidationError, match="no graph"):
        Simulator(MODEL).make_executor()


@pytest.mark.rule("runtime.checks.3")
def test_warnings_are_returned_and_are_errors_when_strict() -> None:
    program = graph("volatile { c: f32 @init(1.0); } block entry { branch c yes yes; return; } block yes { return; }")
    assert [warning.code for warning in Simulator(MODEL).validate(program)] == ["cond-not-bool"]
    with pytest.raises(oi.ValidationError):
        Simulator(MODEL, strict=True).validate(program)


def test_an_executor_closes_as_a_context() -> None:
    with Simulator(MODEL, PROGRAM).make_executor() as ex:
        ex.step(x=[0.0, 0.0])
        assert ex.outputs()["y"].tolist() == [1.0, 2.0]
