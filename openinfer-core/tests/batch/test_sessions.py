"""Batches without a device: the order of inputs, retries, the look-ahead, limits of time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from session_runners import STATEFUL, Runner, Worker, answer, job_of, number, results, run, tasks

import openinfer as oi
from openinfer.batch import Job, Session, WorkerLostError
from openinfer.batch.job import START_SECONDS
from openinfer.batch.schedule import Task, outcomes
from openinfer.testing.waiting import interruptible, limit_s


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order_whatever_takes_how_long(workers: int) -> None:
    runner = Runner(workers, lambda x: time.sleep(0.02 if x % 4 == 0 else 0))
    assert results(run(runner, 17)) == list(range(17))
    assert len(runner.started) <= workers
    assert all(worker.closed for worker in runner.started)
    assert runner.closed == 1


@pytest.mark.parametrize("look_ahead", [1, 3])
def test_no_more_inputs_are_taken_than_the_look_ahead(look_ahead: int) -> None:
    taken: list[int] = []
    found = outcomes(Runner(2), job_of(), tasks(20, taken), look_ahead=look_ahead, retries=0)
    for yielded, outcome in enumerate(found):
        assert outcome.index == yielded
        assert len(taken) <= yielded + look_ahead


def test_an_endless_stream_gives_results_at_once() -> None:
    def endless() -> Iterator[Task]:
        yield from tasks(3)
        raise AssertionError("asked for more than is needed")

    found = outcomes(Runner(2), job_of(), endless(), look_ahead=2, retries=0)
    assert next(found).index == 0
    found.close()


def test_an_input_whose_worker_is_lost_is_run_again() -> None:
    once = iter([True])

    def before(x: int) -> None:
        if x == 3 and next(once, False):
            raise WorkerLostError("gone")

    runner = Runner(2, before)
    assert results(run(runner, 6)) == list(range(6))
    assert all(worker.closed for worker in runner.started)


@pytest.mark.parametrize("retries", [0, 2])
def test_an_input_that_always_loses_its_worker_fails_and_the_rest_go_on(retries: int) -> None:
    tried: list[int] = []

    def before(x: int) -> None:
        if x == 2:
            tried.append(x)
            raise WorkerLostError("gone")

    assert results(run(Runner(2, before), 5, retries=retries)) == [0, 1, "worker-lost", 3, 4]
    assert len(tried) == retries + 1


def test_the_memory_of_a_lost_worker_is_made_again_from_the_inputs_before() -> None:
    losses = {4, 7}

    def before(x: int) -> None:
        if x in losses:
            losses.remove(x)
            raise WorkerLostError("gone")

    runner = Runner(1, before, sums=True)
    found = run(runner, 9, job=job_of(STATEFUL, keep_state=True))
    assert results(found) == [sum(range(index + 1)) for index in range(9)]
    assert len(runner.started) == 3


class Hanging(Runner):
    """Workers that hang with some inputs until they are closed."""

    def __init__(self, workers: int, hang: Callable[[int, int], bool], *, sums: bool = False) -> None:
        super().__init__(workers, sums=sums)
        self.hang = hang
        self.tried: list[int] = []

    def start(self, job: Job) -> Worker:
        worker, ended = super().start(job), threading.Event()
        run, close = worker.run, worker.close

        def waits(request: bytes) -> bytes:
            self.tried.append(number(request))
            if self.hang(number(request), len(self.started)):
                assert ended.wait(limit_s(20)), "the worker was not closed"
                raise WorkerLostError("closed")
            return run(request)

        def closes() -> None:
            close()
            ended.set()

        worker.run, worker.close = waits, closes
        return worker


@pytest.mark.parametrize("workers", [1, 3])
def test_an_input_that_takes_too_long_fails_once_and_the_rest_go_on(workers: int) -> None:
    runner = Hanging(workers, lambda x, _: x in (1, 2))
    limit = limit_s(0.5)
    found = list(outcomes(runner, job_of(), tasks(6), look_ahead=6, retries=2, timeout=limit))
    assert results(found) == [0, "input-timeout", "input-timeout", 3, 4, 5]
    assert str(found[1].error) == f"this input took longer than {limit:g} s: its worker was ended"
    assert sorted(runner.tried) == list(range(6))
    assert all(worker.closed for worker in runner.started)


def test_the_memory_of_a_worker_that_hung_is_made_again_without_its_input() -> None:
    runner = Hanging(1, lambda x, _: x == 2, sums=True)
    job = job_of(STATEFUL, keep_state=True)
    found = list(outcomes(runner, job, tasks(5), look_ahead=5, retries=0, timeout=limit_s(0.5)))
    assert results(found) == [0, 1, "input-timeout", 4, 8]


def test_a_worker_that_hangs_while_memory_is_made_again_is_lost() -> None:
    losses = {2}

    def hang(x: int, started: int) -> bool:
        return x == 1 and started == 2

    runner = Hanging(1, hang, sums=True)

    def before(x: int) -> None:
        if x in losses:
            losses.remove(x)
            raise WorkerLostError("gone")

    runner.before = before
    job = job_of(STATEFUL, keep_state=True)
    assert results(list(outcomes(runner, job, tasks(4), look_ahead=4, retries=2, timeout=limit_s(0.5)))) == [0, 1, 3, 6]
    assert len(runner.started) == 3


def test_an_answer_that_comes_while_its_worker_is_ended_is_none() -> None:
    class Late(Runner):
        def start(self, job: Job) -> Worker:
            worker, ended = super().start(job), threading.Event()
            close = worker.close
            worker.run = lambda request: answer(number(request)) if ended.wait(limit_s(20)) else b""
            worker.close = lambda: (close(), ended.set())
            return worker

    runner = Late(1)
    found = list(outcomes(runner, job_of(), tasks(2), look_ahead=2, retries=0, timeout=limit_s(0.1)))
    assert results(found) == ["input-timeout"] * 2
    assert len(runner.started) == 2


def test_a_limit_takes_workers_that_can_be_ended() -> None:
    runner = Runner(1)
    runner.inline = True
    with pytest.raises(oi.OpenInferError, match="Runner runs inputs in this process") as caught:
        list(outcomes(runner, job_of(), tasks(1), look_ahead=1, retries=0, timeout=1.0))
    assert (caught.value.code, runner.closed) == ("input-timeout", 1)


def test_a_worker_that_cannot_be_started_ends_the_batch() -> None:
    class Refusing(Runner):
        def start(self, _: Job) -> Worker:
            raise KeyError("seat")

    runner = Refusing(2)
    with pytest.raises(oi.PluginError, match="runner Refusing cannot start a worker: KeyError: 'seat'"):
        run(runner, 3)
    assert runner.closed == 1


class Stuck(Runner):
    """Workers of which some hang while they start, until the runner is closed."""

    def __init__(self, workers: int, stuck: Callable[[int], bool]) -> None:
        super().__init__(workers)
        self.stuck = stuck
        self.begun = 0
        self.released = threading.Event()
        self.ended: list[int] = []

    def start(self, job: Job) -> Worker:
        self.begun += 1
        number = self.begun
        if self.stuck(number):
            assert self.released.wait(limit_s(20)), "the runner was not closed"
            self.ended.append(number)
            raise WorkerLostError("closed")
        return super().start(job)

    def close(self) -> None:
        super().close()
        self.released.set()


def test_a_start_that_hangs_delays_nobody_while_another_worker_runs() -> None:
    runner = Stuck(2, lambda number: number == 1)
    assert results(run(runner, 20)) == list(range(20))
    assert (runner.begun, runner.ended, runner.closed) == (2, [1], 1)


def test_a_start_that_takes_too_long_is_replaced() -> None:
    runner = Stuck(1, lambda number: number < 3)
    assert results(run(runner, 4, job=job_of(start_timeout=0.05))) == list(range(4))
    assert (runner.begun, sorted(runner.ended)) == (3, [1, 2])
    assert all(worker.closed for worker in runner.started)


@pytest.mark.parametrize(("workers", "retries"), [(1, 0), (1, 2), (3, 2)])
def test_a_batch_whose_workers_all_hang_at_start_ends_with_an_error(workers: int, retries: int) -> None:
    runner = Stuck(workers, lambda _: True)
    with pytest.raises(oi.OpenInferError, match=r"worker \d was not ready after 0\.05 s") as caught:
        run(runner, 100, retries=retries, job=job_of(start_timeout=0.05))
    assert caught.value.code == "worker-lost"
    assert str(caught.value).startswith("no worker starts, tried" if retries else "no worker starts: ")
    assert runner.begun == max(workers, retries + 1)
    assert len(runner.ended) == runner.begun


def test_a_limit_of_starts_that_is_the_default_is_a_limit() -> None:
    for seconds, is_refused in ((START_SECONDS, True), (None, False)):
        runner = Runner(1)
        runner.inline = True
        with pytest.raises(oi.OpenInferError, match="a time limit takes processes") if is_refused else nullcontext():
            assert results(run(runner, 3, job=job_of(start_timeout=seconds))) == [0, 1, 2]


def test_a_worker_that_starts_after_failures_brings_the_others_back() -> None:
    """One start fails and one is under way, which are all attempts; when that one is ready, two inputs run at once."""
    both = threading.Barrier(2)

    class Failing(Stuck):
        def start(self, job: Job) -> Worker:
            if self.begun == 0:
                self.begun += 1
                raise WorkerLostError("it died")
            time.sleep(0.1)
            return super().start(job)

    runner = Failing(2, lambda _: False)
    runner.before = lambda _: both.wait(limit_s(20))
    assert results(run(runner, 2, retries=1)) == [0, 1]


def test_a_worker_that_always_dies_while_it_starts_ends_the_batch() -> None:
    class Dying(Runner):
        begun = 0

        def start(self, _: Job) -> Worker:
            self.begun += 1
            raise WorkerLostError("it died")

    runner = Dying(1)
    with pytest.raises(oi.OpenInferError, match="no worker starts, tried 3 times: it died"):
        run(runner, 100)
    assert (runner.begun, runner.closed) == (3, 1)


def test_a_worker_that_is_ready_too_late_is_closed() -> None:
    late = threading.Event()

    class Late(Runner):
        def start(self, job: Job) -> Worker:
            worker = super().start(job)
            if len(self.started) == 1:
                assert late.wait(limit_s(20))
            return worker

    def before(x: int) -> None:
        late.set()
        while not runner.started[0].closed:
            time.sleep(0.01)

    runner = Late(1, before)
    assert results(run(runner, 2, job=job_of(start_timeout=0.05))) == [0, 1]
    assert [worker.closed for worker in runner.started] == [True, True]


def test_leaving_early_ends_workers_that_are_being_started() -> None:
    runner = Stuck(3, lambda number: number > 1)
    found = outcomes(runner, job_of(), tasks(50), look_ahead=9, retries=2)
    assert next(found).index == 0
    found.close()
    assert len(runner.ended) == runner.begun - 1


def test_an_interrupt_while_workers_start_ends_the_batch_at_once() -> None:
    runner = Stuck(2, lambda _: True)
    main = threading.main_thread().ident
    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()
    with interruptible(), pytest.raises(KeyboardInterrupt):
        run(runner, 5)
    assert len(runner.ended) == runner.begun


def test_an_answer_that_is_none_names_the_runner() -> None:
    class Babbling(Runner):
        def start(self, _: Job) -> Worker:
            return SimpleNamespace(run=lambda _: b"hello", close=lambda: None)

    with pytest.raises(oi.PluginError, match="runner Babbling returned no answer"):
        run(Babbling(1), 1)


def test_leaving_early_ends_workers_that_are_in_the_middle_of_an_input() -> None:
    release = threading.Event()

    class Blocking(Runner):
        def close(self) -> None:
            super().close()
            release.set()

    def before(x: int) -> None:
        if x:
            release.wait(limit_s(20))
            raise WorkerLostError("ended")

    runner = Blocking(2, before)
    found = outcomes(runner, job_of(), tasks(9), look_ahead=4, retries=2)
    assert next(found).index == 0
    begun = time.monotonic()
    found.close()
    assert time.monotonic() - begun < limit_s(5)
    assert runner.closed == 1
    assert {t.name for t in threading.enumerate() if t.name.startswith("openinfer-batch")} == set()


def test_an_input_that_cannot_be_read_fails_alone() -> None:
    def unreadable() -> dict[str, int]:
        raise FileNotFoundError(2, "No such file", "a.npz")

    mixed = [Task.read(0, "a", unreadable), Task.given(1, "b", {"x": 7}), Task.given(2, "c", {"x": object()})]
    found = list(outcomes(Runner(1), job_of(), mixed, look_ahead=2, retries=0))
    assert results(found) == ["input-file", 7, "insert-mismatch"]
    assert str(found[0].error) == "cannot read this input: No such file: a.npz"


def test_an_input_that_is_not_a_mapping_fails_alone() -> None:
    mixed = [Task.given(index, "", values) for index, values in enumerate(({"x": 1}, [2], 3.0, {"x": 4}))]
    found = list(outcomes(Runner(1), job_of(), mixed, look_ahead=4, retries=0))
    assert results(found) == [1, "insert-mismatch", "insert-mismatch", 4]
    assert str(found[2].error) == "insert takes a mapping of names to values, found float"


class HostileArray:
    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise KeyError("oops")


class HostileMapping(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no items")


NESTED: list[object] = []
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({"x": HostileArray()}, "KeyError: 'oops'"),
        ({"x": [HostileArray()]}, "cannot be sent"),
        ({"x": SimpleNamespace(__dlpack__=lambda: 1 // 0)}, "Error"),
        (HostileMapping(x=1), "RuntimeError: no items"),
        ({"x": NESTED}, "RecursionError"),
    ],
    ids=["array", "array in a list", "dlpack", "mapping", "nesting"],
)
@pytest.mark.parametrize("inline", [False, True])
def test_an_input_whose_values_fail_fails_alone(values: Any, reported: str, inline: bool) -> None:
    given = [Task.given(index, "", each) for index, each in enumerate(({"x": 1}, values, {"x": 3}))]
    runner = Runner(2)
    runner.inline = inline
    found = list(outcomes(runner, job_of(), given, look_ahead=3, retries=0))
    assert results(found) == [1, "insert-mismatch", 3]
    assert reported in str(found[1].error)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_results_of_the_inputs_before_an_error_of_their_source_come_first(inline: bool, workers: int) -> None:
    def failing() -> Iterator[Task]:
        yield from tasks(5)
        raise LookupError("no more")

    runner = Runner(workers, lambda _: time.sleep(0.02))
    runner.inline = inline
    found = outcomes(runner, job_of(), failing(), look_ahead=8, retries=0)
    assert results([next(found) for _ in range(5)]) == list(range(5))
    with pytest.raises(LookupError, match="no more"):
        next(found)
    assert (runner.closed, list(found)) == (1, [])


def test_an_interrupt_while_an_input_is_made_ends_the_batch_at_once() -> None:
    def interrupted() -> Iterator[Task]:
        yield from tasks(2)
        raise KeyboardInterrupt

    runner = Runner(1, lambda _: time.sleep(0.01))
    with pytest.raises(KeyboardInterrupt):
        list(outcomes(runner, job_of(), interrupted(), look_ahead=8, retries=0))
    assert runner.closed == 1


def test_values_are_copied_when_they_are_taken() -> None:
    buffer = np.zeros((), np.int32)

    def reusing() -> Iterator[Task]:
        for index in range(6):
            buffer[()] = index
            yield Task.given(index, "", {"x": buffer})

    found = list(outcomes(Runner(1), job_of(), reusing(), look_ahead=4, retries=0))
    assert results(found) == list(range(6))


def test_a_session_needs_a_device() -> None:
    with pytest.raises(oi.DeviceError, match="unknown device 'nowhere'"):
        Session(job_of(device="nowhere"))
