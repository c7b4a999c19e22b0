"""The runner `in-process`: inputs run one after the other, in the thread that requests results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.batch.session import Session
from openinfer.errors import OpenInferError

if TYPE_CHECKING:
    from openinfer.batch.job import Job


class InProcess:
    """One session in this process."""

    workers = 1
    inline = True

    def __init__(self, workers: int | None = None) -> None:
        if workers not in (None, 1):
            raise OpenInferError(f"the runner in-process has one worker, {workers} were requested")

    def start(self, job: Job) -> Session:
        """Return a session on the job's own model."""
        return Session(job)

    def close(self) -> None:
        """Nothing runs concurrently with the session."""
