"""The runner `ray`: workers are actors of a Ray cluster, the one that RAY_ADDRESS names or a local one."""

from __future__ import annotations

import importlib
import os
import re
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from openinfer.batch.answers import decode_answer, encode_error
from openinfer.batch.runner import WorkerLostError
from openinfer.batch.session import opened
from openinfer.errors import MissingDependencyError, OpenInferError
from openinfer.plugins import switches
from openinfer_oinf.installing import install_command

if TYPE_CHECKING:
    from collections.abc import Generator

    from openinfer.batch.job import Job
    from openinfer.batch.session import Session

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Escape sequences in the texts of Ray's errors."""

_LOCAL_STORE_BYTES = 200 << 20
"""Memory for messages of a local cluster; longer ones go to disk."""

_CLOSING_SECONDS = 10.0
"""How long calls whose actors were ended may take to return; Ray notices the end of a process within a second."""


class Calls:
    """The calls of Ray that threads are in.

    None may begin once Ray is shut down, or be left then: it would start another cluster, which nobody ends, and which
    ends this process when it is lost.

    Args:
        ray: the module.
    """

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self._changed = threading.Condition()
        self._under_way = 0
        self._is_ended = False

    @contextmanager
    def call(self) -> Generator[Any]:
        """Yield the module for calls.

        Raises:
            WorkerLostError: the batch was ended.
        """
        with self._changed:
            if self._is_ended:
                raise WorkerLostError("the batch was ended")
            self._under_way += 1
        try:
            yield self.ray
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def end(self) -> None:
        """Let no further call begin."""
        with self._changed:
            self._is_ended = True

    def wait(self, seconds: float) -> None:
        """Wait until none is under way, for so many seconds at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, seconds)


class Actor:
    """An actor in its own process: it has a session, and returns errors as answers instead of raising them."""

    def __init__(self) -> None:
        self._session: Session | None = None

    def open(self, job: bytes) -> bytes:
        """Open the job; return an empty answer, or the error."""
        self._session, answer = opened(job)
        return answer

    def run(self, request: bytes) -> bytes:
        """Run one input."""
        if self._session is None:
            return encode_error(OpenInferError("this worker has no job"))
        return self._session.run(request)

    def pid(self) -> int:
        """Return the number of the process."""
        return os.getpid()


class Ray:
    """Starts one actor a worker, each of which takes one processor of the cluster.

    A cluster that this process is connected to is used as it is. Otherwise this connects to the one that RAY_ADDRESS
    names, or starts a local one, and disconnects at the end.

    Args:
        workers: how many; by default as many as the cluster has processors.

    Raises:
        MissingDependencyError: Ray is not installed, or there is no cluster.
    """

    inline = False

    def __init__(self, workers: int | None = None) -> None:
        ray = _imported()
        self._calls = Calls(ray)
        self._lock = threading.Lock()
        self._job: Any = None
        self._actors: list[RayWorker] = []
        self._connected = not ray.is_initialized()
        if self._connected:
            _connect(ray, workers)
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes of the actors that have started, each on its own machine."""
        return [worker.pid for worker in self._actors if worker.pid is not None]

    def start(self, job: Job) -> RayWorker:
        """Return an actor that has opened the job; the job is put into the cluster once.

        Raises:
            MissingDependencyError: the cluster has no place for it, or cannot start it.
            WorkerLostError: it ended before it was ready, or the batch did.
            OpenInferError: the job cannot be opened.
        """
        with self._calls.call() as ray, self._lock:
            if self._job is None:
                self._job = ray.put(job.to_bytes())
            reference = self._job
            worker = RayWorker(self._calls, ray.remote(Actor).options(**_options()).remote())
            self._actors.append(worker)
        worker.open(reference, job.start_seconds)
        return worker

    def close(self) -> None:
        """End all actors, and a cluster that was started here."""
        self._calls.end()
        # From the last to the first, whatever fails on the way; a start that was under way may add an actor.
        with ExitStack() as stack:
            stack.callback(self._disconnect)
            stack.callback(self._end_actors)
            stack.callback(self._calls.wait, _CLOSING_SECONDS)
            stack.callback(self._end_actors)

    def _end_actors(self) -> None:
        with self._lock:
            ended, self._actors = self._actors, []
        with ExitStack() as stack:
            for worker in ended:
                stack.callback(worker.end)

    def _disconnect(self) -> None:
        with self._lock:
            was_connected, self._connected, self._job = self._connected, False, None
        if was_connected:
            self._calls.ray.shutdown()


def _connect(ray: Any, workers: int | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if not os.environ.get("RAY_ADDRESS"):
        options |= {"num_cpus": workers, "include_dashboard": False, "object_store_memory": _LOCAL_STORE_BYTES}
    try:
        ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise MissingDependencyError(f"there is no Ray cluster to run on: {error}") from error


def _options() -> dict[str, Any]:
    """Return the options of an actor."""
    options: dict[str, Any] = {"num_cpus": 1, "max_restarts": 0}
    variables = {name: os.environ[name] for name in switches.VARIABLES if name in os.environ}
    return options | {"runtime_env": {"env_vars": variables}} if variables else options


class RayWorker:
    """An actor.

    Args:
        calls: through which it is called.
        actor: Ray's handle.
    """

    def __init__(self, calls: Calls, actor: Any) -> None:
        self._calls = calls
        self._actor = actor
        self.pid: int | None = None

    def open(self, job: Any, seconds: float) -> None:
        """Give the actor its job, which is a reference to bytes in the cluster, to open within some seconds.

        Raises:
            MissingDependencyError: the cluster has no place for it, or cannot start it.
            WorkerLostError: it ended before it was ready, or the batch did.
            OpenInferError: the job cannot be opened.
        """
        with ExitStack() as stack:
            # An actor that cannot be used would keep its place in the cluster.
            stack.callback(self.close)
            with self._calls.call() as ray:
                self._open(ray, job, seconds)
            stack.pop_all()

    def _open(self, ray: Any, job: Any, seconds: float) -> None:
        errors = ray.exceptions
        try:
            answer = ray.get(self._actor.open.remote(job), timeout=seconds)
            self.pid = cast("int", ray.get(self._actor.pid.remote(), timeout=seconds))
        except errors.GetTimeoutError as error:
            message = f"the Ray cluster started no worker in {seconds:g} s, perhaps for want of free processors"
            raise MissingDependencyError(f"{message}: ask for fewer workers") from error
        except (errors.RuntimeEnvSetupError, errors.ActorUnschedulableError, errors.RayTaskError) as error:
            raise _cannot_start(error) from error
        except errors.RayError as error:
            raise _cannot_start(error) if getattr(error, "actor_init_failed", False) else self._lost(error) from error
        failure = decode_answer(0, "", answer).error
        if failure is not None:
            raise failure

    def run(self, request: bytes) -> bytes:
        """Send a request and wait for its answer.

        Raises:
            WorkerLostError: it ended, or the batch did.
        """
        with self._calls.call() as ray:
            try:
                return cast("bytes", ray.get(self._actor.run.remote(request)))
            except ray.exceptions.RayError as error:
                raise self._lost(error) from error

    def close(self) -> None:
        """End the actor at once, unless the batch has ended and it with that."""
        with suppress(WorkerLostError), self._calls.call():
            self.end()

    def end(self) -> None:
        """End the actor at once, before Ray is shut down."""
        self._calls.ray.kill(self._actor)

    def _lost(self, error: Exception) -> WorkerLostError:
        who = "a Ray worker" if self.pid is None else f"Ray worker {self.pid}"
        return WorkerLostError(f"{who} ended: {' '.join(_plain(error).split())[:200]}")


def _cannot_start(error: Exception) -> MissingDependencyError:
    """Return the error of an actor that each attempt would end alike; the last line of Ray's text says why."""
    reason = (_plain(error).strip().splitlines() or [type(error).__name__])[-1]
    return MissingDependencyError(f"the Ray cluster cannot start workers: {reason[:500]}")


def _plain(error: Exception) -> str:
    return _COLOUR.sub("", str(error))


def _imported() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        command = install_command("openinfer-core[ray]")
        message = f"the runner ray needs Ray, which is not installed: {command}"
        raise MissingDependencyError(message) from error
