"""The workers of a batch: started when an input finds none idle, replaced when they are lost, ended together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from openinfer.batch.runner import WorkerLostError, overdue
from openinfer.errors import OpenInferError, PluginError

if TYPE_CHECKING:
    from openinfer.batch.job import Job
    from openinfer.batch.runner import Runner, Worker

CLOSING_SECONDS = 2.0
"""How long the end of a batch waits for starts that are under way, before it closes the runner again."""

GRACE = 1.1
"""By how much a start may exceed its limit: a runner that keeps to it knows more about why."""


class Pool:
    """Hands out workers, each to one thread at a time.

    Workers start in threads of their own: an input takes any worker that becomes idle meanwhile, so a start that hangs
    delays nobody as long as another worker runs.

    Args:
        attempts: starts in a row that may fail before none is replaced any more. Workers that run then go on alone;
            without any, the batch ends.
    """

    def __init__(self, runner: Runner, job: Job, *, attempts: int) -> None:
        self._runner = runner
        self._job = job
        self._attempts = attempts
        self._changed = threading.Condition()
        self._idle: list[Worker] = []
        self._all: list[Worker] = []
        self._starts: list[_Start] = []
        self._begun = 0
        self._waiting = 0
        self._failed = 0
        self._error: OpenInferError | None = None
        self.is_closed = False

    def take(self) -> Worker:
        """Return an idle worker as soon as there is one.

        Raises:
            WorkerLostError: the batch was ended.
            OpenInferError: no worker can be started, or the job cannot be opened.
        """
        if self._runner.inline:
            return self._taken_inline()
        with self._changed:
            self._waiting += 1
            try:
                self._start_missing()
                self._changed.wait_for(lambda: self._idle or self._error is not None or self.is_closed)
                if self._error is not None:
                    raise self._error
                if self.is_closed:
                    raise WorkerLostError("the batch was ended")
                return self._idle.pop()
            finally:
                self._waiting -= 1

    def give_back(self, worker: Worker) -> None:
        """Let others take a worker."""
        with self._changed:
            self._idle.append(worker)
            self._changed.notify_all()

    def drop(self, worker: Worker) -> None:
        """End a worker, unless that was done before."""
        with self._changed:
            if worker not in self._all:
                return
            self._all.remove(worker)
            # Workers did start since others failed to: its successor may, too.
            self._failed = 0
            self._start_missing()
        worker.close()

    def close(self) -> None:
        """End all workers, also those that run an input or are being started; once."""
        with self._changed:
            if self.is_closed:
                return
            self.is_closed = True
            ended, self._all, self._idle = self._all, [], []
            self._changed.notify_all()
        for worker in ended:
            worker.close()
        self._runner.close()
        with self._changed:
            # A start may have begun after the runner ended everything that it knew of.
            is_quiet = self._changed.wait_for(lambda: not self._starts, CLOSING_SECONDS)
        if not is_quiet:
            self._runner.close()

    def _taken_inline(self) -> Worker:
        if self.is_closed:
            raise WorkerLostError("the batch was ended")
        if not self._idle:
            self._idle.append(_started(self._runner, self._job))
            self._all.append(self._idle[0])
        return self._idle.pop()

    def _start_missing(self) -> None:
        """Start as many workers as threads wait for, unless too many failed to; needs the lock."""
        starting = sum(not start.is_settled for start in self._starts)
        missing = self._waiting - len(self._idle) - starting
        if self._failed:
            # Starts under way may fail as well: they count among the attempts.
            missing = min(missing, self._attempts - self._failed - starting)
        for _ in range(0 if self.is_closed else missing):
            self._begun += 1
            self._starts.append(_Start(self._begun))
            threading.Thread(target=self._start, args=(self._starts[-1],), daemon=True).start()

    def _start(self, start: _Start) -> None:
        seconds = self._job.start_seconds
        timer = threading.Timer(seconds * GRACE, self._lose, (start, overdue(f"worker {start.number}", seconds)))
        timer.daemon = True
        timer.start()
        try:
            self._finish(start, _started(self._runner, self._job))
        except WorkerLostError as error:
            self._lose(start, error)
        except OpenInferError as error:
            self._lose(start, error, is_final=True)
        finally:
            timer.cancel()
            with self._changed:
                self._starts.remove(start)
                self._changed.notify_all()
            self._lose(start, WorkerLostError("its start did not return"))

    def _finish(self, start: _Start, worker: Worker) -> None:
        with self._changed:
            is_late = start.is_settled or self.is_closed
            start.is_settled = True
            if not is_late:
                self._failed = 0
                self._all.append(worker)
                self._idle.append(worker)
                self._start_missing()
                self._changed.notify_all()
        if is_late:
            worker.close()

    def _lose(self, start: _Start, error: OpenInferError, *, is_final: bool = False) -> None:
        """Settle a start that brought no worker; it may be replaced, or end the batch."""
        with self._changed:
            if start.is_settled:
                return
            start.is_settled = True
            self._failed += 1
            self._start_missing()
            if is_final:
                self._error = error
            elif not self._all and all(other.is_settled for other in self._starts):
                tried = "" if self._failed == 1 else f", tried {self._failed} times"
                self._error = OpenInferError(f"no worker starts{tried}: {error}", code=WorkerLostError.default_code)
            self._changed.notify_all()


class _Start:
    """A worker that is being started; settled once it is ready, lost, or takes too long."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_settled = False


def _started(runner: Runner, job: Job) -> Worker:
    try:
        return runner.start(job)
    except OpenInferError:
        raise
    except Exception as error:
        message = f"runner {type(runner).__name__} cannot start a worker: {type(error).__name__}: {error}"
        raise PluginError(message) from error
