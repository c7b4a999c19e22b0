"""What a runner of batches is: something that starts workers, each of which holds one `Session`.

A runner only carries bytes. What they mean is the business of `Job` and `Session`; which worker gets which input, the
order of results, retries and the look-ahead are those of `schedule`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from openinfer.errors import OpenInferError

if TYPE_CHECKING:
    from openinfer.batch.job import Job


class WorkerLostError(OpenInferError):
    """A worker ended, or cannot be reached, before it answered. What it was doing is done again by another one."""

    default_code = "worker-lost"


def overdue(worker: str, seconds: float) -> WorkerLostError:
    """Return the error for a worker that was not ready within its limit."""
    message = f"{worker} was not ready after {seconds:g} s, which includes opening program, model and device"
    return WorkerLostError(f"{message}; start_timeout (--start-timeout) sets this limit")


class Worker(Protocol):
    """A worker runs inputs, one at a time. A `Session` is a worker in this process."""

    def run(self, request: bytes) -> bytes:
        """Return what `Session.run` of the worker's session returns for the request.

        Raises:
            WorkerLostError: the worker is gone.
        """
        ...

    def close(self) -> None:
        """End the worker; called once, perhaps while `run` waits in another thread, which then ends soon."""
        ...


class Runner(Protocol):
    """Starts workers for one batch. `openinfer.plugins.types.RunnerSpec` names a class.

    It is called with the number of workers that was requested, or None, which leaves the number to the runner.
    """

    @property
    def workers(self) -> int:
        """Most workers at the same time."""
        ...

    @property
    def inline(self) -> bool:
        """Whether there is one worker, which runs in the thread that asks for results."""
        ...

    def start(self, job: Job) -> Worker:
        """Return a new worker whose session has opened the job; called from several threads, also after losses.

        Raises:
            WorkerLostError: the worker was lost before it was ready, or took longer than ``job.start_seconds``. Whoever
                can end such a worker does; this one is no longer waited for, whatever it does.
            OpenInferError: no worker can be started, or the job cannot be opened: the batch ends.
        """
        ...

    def close(self) -> None:
        """End whatever this runner started and still runs, workers that are being started included.

        It is called again where a worker was being started meanwhile.
        """
        ...
