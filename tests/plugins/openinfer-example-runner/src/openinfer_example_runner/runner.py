"""A runner of batches whose workers are sessions in this process: an `openinfer.plugin.Runner`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from openinfer.plugin import Session

if TYPE_CHECKING:
    from openinfer.plugin import Job


class Threads:
    """A session is a worker already: it has `run(request: bytes) -> bytes` and `close()`."""

    inline = False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def start(self, job: Job) -> Session:
        """Return a session for one of the threads that OpenInfer asks workers from."""
        return Session(job)

    def close(self) -> None:
        """Nothing runs concurrently with the sessions."""
