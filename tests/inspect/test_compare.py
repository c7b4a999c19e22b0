"""Comparison of devices: a device with a known defect is reported at the statement where it goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import openinfer as oi
from openinfer.cli import main
from openinfer.inspect.divergence import Comparison, Tolerances, compare_executors
from openinfer.ir.uses import writes
from openinfer.simulate import Executor
from openinfer.simulate.state.program_memory import ProgramMemory
from openinfer.tolerances import Tolerance
from openinfer_backend_cpu.backend import CpuBackend
from openinfer_oinf import SizeVar, write_oinf

PROGRAM = """dynamic { x: f32[B]; c: bool; }
volatile { y: f32[B]; z: f32[B]; }
persistent { n: i32; }
block entry {
  op exp(x) >> y;
  loop twice (i in 0..2) { op sqrt(y) >> y; }
  cache.increment n;
  branch c left right;
  return y;
}
block left { op neg(y) >> z; }
block right { op relu(y) >> z; }
"""
MODEL = oi.Model.from_arrays({}, sizevars={"B": 3})
X = np.array([0.5, 1, 2], np.float32)


def spoilt(executor: Executor, position: int, change: Callable[[Any], None]) -> Executor:
    """Let a statement of ``entry`` change what its first output holds, after it has run."""
    action: Any = executor._steps.binding.codes["entry"].items[position]
    sound = action.call
    target: Any = executor._memory.buffer(next(iter(writes(action.place.node))))

    def call() -> None:
        sound()
        change(target.array)

    action.call = call
    return executor


def compared(*pair: Executor, steps: int = 1, tolerances: Tolerances | None = None, **inputs: Any) -> Comparison:
    held = (pair[0], pair[1])
    return compare_executors(held, ("cpu", "bad"), [inputs] * steps, tolerances or Tolerances(["cpu"]))


def executor_of(text: str = PROGRAM) -> Executor:
    return oi.Simulator(MODEL, oi.graph(text)).make_executor()


def test_devices_that_agree_are_said_to() -> None:
    found = compared(executor_of(), executor_of(), steps=2, x=X, c=True)
    assert (found.divergence, found.steps, found.nodes) == (None, 2, 2 * 8)
    assert found.largest["exp"].nodes == 2
    assert all(each.absolute == 0 for each in found.largest.values())


def test_the_first_node_that_differs_is_named_with_element_and_errors() -> None:
    def change(array: Any) -> None:
        array[1] += 0.5

    found = compared(executor_of(), spoilt(executor_of(), 0, change), x=X, c=True)
    assert found.divergence is not None
    assert found.divergence.event is not None
    assert found.divergence.difference is not None
    where = found.divergence.event.node_desc, found.divergence.variable, found.divergence.difference.where
    assert where == ("op exp(x) >> y", "y", (1,))
    assert found.divergence.difference.absolute == pytest.approx(0.5)
    assert found.divergence.node is not None
    assert found.divergence.node.span is not None
    assert found.divergence.node.span.line == 5
    assert found.nodes == 1


def test_a_difference_within_tolerance_is_measured_and_goes_on() -> None:
    def change(array: Any) -> None:
        array[0] = np.nextafter(array[0], np.float32(9))

    found = compared(executor_of(), spoilt(executor_of(), 0, change), x=X, c=True)
    assert (found.divergence, found.nodes, found.largest["exp"].ulps) == (None, 8, 1)


def test_counters_are_compared_and_the_step_is_reported() -> None:
    times = iter([0, 1])

    def change(array: Any) -> None:
        array += next(times)

    found = compared(executor_of(), spoilt(executor_of(), 2, change), steps=2, x=X, c=True)
    assert found.divergence is not None
    assert (found.divergence.step, found.divergence.variable) == (2, "n")


def test_another_way_through_the_program_is_a_divergence() -> None:
    other = executor_of()
    branch: Any = other._steps.binding.codes["entry"].items[3]
    branch.condition = lambda: False
    found = compared(executor_of(), other, x=X, c=True)
    assert found.divergence is not None
    assert found.divergence.reason == (
        "cpu comes to `op neg(y) >> z`, bad to `op relu(y) >> z`: a condition or a bound differs"
    )


def test_values_of_consumers_are_compared_where_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """dynamic { x: f32[B]; } volatile { y: f32[B]; }
    block entry { transfer x >> y; yield y; await y; return y; }
    block other { await y; op exp(y) >> y; yield y; }"""
    sound, bind = executor_of(text), CpuBackend.bind_expression

    def bind_spoilt(self: CpuBackend, expr: Any, inputs: Any, output: Any) -> Any:
        call = bind(self, expr, inputs, output)
        return lambda: (call(), output.array.fill(77))

    monkeypatch.setattr(CpuBackend, "bind_expression", bind_spoilt)
    found = compared(sound, executor_of(text), x=X)
    assert found.divergence is not None
    assert found.divergence.event is not None
    assert (found.divergence.event.track, found.divergence.event.node_desc) == ("other", "op exp(y) >> y")


def test_what_a_consumer_yields_is_compared_where_it_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """dynamic { x: f32[B]; } volatile { y: f32[B]; z: f32[B]; }
    block entry { transfer x >> y; yield y; op neg(x) >> z; await y; return y; }
    block reader { await y; yield y; }
    block writer { await y; op exp(y) >> y; yield y; }"""
    other, load = executor_of(text), ProgramMemory.load

    def lost(self: ProgramMemory, name: str, saved: Any) -> None:
        load(self, name, ((saved[0][0], saved[0][1] * 2), saved[1]) if self is other._memory else saved)

    monkeypatch.setattr(ProgramMemory, "load", lost)
    found = compared(executor_of(text), other, x=X)
    assert found.divergence is not None
    assert found.divergence.event is not None
    assert found.divergence.event.node_desc == "await y"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.oi").write_text(PROGRAM)
    write_oinf({"B": SizeVar(3)}, "m.oinf")
    return tmp_path


def compare(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["compare", "g.oi", "--model", "m.oinf", *arguments])


BOTH = ("--device", "cpu", "--device", "cpu", "--input", "x=random", "--input", "c=true")


def test_the_command_says_that_devices_agree(files: Path) -> None:
    result = compare(*BOTH, "--steps", "2")
    assert result.exit_code == 0
    assert result.stdout.startswith("cpu against cpu: 16 nodes in 2 steps, the same within tolerance\n")
    (found,) = json.loads(compare(*BOTH, "--json").stdout)
    assert (found["same"], found["largest"]["exp"]["ulps"], found["divergence"]) == (True, 0, None)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([np.nan] * 4, "is NaN in all 4 elements"),
        ([1, np.nan, 2, np.nan], "is NaN in 2 of 4 elements"),
        ([np.inf, -np.inf], "is infinite in all 2 elements"),
        ([0, -0.0, 0], "is zero in all 3 elements"),
        ([], "has no elements"),
        ([np.nan], "is NaN"),
        ([np.inf], "is infinite"),
        ([1, np.inf, 0], None),
        ([0], None),
    ],
)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_results_that_say_little_are_named(values: list[float], reason: str | None, dtype: str) -> None:
    size = len(values)
    kind = f"{dtype}[{size}]"
    text = f"dynamic {{ x: {kind}; }} volatile {{ y: {kind}; }} block entry {{ transfer x >> y; return y; }}"
    found = compared(executor_of(text), executor_of(text), x=values)
    assert (found.divergence, found.hollow) == (None, {} if reason is None else {"y": reason})


def test_zero_integers_and_values_that_are_no_results_are_not_named() -> None:
    text = """dynamic { x: i32[2]; } volatile { y: i32[2]; z: f32[2]; }
    block entry { transfer x >> y; op cast(x, to=f32) >> z; return y; }"""
    assert compared(executor_of(text), executor_of(text), x=[0, 0]).hollow == {}


def test_the_command_names_results_that_say_little(files: Path) -> None:
    Path("g.oi").write_text("dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op sqrt(x) >> y; return y; }")
    arguments = ("--device", "cpu", "--device", "cpu", "--input", "x=[-1, -2]")
    result = compare(*arguments)
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (
        0,
        [
            "cpu against cpu: 2 nodes in 1 step, the same within tolerance, but with results that say little",
            "note: `y` is NaN in all 2 elements on both",
        ],
    )
    (found,) = json.loads(compare(*arguments, "--json").stdout)
    assert (found["same"], found["hollow"]) == (True, {"y": "is NaN in all 2 elements"})


def test_the_command_shows_the_line_and_exits_with_1(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, made = oi.Simulator.make_executor, list[int]()

    def change(array: Any) -> None:
        array[2] = np.nan

    def make_second_spoilt(self: oi.Simulator) -> Executor:
        made.append(1)
        return make(self) if len(made) % 2 else spoilt(make(self), 0, change)

    monkeypatch.setattr(oi.Simulator, "make_executor", make_second_spoilt)
    arguments = [each.replace("x=random", "x=[1, 2, 3]") for each in BOTH]
    result = compare(*arguments)
    assert result.exit_code == 1
    warnings = [line for line in result.stderr.splitlines() if "warning[no-return]" in line]
    assert result.stderr.splitlines() == [
        *warnings,
        "error[divergence]: `y` differs between cpu and cpu after `op exp(x) >> y`",
        " --> g.oi:5:3",
        "  |",
        "5 |   op exp(x) >> y;",
        "  |   ^^^^^^^^^^^^^^",
        "  help: y[2] is 20.085537 on cpu, nan on cpu; 1 of 3 elements are beyond tolerance; max abs inf, max rel inf",
    ]
    assert result.stdout.startswith("cpu against cpu: 1 node in 1 step, then they differ\n")
    (found,) = json.loads(compare(*arguments, "--json").stdout, parse_constant=pytest.fail)
    assert found["divergence"]["difference"]["found"] == "nan"
    assert found["divergence"]["place"]["line"] == 5


@pytest.mark.parametrize(
    ("arguments", "code", "reported"),
    [
        (("--device", "cpu"), 2, "at least two devices"),
        (("--device", "cpu", "--device", "cpuu", "--input", "x=1"), 1, "did you mean `cpu`"),
        (("--device", "cpu", "--device", "cpu"), 1, "--input NAME=FILE.npy"),
        ((*BOTH, "--tolerance", "f33=1"), 2, "expected [DTYPE=]ABS[,REL]"),
        ((*BOTH, "--tolerance", "nan"), 2, "expected [DTYPE=]ABS[,REL]"),
        ((*BOTH, "--tolerance", "f32=-1"), 2, "expected [DTYPE=]ABS[,REL]"),
        ((*BOTH, "--steps", "0"), 2, "--steps"),
    ],
)
def test_mistakes_are_reported(files: Path, arguments: tuple[str, ...], code: int, reported: str) -> None:
    result = compare(*arguments)
    assert (result.exit_code, reported in result.output) == (code, True)


@pytest.mark.rule("dtypes.drift.2", "runtime.determinism.3")
def test_tolerances_double_for_vulkan_unless_given() -> None:
    assert Tolerances(["cpu", "vulkan:1"]).of("f32") == Tolerance(2e-4, 2e-4)
    assert Tolerances(["cpu", "c"]).of("f32") == Tolerance(1e-4, 1e-4)
    given = Tolerances(["vulkan"], {"": Tolerance(1, 2), "f16": Tolerance(3, 4)})
    assert (given.of("f32"), given.of("f16"), given.of("i32")) == (Tolerance(1, 2), Tolerance(3, 4), Tolerance(0, 0))
