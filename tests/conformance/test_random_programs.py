"""Random programs of the kit: the same each time, and what a device or a target does wrongly is found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest.mock import Mock

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import DeviceError, MissingDependencyError, SynthesisError, UnsupportedError
from openinfer.plugin import BUILTIN, Bundle, ExecutionPlan, OpenInferError, RunResult, SynthTargetSpec
from openinfer.plugins.environment import Environment
from openinfer.simulate import Executor, Simulator
from openinfer.simulate.values import Tensor
from openinfer.testing.conformance import test_random_programs as kit
from openinfer.testing.random_programs import checking
from openinfer.testing.random_programs.checking import random_sample, wrong_on_device, wrong_on_target
from openinfer.testing.random_programs.refusals import ProgramRefusedError
from openinfer.testing.random_programs.running import Step, executor_on, stepped
from openinfer.testing.random_programs.sample import Array, Sample

ENVIRONMENT = Environment.default()
SPEC = SynthTargetSpec(
    name="simulated",
    summary="a target that runs the program of a test on device cpu",
    target=f"{__name__}:SimulatedTarget",
    expression_dtypes=frozenset(dtype.name for dtype in BUILTIN),
    computations=True,
    loop_programs=True,
    state=True,
)

COUNTING = """
dynamic { x: f32[3]; i: i64; }
persistent { n: i64; }
volatile { y: f32; count: i64; }
block entry {
  cache.increment n;
  op gather(x, i, axis=0) >> y;
  cache.read n >> count;
  return y, count;
}
"""


STATELESS = """
dynamic { x: f32[3]; i: i64; }
volatile { y: f32; z: f32; }
block entry {
  op gather(x, i, axis=0) >> y;
  op div(y, x) >> quotients;
  op gather(quotients, i, axis=0) >> z;
  return y, z;
}
"""


def unchanged(_outputs: dict[str, Array]) -> None:
    """Leave results as they are."""


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What a target does with a program, which it runs on device cpu.

    Attributes:
        change: changes the outputs of a run.
        refusal: what it says instead of writing a program out.
        tools: what its tools say instead of building a program, given the number of steps of a run.
        code: that of the error which ends a run; None: no error ends one.
    """

    change: Callable[[dict[str, Array]], None] = unchanged
    refusal: OpenInferError | None = None
    tools: Callable[[int], OpenInferError | None] = lambda _steps: None
    code: str | None = "tool-failed"


class SimulatedTarget:
    """Runs a sample on device cpu."""

    epilogues = False
    sample: ClassVar[Sample]
    behaviour: ClassVar[Behaviour]

    def emit(self, plan: ExecutionPlan) -> Bundle:
        if self.behaviour.refusal is not None:
            raise self.behaviour.refusal
        return Bundle({"plan.txt": plan.report().encode()})

    def build_and_run(
        self, plan: ExecutionPlan, _bundle: Bundle, inputs: Mapping[str, Any], *, steps: int, **_: Any
    ) -> RunResult:
        if (said := self.behaviour.tools(steps)) is not None:
            raise said
        made: dict[str, list[Array]] = {port.name: [] for port in plan.outputs}
        with Simulator(self.sample.model(), self.sample.graph, limits=self.sample.limits).make_executor() as executor:
            for step in range(steps):
                try:
                    executor.step(**{name: array[step] for name, array in inputs.items()})
                except OpenInferError as error:
                    if self.behaviour.code is not None:
                        raise SynthesisError("the program failed", code=self.behaviour.code) from error
                for name, arrays in made.items():
                    arrays.append(np.array(executor.result(name).array))
        outputs = {name: _stacked(arrays) for name, arrays in made.items()}
        self.behaviour.change(outputs)
        return RunResult(outputs, 0.0)


def _stacked(arrays: list[Array]) -> Array:
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    stacked = np.empty(len(arrays), dtype=object)
    stacked[:] = arrays
    return stacked


def wrong(sample: Sample, behaviour: Behaviour | None = None, *, gpu: bool = False) -> list[str]:
    SimulatedTarget.sample, SimulatedTarget.behaviour = sample, behaviour or Behaviour()
    environment = replace(ENVIRONMENT, targets={**ENVIRONMENT.targets, "simulated": SPEC})
    return wrong_on_target(sample, "simulated", environment, gpu=gpu)


def sample_of(text: str, *indices: int) -> Sample:
    """Return a program that gathers elements of three, an index in each step."""
    steps = tuple({"x": np.array([1, 2, 3], np.float32), "i": np.array(index, np.int64)} for index in indices)
    return Sample(graph(text), {}, {}, steps)


def test_a_seed_and_a_number_make_the_same_program() -> None:
    texts = [[random_sample(5, number, ENVIRONMENT).text() for number in range(4)] for _ in range(2)]

    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 4
    assert ["// limit T = " in text for text in texts[0]] == [False, False, False, True]


def test_a_wrong_element_of_a_late_step_is_found_on_a_target() -> None:
    def change(outputs: dict[str, Array]) -> None:
        if len(outputs["y"]) == 3:
            outputs["count"][2] += 1

    assert wrong(sample_of(COUNTING, 0, 1, 2)) == []
    (line,) = wrong(sample_of(COUNTING, 0, 1, 2), Behaviour(change=change))
    assert line.startswith("step 2, count: element 0 is ")


def test_differences_have_the_numbers_of_steps_where_each_is_a_run_of_a_target() -> None:
    def change(outputs: dict[str, Array]) -> None:
        outputs["y"] += outputs["y"] == 3

    (line,) = wrong(sample_of(STATELESS, 0, 1, 2), Behaviour(change=change))

    assert line.startswith("step 2, y: element 0 is ")


def test_a_target_has_to_end_with_the_step_that_fails() -> None:
    goes_on = Behaviour(code=None)

    assert wrong(sample_of(COUNTING, 0, 7, 1)) == []
    assert wrong(sample_of(COUNTING, 0, 7, 1), goes_on) == ["step 1: no error, expected the error (any)"]
    assert wrong(sample_of(STATELESS, 0, 7, 1), goes_on) == ["step 1: no error, expected the error (any)"]


NO_NODE = MissingDependencyError("node is missing", code="no-node")


@pytest.mark.parametrize("said", [NO_NODE, SynthesisError("took more than 300 s", code="tool-timeout")])
def test_a_step_that_should_fail_does_not_fail_because_of_tools(said: OpenInferError) -> None:
    tools_end_last_run = Behaviour(tools=lambda steps: said if steps == 2 else None)

    (line,) = wrong(sample_of(COUNTING, 0, 7), tools_end_last_run)

    assert line == f"step 0 or later: {type(said).__name__}: {said}"


def test_a_program_that_cannot_be_built_is_found_although_its_first_step_should_fail() -> None:
    not_built = Behaviour(tools=lambda _steps: SynthesisError("undefined symbol", code="tool-failed"))

    assert wrong(sample_of(COUNTING, 7, 9, 1)) == []
    assert wrong(sample_of(COUNTING, 7, 9, 1), not_built) == ["step 2: SynthesisError: undefined symbol"]


def test_what_a_target_refuses_to_write_out_is_told_from_a_run_that_ends_with_the_same_code() -> None:
    refusal = SynthesisError("a cache without a bound", code="cache-limit")

    with pytest.raises(ProgramRefusedError, match="a cache without a bound"):
        wrong(sample_of(COUNTING, 0), Behaviour(refusal=refusal))
    assert wrong(sample_of(COUNTING, 0), Behaviour(tools=lambda _steps: refusal)) == [
        "step 0: SynthesisError: a cache without a bound"
    ]


def test_roundings_of_gpus_are_let_through_where_they_are_requested() -> None:
    def change(outputs: dict[str, Array]) -> None:
        outputs["z"] = np.nextafter(outputs["z"], np.float32(np.inf))

    rounds = Behaviour(change=change)

    (line,) = wrong(sample_of(STATELESS, 1), rounds)
    assert line.startswith("step 0, z: element 0 is ")
    assert wrong(sample_of(STATELESS, 1), rounds, gpu=True) == []


def test_the_steps_of_programs_are_those_of_a_run_of_a_target() -> None:
    for number in (3, 10):
        assert wrong(random_sample(0, number, ENVIRONMENT)) == []


def on_device(
    monkeypatch: pytest.MonkeyPatch,
    sample: Sample,
    run: Callable[[Executor, Sequence[Mapping[str, object]]], Sequence[Step]] = stepped,
) -> list[str]:
    """Return what is wrong on a device that is cpu with other steps."""
    monkeypatch.setattr(checking, "executor_on", lambda sample, _, environment: executor_on(sample, "cpu", environment))
    monkeypatch.setattr(checking, "stepped", run)
    return wrong_on_device(sample, "other", ENVIRONMENT)


def test_a_wrong_element_is_found_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrongly(executor: Executor, steps: Sequence[Mapping[str, object]]) -> list[Step]:
        first, *others = stepped(executor, steps)
        assert isinstance(first, Mapping)
        return [{**first, "y": Tensor(first["y"].dtype, (), first["y"].array + np.float32(1))}, *others]

    assert on_device(monkeypatch, sample_of(COUNTING, 0, 1)) == []
    (line,) = on_device(monkeypatch, sample_of(COUNTING, 0, 1), wrongly)
    assert line.startswith("step 0, y: element 0 is")


def test_what_a_device_refuses_is_told_from_steps_that_end_with_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_executor: Executor, _steps: Sequence[Mapping[str, object]]) -> list[Step]:
        raise DeviceError("the device is lost", code="unsupported")

    assert on_device(monkeypatch, sample_of(COUNTING, 0), lost) == ["DeviceError: the device is lost"]

    monkeypatch.setattr(checking, "executor_on", Mock(side_effect=UnsupportedError("no tables")))
    with pytest.raises(ProgramRefusedError, match="no tables"):
        wrong_on_device(sample_of(COUNTING, 0), "other", ENVIRONMENT)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (ProgramRefusedError("no tables"), pytest.skip.Exception),
        (SynthesisError("a fault of the planner", code="cache-limit"), pytest.fail.Exception),
    ],
)
def test_only_refusals_are_skipped(
    monkeypatch: pytest.MonkeyPatch, said: Exception, outcome: type[BaseException]
) -> None:
    monkeypatch.setattr(kit, "wrong_on_target", Mock(side_effect=said))

    with pytest.raises(outcome, match=str(said)):
        kit.test_a_random_program_computes_what_cpu_does(("target", "c", 0, 1), Mock())
