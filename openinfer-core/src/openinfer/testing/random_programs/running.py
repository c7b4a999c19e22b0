"""Running a sample on a device of the simulator, step by step."""

from __future__ import annotations

import json
import signal
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from openinfer.dsl import graph
from openinfer.errors import ExecutionError
from openinfer.ir.graph import Graph
from openinfer.ir.resolved import ResolvedGraph
from openinfer.plugins.environment import Environment
from openinfer.simulate import Executor, Simulator
from openinfer.simulate.values import Tensor
from openinfer.testing.random_programs.sample import Sample

LONGEST = 30
"""Seconds that a program may run in this process."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The code of the error that a step ended with, and the number of the statement that reported it."""

    code: str
    node: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.code


Step: TypeAlias = Mapping[str, Tensor] | Failed
"""What a step left in the results of the program, or how it failed."""


class HangError(BaseException):
    """A program that runs longer than it may; as an `Exception` it would become an error of the statement that runs."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of the steps of a program, and the program with its types known."""

    steps: tuple[Step, ...]
    program: ResolvedGraph


@contextmanager
def within(seconds: int) -> Generator[None]:
    """End what runs longer with a `HangError`, where the system has alarms and this is the main thread."""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise HangError(f"ran longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_on(sample: Sample, device: str, environment: Environment, *, trace: bool = False) -> Ran:
    """Run a sample on a device.

    Raises:
        OpenInferError: it cannot be run there.
        HangError: it does not end.
    """
    with within(LONGEST), executor_on(sample, device, environment, trace=trace) as executor:
        return Ran(stepped(executor, sample.steps), executor.program)


def executor_on(sample: Sample, device: str, environment: Environment, *, trace: bool = False) -> Executor:
    """Return an executor of a sample's program.

    Raises:
        OpenInferError: it cannot be run on that device.
    """
    simulator = Simulator(
        sample.model(),
        sample.graph,
        device=device,
        environment=environment,
        trace=trace,
        echo=False,
        limits=sample.limits,
    )
    return simulator.make_executor()


def stepped(executor: Executor, steps: Sequence[Mapping[str, object]]) -> tuple[Step, ...]:
    """Run steps, given their inputs.

    Raises:
        OpenInferError: an error of the device that does not belong to a step.
    """
    return tuple(_step(executor, inputs) for inputs in steps)


def _step(executor: Executor, inputs: Mapping[str, object]) -> Step:
    try:
        executor.step(**inputs)
    except ExecutionError as error:
        return Failed(error.code, error.node_index)
    names = executor.outputs() or executor.written()
    return {name: executor.result(name) for name in names}


def run_iterated(sample: Sample, environment: Environment) -> tuple[Step, ...]:
    """Run a sample on cpu, node by node."""
    found: list[Step] = []
    with within(LONGEST), Simulator(sample.model(), sample.graph, environment=environment).make_executor() as executor:
        for inputs in sample.steps:
            try:
                executor.insert(inputs)
                for _ in executor.iterate():
                    pass
            except ExecutionError as error:
                found.append(Failed(error.code, error.node_index))
                continue
            names = executor.outputs() or executor.written()
            found.append({name: executor.result(name) for name in names})
    return tuple(found)


def run_restored(sample: Sample, environment: Environment, *, through_file: bool) -> tuple[Step, ...]:
    """Run a sample on cpu with another executor for each step, which is given the state that the last one left."""
    simulator = Simulator(sample.model(), sample.graph, environment=environment)
    found: list[Step] = []
    state = None
    with within(LONGEST):
        for inputs in sample.steps:
            with simulator.make_executor() as executor, tempfile.TemporaryDirectory() as folder:
                if state is not None and through_file:
                    state.save(Path(folder, "state.oinf"))
                    executor.restore(Path(folder, "state.oinf"))
                elif state is not None:
                    executor.restore(state)
                found.append(_step(executor, inputs))
                state = executor.snapshot()
    return tuple(found)


def through_text(sample: Sample) -> Sample:
    """Return the sample with its program written as text and read again."""
    return replace(sample, graph=graph(sample.graph.to_dsl()))


def through_json(sample: Sample) -> Sample:
    """Return the sample with its program written as JSON text and read again."""
    return replace(sample, graph=Graph.from_json(json.dumps(sample.graph.to_json())))
