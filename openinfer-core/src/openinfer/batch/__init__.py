"""Batches: one program runs on many inputs, distributed over workers by runners, which plugins may add.

A runner starts workers (`runner`). A worker has one `session`, which answers requests in the format of `frames`. A new
runner is a plugin or a module like `processes`. `schedule` decides the order, retries and time limits.
"""

from openinfer.batch.job import Job
from openinfer.batch.run import run_batch
from openinfer.batch.runner import Runner, Worker, WorkerLostError
from openinfer.batch.session import Session

__all__ = ["Job", "Runner", "Session", "Worker", "WorkerLostError", "run_batch"]
