"""Random programs of the kit: the same each time, and what a device or a target does wrongly is found."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import SynthesisError
from openinfer.plugin import BUILTIN, Bundle, ExecutionPlan, OpenInferError, RunResult, SynthTargetSpec
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator
from openinfer.simulate.values import Tensor
from openinfer.testing.random_programs import checking
from openinfer.testing.random_programs.checking import random_sample, wrong_on_device, wrong_on_target
from openinfer.testing.random_programs.running import Ran
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


class SimulatedTarget:
    """Runs a sample on device cpu, and changes what it yields."""

    epilogues = False
    sample: ClassVar[Sample]
    change: ClassVar[Callable[[dict[str, Array]], None]]
    stops: ClassVar[bool]

    def emit(self, plan: ExecutionPlan) -> Bundle:
        return Bundle({"plan.txt": plan.report().encode()})

    def build_and_run(
        self, plan: ExecutionPlan, _bundle: Bundle, inputs: Mapping[str, Any], *, steps: int, **_: Any
    ) -> RunResult:
        made: dict[str, list[Array]] = {port.name: [] for port in plan.outputs}
        with Simulator(self.sample.model(), self.sample.graph, limits=self.sample.limits).make_executor() as executor:
            for step in range(steps):
                try:
                    executor.step(**{name: array[step] for name, array in inputs.items()})
                except OpenInferError as error:
                    if self.stops:
                        raise SynthesisError("the program failed") from error
                for name, arrays in made.items():
                    arrays.append(np.array(executor.result(name).array))
        outputs = {name: _stacked(arrays) for name, arrays in made.items()}
        type(self).change(outputs)
        return RunResult(outputs, 0.0)


def _stacked(arrays: list[Array]) -> Array:
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    stacked = np.empty(len(arrays), dtype=object)
    stacked[:] = arrays
    return stacked


def wrong(sample: Sample, change: Callable[[dict[str, Array]], None], *, stops: bool = True) -> list[str]:
    SimulatedTarget.sample, SimulatedTarget.change, SimulatedTarget.stops = sample, change, stops
    environment = replace(ENVIRONMENT, targets={**ENVIRONMENT.targets, "simulated": SPEC})
    return wrong_on_target(sample, "simulated", environment)


def unchanged(_outputs: dict[str, Array]) -> None:
    """Leave results as they are."""


def counting(*indices: int) -> Sample:
    steps = tuple({"x": np.array([1, 2, 3], np.float32), "i": np.array(index, np.int64)} for index in indices)
    return Sample(graph(COUNTING), {}, {}, steps)


def test_a_seed_and_a_number_make_the_same_program() -> None:
    texts = [[random_sample(5, number, ENVIRONMENT).text() for number in range(4)] for _ in range(2)]

    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 4
    assert ["// limit T = " in text for text in texts[0]] == [False, False, False, True]


def test_a_wrong_element_of_a_late_step_is_found_on_a_target() -> None:
    def change(outputs: dict[str, Array]) -> None:
        if len(outputs["y"]) == 3:
            outputs["count"][2] += 1

    assert wrong(counting(0, 1, 2), unchanged) == []
    (line,) = wrong(counting(0, 1, 2), change)
    assert line.startswith("step 2, count: element 0 is ")


def test_a_target_has_to_end_with_the_step_that_fails() -> None:
    assert wrong(counting(0, 7, 1), unchanged) == []
    assert wrong(counting(0, 7, 1), unchanged, stops=False) == ["step 1: no error, expected the error failed"]


def test_the_steps_of_programs_are_those_of_a_run_of_a_target() -> None:
    for number in (3, 10):
        assert wrong(random_sample(0, number, ENVIRONMENT), unchanged) == []


def test_a_wrong_element_is_found_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    run_on = checking.run_on

    def run_wrongly(sample: Sample, device: str, environment: Environment) -> Ran:
        ran = run_on(sample, "cpu", environment)
        if device == "cpu":
            return ran
        first, *others = ran.steps
        assert isinstance(first, Mapping)
        changed = {**first, "y": Tensor(first["y"].dtype, (), first["y"].array + np.float32(1))}
        return replace(ran, steps=(changed, *others))

    monkeypatch.setattr(checking, "run_on", run_wrongly)

    (line,) = wrong_on_device(counting(0, 1), "other", ENVIRONMENT)

    assert line.startswith("step 0, y: element 0 is")
