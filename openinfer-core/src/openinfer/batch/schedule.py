"""Spreads the inputs of a batch over workers and brings the results back in order."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openinfer.batch.answers import Outcome, decode_answer
from openinfer.batch.frames import encode_values
from openinfer.batch.guarded_runner import GuardedRunner
from openinfer.batch.pool import Pool
from openinfer.batch.runner import WorkerLostError
from openinfer.errors import DTypeError, ExecutionError, OpenInferError, PluginError, SerializationError
from openinfer.simulate.state.host import by_name
from openinfer.simulate.values import MISMATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from openinfer.batch.job import Job
    from openinfer.batch.runner import Runner, Worker


@dataclass(frozen=True, slots=True)
class Task:
    """One input: its place from 0, what messages call it, and what returns its values as `frames.encode_values`.

    ``request`` may be called in another thread, and again after a worker was lost.
    """

    index: int
    name: str
    request: Callable[[], bytes]

    @staticmethod
    def read(index: int, name: str, load: Callable[[], Mapping[str, Any]]) -> Task:
        """Return the task of an input whose values are read when a worker is about to get them."""
        return Task(index, name, lambda: encode_values(load()))

    @staticmethod
    def given(index: int, name: str, values: Mapping[str, Any]) -> Task:
        """Return the task of values that are there; they are copied, since the caller may use their memory again.

        Values that cannot be sent are an error of this input, whatever their own code raises.
        """
        try:
            request = encode_values(by_name(values))
        except OpenInferError as error:
            return Task(index, name, _raising(error))
        except Exception as error:  # noqa: BLE001 - values run code of their own, such as `__array__`
            message = f"the values of this input cannot be read: {type(error).__name__}: {error}"
            return Task(index, name, _raising(DTypeError(message, code=MISMATCH), error))
        return Task(index, name, lambda: request)


TIMEOUT = "input-timeout"


def is_limited(job: Job, timeout: float | None) -> bool:
    """Whether a batch has an explicit time limit."""
    return timeout is not None or job.start_timeout is not None


def outcomes(
    runner: Runner,
    job: Job,
    tasks: Iterable[Task],
    *,
    look_ahead: int,
    retries: int,
    timeout: float | None = None,
) -> Generator[Outcome]:
    """Yield what became of every task, in order. Workers and runner are closed at the end, also at an early one.

    Args:
        look_ahead: most tasks that are taken and not yielded yet.
        retries: how often a task is run again after its worker was lost.
        timeout: seconds that a task may run; one that does not end by then fails, and its worker is closed.

    Raises:
        OpenInferError: no worker can be started (`Pool`); ``input-timeout``: the runner cannot end a worker.
        Exception: what ``tasks`` raises, after the outcomes of the tasks before it.
    """
    if is_limited(job, timeout) and runner.inline:
        runner.close()
        name = type(runner).__name__
        message = f"the runner {name} runs inputs in this process and cannot end one: a time limit takes processes"
        raise OpenInferError(message, code=TIMEOUT)
    with closing(Pool(runner, job, attempts=retries + 1)) as pool:
        workers = _Workers(pool, runner, job, retries, timeout)
        if runner.inline:
            yield from map(workers.outcome, tasks)
            return
        with ThreadPoolExecutor(runner.workers, thread_name_prefix="openinfer-batch") as threads:
            pending: deque[Future[Outcome]] = deque()
            source = _Source(tasks)
            try:
                for task in source:
                    pending.append(threads.submit(workers.outcome, task))
                    while pending and (len(pending) >= look_ahead or pending[0].done()):
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
                if source.failure is not None:
                    raise source.failure
            finally:
                # Threads that wait for their workers end with them; what has not begun need not.
                for future in pending:
                    future.cancel()
                pool.close()


class _Source:
    """Tasks up to the first error of what they are taken from, which is kept until their outcomes are out."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.failure: Exception | None = None
        self._tasks = tasks

    def __iter__(self) -> Iterator[Task]:
        try:
            yield from self._tasks
        except Exception as error:  # noqa: BLE001 - it is raised in the end, whatever it is
            self.failure = error


class _OverdueError(Exception):
    """A worker was ended since it took longer than it may."""


class _Workers:
    """Runs tasks on the workers of a pool, again where a worker is lost."""

    def __init__(self, pool: Pool, runner: Runner, job: Job, retries: int, timeout: float | None) -> None:
        self._pool = pool
        self._runner = runner
        self._job = job
        self._retries = retries
        self._timeout = timeout
        self._history: list[Task] = []
        self._replayed: Worker | None = None

    def outcome(self, task: Task) -> Outcome:
        """Return what becomes of a task; an error of the input is an outcome.

        Raises:
            OpenInferError: no worker can be started, or the batch was ended.
        """
        try:
            request = task.request()
        except (OpenInferError, OSError, MemoryError) as error:
            return Outcome(task.index, task.name, {}, _input_error(error))
        lost: WorkerLostError | None = None
        for _ in range(self._retries + 1):
            try:
                return self._answered(task, request)
            except WorkerLostError as error:
                lost = error
                if self._pool.is_closed:
                    raise
            except _OverdueError:
                message = f"this input took longer than {self._timeout:g} s: its worker was ended"
                return Outcome(task.index, task.name, {}, ExecutionError(message, code=TIMEOUT))
        tried = "" if not self._retries else f" {self._retries + 1} times"
        return Outcome(task.index, task.name, {}, WorkerLostError(f"the worker of this input was lost{tried}: {lost}"))

    def _answered(self, task: Task, request: bytes) -> Outcome:
        worker = self._take()
        try:
            answer = self._run(worker, request)
        except BaseException:
            self._pool.drop(worker)
            raise
        self._give_back(worker, task)
        try:
            return decode_answer(task.index, task.name, answer)
        except (SerializationError, KeyError, TypeError, ValueError) as error:
            raise _damaged(self._runner, error) from error

    def _run(self, worker: Worker, request: bytes) -> bytes:
        """Let a worker run a request, within the time that one may take.

        Raises:
            _OverdueError: it took longer; the worker is closed.
        """
        if self._timeout is None:
            return worker.run(request)
        overdue = threading.Event()

        def end() -> None:
            overdue.set()
            self._pool.drop(worker)

        timer = threading.Timer(self._timeout, end)
        timer.daemon = True
        timer.start()
        try:
            answer = worker.run(request)
        except WorkerLostError:
            if overdue.is_set():
                raise _OverdueError from None
            raise
        finally:
            timer.cancel()
            timer.join()
        # The answer came while the worker was being ended.
        if overdue.is_set():
            raise _OverdueError
        return answer

    def _take(self) -> Worker:
        worker = self._pool.take()
        if self._job.carries_state and worker is not self._replayed:
            self._replay(worker)
            self._replayed = worker
        return worker

    def _replay(self, worker: Worker) -> None:
        """Bring the memory of a worker that takes the place of a lost one to where that one was."""
        try:
            for task in self._history:
                self._run(worker, task.request())
        except _OverdueError:
            raise WorkerLostError("an input that is run again to bring memory back takes too long") from None
        except BaseException:
            self._pool.drop(worker)
            raise

    def _give_back(self, worker: Worker, task: Task) -> None:
        if self._job.carries_state and not self._runner.inline:
            self._history.append(task)
        self._pool.give_back(worker)


def _raising(error: OpenInferError, cause: Exception | None = None) -> Callable[[], bytes]:
    def request() -> bytes:
        raise error from cause

    return request


def _damaged(runner: Runner, error: Exception) -> PluginError:
    if isinstance(runner, GuardedRunner):
        return runner.damaged(error)
    return PluginError(f"runner {type(runner).__name__} returned no answer of a session: {error}")


def _input_error(error: BaseException) -> OpenInferError:
    """Return an error of reading an input as one that says so."""
    if isinstance(error, OpenInferError):
        return error
    reason = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.strerror else str(error)
    return OpenInferError(f"cannot read this input: {reason or type(error).__name__}", code="input-file")
