"""Runners of plugins, with every call guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from openinfer.batch.runner import Runner, Worker
from openinfer.plugins.crossing import crossing, fault, guarded_methods, members, shown, wrong
from openinfer.plugins.types import load_object

if TYPE_CHECKING:
    from openinfer.batch.job import Job
    from openinfer.errors import PluginError
    from openinfer.plugins.crossing import Owner
    from openinfer.plugins.types import RunnerSpec

MOST_WORKERS = 1_000_000
"""Workers that a runner may say it has."""


def opened_runner(spec: RunnerSpec, workers: int | None, owner: Owner) -> Runner:
    """Return the runner that a plugin offers.

    Raises:
        PluginError: it cannot be made, or something is missing.
    """
    make = load_object(spec.runner, owner)
    with crossing(owner, f"making runner {spec.name}"):
        runner: Runner = make(workers)
    return GuardedRunner(owner, f"runner {spec.name}", runner) if owner.is_foreign else runner


class GuardedRunner:
    """Stands for the runner of a third party."""

    def __init__(self, owner: Owner, what: str, runner: object) -> None:
        self._owner, self._what = owner, what
        with crossing(owner, f"reading the attributes of {what}"):
            workers: object = cast("Any", runner).workers
            inline: object = cast("Any", runner).inline
        if type(workers) is not int or not 1 <= workers <= MOST_WORKERS:
            raise fault(owner, f"workers of {what} is {shown(workers)}, expected a number from 1 to {MOST_WORKERS}")
        if type(inline) is not bool:
            raise fault(owner, f"inline of {what} is {shown(inline)}, expected a bool")
        self.workers, self.inline = workers, inline
        self._methods = guarded_methods(owner, what, runner, members(Runner))

    def damaged(self, error: Exception) -> PluginError:
        """Return the error for an answer of one of its workers that cannot be read."""
        return fault(self._owner, f"run of a worker of {self._what} returned no answer of a session: {error}")

    def start(self, job: Job) -> Worker:
        """Return a new worker; see `Runner.start`."""
        found = self._methods["start"](job)
        return _GuardedWorker(self._owner, f"a worker of {self._what}", found)

    def close(self) -> None:
        """End whatever the runner runs."""
        self._methods["close"]()


class _GuardedWorker:
    """Stands for the worker of a third party."""

    def __init__(self, owner: Owner, what: str, worker: object) -> None:
        self._owner, self._what = owner, what
        self._methods = guarded_methods(owner, what, worker, members(Worker))

    def run(self, request: bytes) -> bytes:
        """Return the answer to a request; see `Worker.run`."""
        answer: object = self._methods["run"](request)
        if not isinstance(answer, bytes):
            raise fault(self._owner, f"run of {self._what} {wrong(answer, 'the bytes of an answer')}")
        return answer

    def close(self) -> None:
        """End the worker."""
        self._methods["close"]()
