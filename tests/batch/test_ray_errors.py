"""What becomes of errors of a Ray cluster, without a cluster."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.batch.answers import encode_error, encode_outputs
from openinfer.batch.job import Job
from openinfer.batch.on_ray import Calls, Ray, RayWorker
from openinfer.batch.runner import WorkerLostError
from openinfer.testing.waiting import limit_s

PROGRAM = """
dynamic { x: f32[2]; }
volatile { w: f32[2]; y: f32[2]; }
block entry { op mul(x, w) >> y; return y; }
"""


class RayError(Exception):
    """The base of what Ray raises."""


class ActorDiedError(RayError):
    """As of an actor whose process ended, or whose constructor raised."""

    def __init__(self, text: str, *, actor_init_failed: bool) -> None:
        super().__init__(text)
        self.actor_init_failed = actor_init_failed


NAMES = ("GetTimeoutError", "RuntimeEnvSetupError", "ActorUnschedulableError", "RayTaskError")
ERRORS = {name: type(name, (RayError,), {}) for name in NAMES}


class Cluster:
    """The functions of Ray that a worker calls: every result is that of a list, or raised."""

    exceptions = SimpleNamespace(RayError=RayError, **ERRORS)

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.killed = 0

    def get(self, reference: Any, timeout: float | None = None) -> Any:
        del reference, timeout
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    def kill(self, actor: Any) -> None:
        del actor
        self.killed += 1


def worker_of(cluster: Cluster) -> RayWorker:
    method = SimpleNamespace(remote=lambda *_: None)
    return RayWorker(Calls(cluster), SimpleNamespace(open=method, pid=method, run=method))


READY = encode_outputs({})


def test_a_worker_has_a_number_once_it_is_ready() -> None:
    """A number before that, such as 0, would be a process group to whoever sends it a signal."""
    worker = worker_of(Cluster(READY, 7))
    assert worker.pid is None
    worker.open(b"job", 120.0)
    assert worker.pid == 7


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ERRORS["GetTimeoutError"]("late"), "started no worker in 120 s, perhaps for want of free processors"),
        (ERRORS["RuntimeEnvSetupError"]("cannot set up\nno such folder"), "cannot start workers: no such folder"),
        (ERRORS["ActorUnschedulableError"]("the node is gone"), "cannot start workers: the node is gone"),
        (
            ERRORS["RayTaskError"]("\x1b[36mray::open()\x1b[39m\nSystemError: bad"),
            "cannot start workers: SystemError: bad",
        ),
        (ActorDiedError("died\nNo module named 'openinfer'\n", actor_init_failed=True), "No module named 'openinfer'"),
        (ERRORS["RayTaskError"](""), "cannot start workers: RayTaskError"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_cluster_that_cannot_start_a_worker_ends_the_batch(error: RayError, text: str) -> None:
    cluster = Cluster(error)

    with pytest.raises(oi.MissingDependencyError) as caught:
        worker_of(cluster).open(b"job", 120.0)

    assert text in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert cluster.killed == 1


def test_a_worker_that_ends_before_it_is_ready_is_lost() -> None:
    cluster = Cluster(ActorDiedError("\x1b[36mkilled\x1b[39m by\n a signal", actor_init_failed=False))

    with pytest.raises(WorkerLostError, match=r"^a Ray worker ended: killed by a signal$"):
        worker_of(cluster).open(b"job", 120.0)

    assert cluster.killed == 1


def test_a_job_that_cannot_be_opened_returns_its_place() -> None:
    cluster = Cluster(encode_error(oi.ModelError("no such model")), 7)

    with pytest.raises(oi.ModelError, match="no such model"):
        worker_of(cluster).open(b"job", 120.0)

    assert cluster.killed == 1


def test_a_worker_that_ends_later_is_lost_whatever_ray_calls_it() -> None:
    cluster = Cluster(READY, 7, ERRORS["RayTaskError"]("it exited"))
    worker = worker_of(cluster)
    worker.open(b"job", 120.0)

    with pytest.raises(WorkerLostError, match=r"^Ray worker 7 ended: it exited$"):
        worker.run(b"input")

    assert cluster.killed == 0


class SlowCluster:
    """A cluster whose actors open only when they are killed; a call after its end would start another one."""

    exceptions = SimpleNamespace(RayError=RayError, **ERRORS)

    def __init__(self) -> None:
        self.is_up = False
        self.is_killed = threading.Event()
        self.is_waiting = threading.Event()
        self.late: list[str] = []

    def is_initialized(self) -> bool:
        return self.is_up

    def init(self, **_: Any) -> None:
        self.is_up = True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def put(self, value: bytes) -> bytes:
        return value

    def remote(self, cls: type) -> Any:
        del cls
        method = SimpleNamespace(remote=self.submit)
        made = SimpleNamespace(remote=lambda: SimpleNamespace(open=method, pid=method, run=method))
        return SimpleNamespace(options=lambda **_: made)

    def submit(self, *_: Any) -> None:
        self.note("submit")

    def get(self, reference: Any, timeout: float) -> Any:
        del reference
        self.note("get")
        self.is_waiting.set()
        assert self.is_killed.wait(min(timeout, limit_s(30)))
        # Ray takes a moment to report the end of an actor.
        time.sleep(0.1)
        self.note("answer")
        raise ActorDiedError("killed", actor_init_failed=False)

    def kill(self, actor: Any) -> None:
        del actor
        self.note("kill")
        self.is_killed.set()

    def shutdown(self) -> None:
        self.is_up = False

    def note(self, call: str) -> None:
        if not self.is_up:
            self.late.append(call)


def test_a_batch_that_ends_while_a_worker_starts_calls_ray_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray starts a cluster of its own for a call after its shutdown, and exits the process when that one is lost."""
    cluster = SlowCluster()
    monkeypatch.setattr("openinfer.batch.on_ray._imported", lambda: cluster)
    runner = Ray(1)
    model = oi.Model.from_arrays({"w": np.array([1, 10], np.float32)})
    job = Job(graph=oi.graph(PROGRAM), model=model, sizes={})
    with ThreadPoolExecutor(1) as threads:
        start = threads.submit(runner.start, job)
        assert cluster.is_waiting.wait(limit_s(30))
        runner.close()
        with pytest.raises(WorkerLostError):
            start.result(limit_s(30))
    with pytest.raises(WorkerLostError, match="the batch was ended"):
        runner.start(job)
    assert not cluster.is_up
    assert cluster.late == []


def test_an_actor_that_cannot_be_ended_keeps_neither_the_others_nor_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[Any] = []

    def kill(actor: Any) -> None:
        ended.append(actor)
        if len(ended) == 2:
            raise RayError("no such actor")

    def ready(*_: Any, **__: Any) -> bytes:
        return READY

    cluster = SlowCluster()
    monkeypatch.setattr(cluster, "kill", kill)
    monkeypatch.setattr(cluster, "get", ready)
    monkeypatch.setattr("openinfer.batch.on_ray._imported", lambda: cluster)
    runner = Ray(3)
    model = oi.Model.from_arrays({"w": np.array([1, 10], np.float32)})
    job = Job(graph=oi.graph(PROGRAM), model=model, sizes={})
    for _ in range(3):
        runner.start(job)

    with pytest.raises(RayError, match="no such actor"):
        runner.close()

    assert len(ended) == 3
    assert not cluster.is_up
