"""Batches: one program over many inputs, spread over workers by runners that plugins may add."""

from openinfer.batch.job import Job
from openinfer.batch.run import run_batch
from openinfer.batch.runner import Runner, Worker, WorkerLostError
from openinfer.batch.session import Session

__all__ = ["Job", "Runner", "Session", "Worker", "WorkerLostError", "run_batch"]
