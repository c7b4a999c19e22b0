"""A runner of batches without a device, whose workers answer what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import openinfer as oi
from openinfer.batch import Job
from openinfer.batch.answers import Outcome, encode_outputs
from openinfer.batch.frames import decode_values
from openinfer.batch.schedule import Task, outcomes
from openinfer.simulate.values import Tensor

STATEFUL = oi.graph("dynamic { x: i32; } persistent { n: i32; } block entry { return x; }")
STATELESS = oi.graph("dynamic { x: i32; } block entry { return x; }")


def job_of(graph: oi.Graph = STATELESS, **options: object) -> Job:
    return Job(graph=graph, model=oi.Model.from_arrays({}), sizes={}, **options)


def number(request: bytes) -> int:
    return decode_values(request)["x"]


def answer(value: int) -> bytes:
    return encode_outputs({"x": Tensor(oi.Environment.default().dtypes["i32"], (), np.array(value, np.int32))})


class Worker:
    """Answers with the running sum of what it was given, which is the memory that a lost worker takes along."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.sum = 0
        self.closed = False

    def run(self, request: bytes) -> bytes:
        assert not self.closed
        x = number(request)
        self.runner.before(x)
        self.sum += x
        return answer(self.sum if self.runner.sums else x)

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class Runner:
    def __init__(self, workers: int, before: Callable[[int], None] = lambda _: None, *, sums: bool = False) -> None:
        self.workers = workers
        self.inline = False
        self.before = before
        self.sums = sums
        self.started: list[Worker] = []
        self.closed = 0

    def start(self, _: Job) -> Worker:
        self.started.append(Worker(self))
        return self.started[-1]

    def close(self) -> None:
        self.closed += 1


def tasks(count: int, taken: list[int] | None = None) -> Iterator[Task]:
    for index in range(count):
        if taken is not None:
            taken.append(index)
        yield Task.given(index, f"input {index}", {"x": index})


def run(runner: Runner, count: int, *, retries: int = 2, look_ahead: int = 6, job: Job | None = None) -> list[Outcome]:
    return list(outcomes(runner, job or job_of(), tasks(count), look_ahead=look_ahead, retries=retries))


def results(found: list[Outcome]) -> list[int | str]:
    return [o.error.code if o.error is not None else int(o.outputs["x"].array) for o in found]
