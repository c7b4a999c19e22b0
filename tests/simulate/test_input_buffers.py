"""Arrays of `Executor.input_buffer`: the host fills them, a step takes them as they are."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import DeviceError, DTypeError, ExecutionError, ShapeError

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.simulate import Executor

LARGE = 1 << 19
"""Elements of an f32 input that device vulkan does not copy for each step."""

SQUARES = "dynamic { x: f32[64]; } volatile { y: f32[64]; } block entry { op mul(x, x) >> y; return y; }"
SUMS = """
dynamic { x: f32[N, 3]; }
volatile { y: f32[N]; }
block entry { op sum_axis(x, axes=[1]) >> y; return y; }
"""
TOTALS = """
dynamic { x: f32[64]; }
volatile { y: f32[64]; }
persistent { s: f32[64] @init(0.0); }
block entry {
  assign t: f32[64];
  cache.read s >> t;
  op add(t, x) >> t;
  cache.write t >> s;
  op neg(t) >> y;
  return y;
}
"""


@pytest.fixture(params=["cpu", "c", "vulkan", "vulkan, staged"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device; staged: as if the host did not see its tensors."""
    name, _, staged = request.param.partition(", ")
    if name == "vulkan":
        request.getfixturevalue("vulkan")
    if name == "c" and importlib.util.find_spec("openinfer_synth_c") is None:
        pytest.skip("device c is not installed: openinfer-synth-c")
    if staged:
        monkeypatch.setenv("OPENINFER_VULKAN_STAGING", "1")
    return name


def executor(text: str, device: str, **options: Any) -> Executor:
    model = oi.Model.from_arrays({}, sizevars={"N": 4})
    return oi.Simulator(model, oi.graph(text), device=device, **options).make_executor()


def address(array: npt.NDArray[Any]) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.rule("runtime.host.18")
@pytest.mark.parametrize("options", [{}, {"trace": True, "echo": False}], ids=["whole", "node by node"])
def test_a_step_computes_with_what_the_host_has_filled_in(device: str, options: dict[str, bool]) -> None:
    with executor(SQUARES, device, **options) as ex:
        x = ex.input_buffer("x")
        assert (x.dtype, x.shape, x.flags.writeable) == (np.float32, (64,), True)
        x[:] = np.arange(64)
        ex.step(x=x)
        np.testing.assert_array_equal(ex.fetch("y"), np.arange(64, dtype=np.float32) ** 2)
        np.testing.assert_array_equal(ex.fetch("x"), np.arange(64))


@pytest.mark.rule("runtime.host.19")
@pytest.mark.parametrize("count", [64, LARGE])
def test_started_steps_have_each_the_value_that_they_were_given(device: str, count: int) -> None:
    futures: list[oi.StepFuture] = []
    with executor(TOTALS.replace("64", str(count)), device) as ex:
        for number in range(1, 9):
            x = ex.input_buffer("x")
            x[:] = number
            futures.append(ex.step_async(x=x))
        found = [future.result()["y"] for future in futures]
    assert [set(y.tolist()) for y in found] == [{-float(sum(range(n + 1)))} for n in range(1, 9)]


@pytest.mark.rule("runtime.host.19")
@pytest.mark.parametrize("way", ["insert", "insert_dynamic", "step", "step_async"])
def test_inserting_makes_it_read_only(device: str, way: str) -> None:
    with executor(SQUARES, device) as ex:
        x = ex.input_buffer("x")
        x[:] = 3.0
        if way == "insert_dynamic":
            ex.insert_dynamic("x", x)
        else:
            getattr(ex, way)(x=x)
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1.0


@pytest.mark.rule("runtime.host.19")
def test_it_may_be_inserted_again_and_mixed_with_other_arrays(device: str) -> None:
    with executor(TOTALS, device) as ex:
        x = ex.input_buffer("x")
        x[:] = 1.0
        other = np.full(64, 10.0, np.float32)
        for value in (x, other, x, x, other, x):
            ex.step_async(x=value)
        assert set(ex.fetch("y").tolist()) == {-24.0}


@pytest.mark.rule("runtime.host.18")
def test_arrays_that_the_host_has_share_no_memory(device: str) -> None:
    with executor(SQUARES, device) as ex:
        arrays = [ex.input_buffer("x") for _ in range(6)]
        for number, array in enumerate(arrays):
            array[:] = number
        assert [set(array.tolist()) for array in arrays] == [{float(n)} for n in range(6)]


@pytest.mark.rule("runtime.host.20")
def test_it_keeps_its_elements_while_later_steps_run(device: str) -> None:
    with executor(SQUARES, device) as ex:
        first = ex.input_buffer("x")
        first[:] = 7.0
        ex.step(x=first)
        for number in range(6):
            x = ex.input_buffer("x")
            x[:] = number
            ex.step(x=x)
        assert set(first.tolist()) == {7.0}


@pytest.mark.rule("runtime.host.20")
def test_it_outlives_its_executor(device: str) -> None:
    ex = executor(SQUARES, device)
    filled, empty = ex.input_buffer("x"), ex.input_buffer("x")
    filled[:] = 5.0
    part = filled[10:20]
    ex.step(x=filled)
    ex.close()
    del ex, filled
    gc.collect()
    empty[:] = 6.0
    assert set(part.tolist()) == {5.0}
    assert set(empty.tolist()) == {6.0}


def test_a_view_is_copied_as_any_array(device: str) -> None:
    with executor(SQUARES, device) as ex:
        x = ex.input_buffer("x")
        x[:] = 2.0
        ex.step(x=x[:])
        x[:] = 3.0
        assert set(ex.fetch("y").tolist()) == {4.0}


@pytest.mark.rule("runtime.host.18")
def test_sizes_of_a_step_come_with_the_shape(device: str) -> None:
    with executor(SUMS, device) as ex:
        usual, longer = ex.input_buffer("x"), ex.input_buffer("x", (6, 3))
        assert (usual.shape, longer.shape) == ((4, 3), (6, 3))
        longer[:] = 2.0
        ex.step(x=longer)
        assert ex.fetch("y").tolist() == [6.0] * 6


@pytest.mark.rule("runtime.host.18")
@pytest.mark.parametrize("shape", [(6,), (6, 4), (6, 3, 1), (-1, 3)])
def test_shapes_that_the_declaration_rules_out_are_refused(shape: tuple[int, ...]) -> None:
    with executor(SUMS, "cpu") as ex, pytest.raises(ShapeError, match=r"`x` is declared f32\[4,3\]") as refused:
        ex.input_buffer("x", shape)
    assert refused.value.code == "insert-mismatch"
    assert str(list(shape)) in str(refused.value)


@pytest.mark.rule("runtime.host.18")
@pytest.mark.parametrize("shape", [64, 64.0, "64", (64.0,), ("64",), (None,), {"N": 4}], ids=repr)
def test_shapes_that_are_not_sequences_of_integers_are_refused(shape: Any) -> None:
    with executor(SQUARES, "cpu") as ex, pytest.raises(ShapeError, match=r"such as \[64\], found ") as refused:
        ex.input_buffer("x", shape)
    assert refused.value.code == "insert-mismatch"
    assert f"{type(shape).__name__}: {shape!r}"[:60] in str(refused.value)


def test_extents_are_any_integers() -> None:
    with executor(SUMS, "cpu") as ex:
        assert ex.input_buffer("x", np.array([6, 3])).shape == (6, 3)
        assert ex.input_buffer("x", iter([np.uint8(5), 3])).shape == (5, 3)


@pytest.mark.parametrize("extent", [1 << 50, 1 << 62, 10**30])
def test_more_elements_than_there_is_memory_for_are_refused(device: str, extent: int) -> None:
    with executor(SUMS, device) as ex, pytest.raises(DeviceError) as refused:
        ex.input_buffer("x", (extent, 3))
    assert refused.value.code == "too-large"


def test_names_that_take_no_value_are_refused() -> None:
    with executor(SQUARES, "cpu") as ex:
        with pytest.raises(ExecutionError, match="unknown variable `z`"):
            ex.input_buffer("z")
        with pytest.raises(ExecutionError, match="`y` is volatile"):
            ex.input_buffer("y")


def test_a_refused_insertion_leaves_it_writable(device: str) -> None:
    text = "dynamic { x: f32[2]; z: i32[2]; } volatile { y: f32[2]; } block entry { op relu(x) >> y; return y; }"
    with executor(text, device) as ex:
        x = ex.input_buffer("x")
        with pytest.raises(DTypeError):
            ex.insert(x=x, z=np.ones(2, np.float32))
        with pytest.raises(DTypeError):
            ex.insert(z=x)
        x[:] = 1.0


def test_elements_of_packed_types_are_packed_on_insertion(device: str) -> None:
    text = "dynamic { x: i4[5]; } volatile { y: i32[5]; } block entry { op cast(x, to=i32) >> y; return y; }"
    with executor(text, device) as ex:
        x = ex.input_buffer("x")
        assert (x.dtype, x.shape) == (np.int8, (5,))
        x[:] = [-8, -1, 0, 3, 7]
        ex.step(x=x)
        assert ex.fetch("y").tolist() == [-8, -1, 0, 3, 7]


@pytest.mark.parametrize("shape", ["", "[0]"])
def test_scalars_and_empty_inputs(device: str, shape: str) -> None:
    text = f"dynamic {{ x: f32{shape}; }} volatile {{ y: f32{shape}; }} block entry {{ op neg(x) >> y; return y; }}"
    with executor(text, device) as ex:
        x = ex.input_buffer("x")
        x[...] = 2.5
        ex.step(x=x)
        np.testing.assert_array_equal(ex.fetch("y"), -x)


class TestVulkan:
    @pytest.fixture(autouse=True)
    def _available(self, vulkan: None) -> None:
        """These tests need the device."""

    def test_memory_serves_the_next_array_when_nothing_refers_to_the_last(self) -> None:
        with executor(SQUARES, "vulkan") as ex:
            addresses: set[int] = set()
            for number in range(20):
                x = ex.input_buffer("x")
                x[:] = number
                addresses.add(address(x))
                ex.step_async(x=x)
        assert len(addresses) <= 4

    def test_the_host_does_not_copy_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from openinfer_backend_vulkan.memory.staging import Staging

        def unexpected(*_: object) -> None:
            raise AssertionError("the host copied an input")

        monkeypatch.setenv("OPENINFER_VULKAN_STAGING", "1")
        with executor(SQUARES, "vulkan") as ex:
            x = ex.input_buffer("x")
            x[:] = 4.0
            ex.step(x=x)
            monkeypatch.setattr(Staging, "upload", unexpected)
            ex.step(x=x)
            assert set(ex.fetch("y").tolist()) == {16.0}

    def test_a_closed_device_lends_nothing(self) -> None:
        ex = executor(SQUARES, "vulkan")
        ex.close()
        with pytest.raises(DeviceError, match="closed"):
            ex.input_buffer("x")

    def test_a_closed_executor_takes_none(self) -> None:
        ex = executor(SQUARES, "vulkan")
        x = ex.input_buffer("x")
        ex.close()
        with pytest.raises(DeviceError, match="closed"):
            ex.insert(x=x)

    def test_arrays_may_be_there_at_the_end_of_the_process(self) -> None:
        program = (
            "import openinfer as oi\n"
            f"simulator = oi.Simulator(oi.Model.from_arrays({{}}), oi.graph({SQUARES!r}), device='vulkan')\n"
            "ex = simulator.make_executor()\n"
            "x = ex.input_buffer('x')\nx[:] = 1.0\nex.step_async(x=x)\nprint(x.sum())\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300, env=os.environ
        )
        assert (ended.returncode, ended.stdout) == (0, "64.0\n"), ended.stderr
