"""Batches: one program over many inputs, spread over workers by runners that plugins may add."""

from openinfer.simulate.batch.batch import run_batch
from openinfer.simulate.batch.job import Job
from openinfer.simulate.batch.runner import Runner, Worker, WorkerLostError
from openinfer.simulate.batch.session import Session

__all__ = ["Job", "Runner", "Session", "Worker", "WorkerLostError", "run_batch"]
