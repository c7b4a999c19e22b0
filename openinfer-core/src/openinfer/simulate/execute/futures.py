"""Futures of steps, as `Executor.step_async` returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.simulate.values import host_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.errors import ExecutionError
    from openinfer.simulate.devices.programs import StartedStep


class StepFuture:
    """The results of a step, when it is done. Used by the thread of its executor."""

    def __init__(self, started: StartedStep | None = None, names: Sequence[str] = ()) -> None:
        self._started, self._names = started, names
        self._results: dict[str, Any] | None = None
        self._error: ExecutionError | None = None

    @classmethod
    def done_with(cls, results: Mapping[str, Any]) -> StepFuture:
        """Return the future of a step that has run, with what it returned."""
        future = cls()
        future._results = dict(results)
        return future

    @classmethod
    def failed_with(cls, error: ExecutionError) -> StepFuture:
        """Return the future of a step that failed."""
        future = cls()
        future._error = error
        return future

    def done(self) -> bool:
        """Return whether `result` does not wait."""
        return self._started is None or self._started.done()

    def result(self) -> dict[str, Any]:
        """Return the values that the executed ``return a, b;`` of ``entry`` named, as `Executor.outputs` does.

        It waits for the step.

        Raises:
            ExecutionError: the step failed; the same error each time.
            DeviceError: the device was lost.
        """
        if self._error is not None:
            raise self._error
        if self._results is None:
            self._results = self._taken()
        return dict(self._results)

    def _taken(self) -> dict[str, Any]:
        started = self._started
        if started is None:
            return {}
        results = started.results()
        self._started = None
        return {name: host_value(results[name]) for name in self._names}
