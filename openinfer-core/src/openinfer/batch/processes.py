"""The runner `processes`: worker processes on this machine, which read requests and write answers through pipes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from openinfer.batch import process_worker
from openinfer.batch.answers import decode_answer
from openinfer.batch.runner import WorkerLostError, overdue
from openinfer.errors import MissingDependencyError

if TYPE_CHECKING:
    from openinfer.batch.job import Job

GRACE_SECONDS = 2.0
"""How long a process may take to end by itself."""


class Processes:
    """Starts one process a worker. Processes are new interpreters, so that programs need no guard around their start.

    Args:
        workers: how many; by default as many as there are processors for this process.
    """

    inline = False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or _processors()
        self._lock = threading.Lock()
        self._workers: list[ProcessWorker] = []
        self._frame: bytes | None = None

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes that are alive."""
        with self._lock:
            return [worker.pid for worker in self._workers if worker.is_alive]

    def start(self, job: Job) -> ProcessWorker:
        """Return a process that has opened the job."""
        with self._lock:
            if self._frame is None:
                self._frame = job.to_bytes()
            worker = ProcessWorker()
            self._workers.append(worker)
        worker.open(self._frame, job.start_seconds)
        return worker

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            ended, self._workers, self._frame = self._workers, [], None
        for worker in ended:
            worker.release()
        deadline = time.monotonic() + GRACE_SECONDS
        for worker in ended:
            worker.end(deadline)


class ProcessWorker:
    """A process that runs `openinfer.batch.process_worker`."""

    def __init__(self) -> None:
        if not sys.executable:
            raise MissingDependencyError("there is no Python interpreter to start worker processes with")
        # -P: what lies in the current directory must not take the place of installed modules. As a file, not as a
        # module, whose packages Python would import first: the worker has to notice the end of its parent from then on.
        command = [sys.executable, "-P", process_worker.__file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **_apart())
        self._busy = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def open(self, job: bytes, seconds: float) -> None:
        """Give the process its job, which it has to open within some seconds.

        Raises:
            MissingDependencyError: the process ended by itself before it was ready.
            WorkerLostError: it was killed, or took longer, so that it is.
            OpenInferError: the job cannot be opened.
        """
        late = threading.Event()

        def end() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            answer = self.run(job)
        except WorkerLostError as error:
            if late.is_set():
                raise overdue(f"process {self.pid}", seconds) from None
            if self._process.returncode < 0:
                raise
            message = f"worker processes do not start: {error}; what it wrote to standard error says why"
            raise MissingDependencyError(message) from error
        finally:
            timer.cancel()
        failure = decode_answer(0, "", answer).error
        if failure is not None:
            self.close()
            raise failure

    def run(self, request: bytes) -> bytes:
        """Send a request and wait for its answer."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise WorkerLostError(f"process {process.pid} has no pipes")
        with self._busy:
            try:
                process_worker.write_message(process.stdin, request)
                answer = process_worker.read_message(process.stdout)
            except (OSError, ValueError):
                answer = None
            if answer is None:
                self._close_pipes()
                self.end(time.monotonic() + GRACE_SECONDS)
                raise WorkerLostError(f"process {process.pid} {_ending(process.returncode)}")
            return answer

    def close(self) -> None:
        """End the process, and wait for that."""
        self.release()
        self.end(time.monotonic() + GRACE_SECONDS)

    def release(self) -> None:
        """Let the process end: by the end of its input where it waits for some, else by a signal."""
        if not self._busy.acquire(blocking=False):
            # Its pipes are in use by another thread, which closes them when it finds the process ended.
            self._signal(signal.SIGTERM)
            return
        try:
            self._close_pipes()
        finally:
            self._busy.release()

    def end(self, deadline: float) -> None:
        """Wait for the end of the process, and bring it about at a time of `time.monotonic`."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()

    def _kill(self) -> None:
        if sys.platform != "win32":
            self._signal(signal.SIGKILL)
        self._process.kill()

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process and what it started, if it was not waited for: its number is its own until then."""
        if sys.platform == "win32":
            self._process.send_signal(number)
            return
        with contextlib.suppress(ProcessLookupError):
            if self._process.poll() is None and os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, number)

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What was not written yet has nobody left to read it.
                with contextlib.suppress(OSError):
                    pipe.close()


def _apart() -> dict[str, Any]:
    """Return options for a process group of its own.

    An interrupt from the keyboard does not reach it, and what it starts ends with it.
    """
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"process_group": 0}


def _processors() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _ending(returncode: int) -> str:
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"was ended by {name}"
