"""Batches: one program over many inputs, spread over workers by runners that plugins may add.

A runner starts workers (`runner`); a worker holds one `session`, which answers requests in the format of `frames`. A
new runner is a plugin or a module like `processes`; order, retries and time limits are decided in `schedule`.
"""

from openinfer.batch.job import Job
from openinfer.batch.run import run_batch
from openinfer.batch.runner import Runner, Worker, WorkerLostError
from openinfer.batch.session import Session

__all__ = ["Job", "Runner", "Session", "Worker", "WorkerLostError", "run_batch"]
