"""Calls are shared among threads, and end before their owner goes on."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from threading import Barrier, Event, Thread, get_ident

import numpy as np
import pytest

from openinfer.testing.waiting import interruptible, limit_s
from openinfer_backend_cpu.workers import Workers


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_call_is_made_once(count: int) -> None:
    made: list[int] = []
    Workers().share([lambda n=n: made.append(n) for n in range(20)], count)
    assert sorted(made) == list(range(20))


def test_calls_run_at_the_same_time() -> None:
    """None of them ends before all have begun."""
    met = Barrier(3)
    Workers().share([lambda: met.wait(limit_s(20))] * 3, 3)


def test_one_worker_is_the_thread_that_asks() -> None:
    seen: set[int] = set()
    Workers().share([lambda: seen.add(get_ident())] * 4, 1)
    assert seen == {get_ident()}


def test_no_more_threads_work_than_requested() -> None:
    workers, seen = Workers(), set[int]()
    for count in (4, 2):
        met = Barrier(count)
        workers.share([lambda met=met: met.wait(limit_s(20))] * count, count)
    seen.clear()
    workers.share([lambda: seen.add(get_ident())] * 50, 2)
    assert len(seen) <= 2


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_call_raises_is_raised_when_all_have_ended(count: int) -> None:
    made, fails = list[int](), Event()

    def fail() -> None:
        fails.set()
        raise ZeroDivisionError

    def work(number: int) -> None:
        # All of them together take far longer than the thread of the call that fails is ever kept waiting.
        fails.wait(limit_s(20))
        time.sleep(0.002)
        made.append(number)

    calls = [fail, *(partial(work, number) for number in range(1000))]
    with pytest.raises(ZeroDivisionError):
        Workers().share(calls, count)
    ended = len(made)
    assert ended < 1000
    assert len(made) == ended


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="threads take no signals here")
def test_interrupts_wait_for_calls_that_run_however_many_come() -> None:
    owner, met, ended = get_ident(), Barrier(2), list[bool]()

    def call() -> None:
        met.wait(limit_s(20))
        if get_ident() != owner:
            for _ in range(4):
                time.sleep(0.05)
                signal.pthread_kill(owner, signal.SIGINT)
            time.sleep(0.05)
            ended.append(True)

    with interruptible(), pytest.raises(KeyboardInterrupt):
        Workers().share([call, call], 2)
    assert ended == [True]


def test_threads_that_do_not_start_are_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: Thread) -> None:
        raise RuntimeError(f"{thread.name}: no more threads")

    workers, met = Workers(), Barrier(2)
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="no more threads"):
            workers.share([int, int], 2)
    workers.share([lambda: met.wait(limit_s(20))] * 2, 2)


def test_calls_see_the_error_state_of_numpy() -> None:
    met = Barrier(2)

    def overflow() -> None:
        met.wait(limit_s(20))
        np.multiply(np.float32(3e38), np.float32(3e38))

    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        Workers().share([overflow, overflow], 2)
    with np.errstate(over="ignore"):
        Workers().share([overflow, overflow], 2)


def test_calls_may_share_their_own() -> None:
    workers, made = Workers(), list[int]()
    inner = [lambda: made.append(0)] * 5
    workers.share([lambda: workers.share(inner, 3)] * 5, 3)
    assert len(made) == 25


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_child_has_workers_of_its_own() -> None:
    workers = Workers()
    met = Barrier(2)
    workers.share([lambda: met.wait(limit_s(20))] * 2, 2)
    child = os.fork()
    if not child:
        ended = 1
        try:
            again = Barrier(2)
            workers.share([lambda: again.wait(limit_s(20))] * 2, 2)
            ended = 7
        finally:
            os._exit(ended)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
