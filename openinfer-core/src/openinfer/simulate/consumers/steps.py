"""Consumer blocks that run node by node after the ``yield`` that starts them, for inspection of every statement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.simulate.devices.deferred_faults import first_failure
from openinfer.simulate.program.machine import Machine
from openinfer.simulate.state.host import Host

if TYPE_CHECKING:
    from openinfer.events import TraceEvent
    from openinfer.simulate.consumers.bound import BoundConsumer
    from openinfer.simulate.program.machine import Happened
    from openinfer.simulate.program.recording import Recorder


class ConsumerSteps:
    """A consumer that has started, before its next statement.

    Args:
        notes: where its events wait for the ``await`` that joins it; None when nobody records them.

    Attributes:
        machine: its run; without frames at the end.
        host: values as its statements see them: its copies of what was handed over, and what it shares.
        failure: the error that it ended with; it is raised where the consumer is joined.
    """

    def __init__(self, bound: BoundConsumer, recorder: Recorder, notes: list[Happened] | None = None) -> None:
        self._recorder = recorder
        self._recorded = notes is not None
        self._backend = bound.backend
        self._record = recorder.record([] if notes is None else notes, bound.consumer.name, bound.backend)
        self.machine = Machine(bound.memory, bound.code, merged=False, record=self._record)
        self.host = Host(bound.memory, bound.backend)
        self.failure: Exception | None = None

    def advance(self) -> TraceEvent:
        """Run one statement and return its event; one that fails ends the consumer."""
        try:
            with first_failure(self._backend):
                event = self._recorder.advance(self.machine, self._record)
                if not self.machine.frames:
                    self._backend.synchronize()
        except Exception as error:
            self.failure = error
            self.machine.frames.clear()
            event = self._recorder.latest(self.machine)
            if event is None:
                raise
            return replace(event, track=self._record.track)
        else:
            return event
        finally:
            if not self._recorded:
                self._record.events.clear()

    def finish(self) -> None:
        """Run the remaining statements."""
        while self.machine.frames:
            self.advance()

    def join(self) -> None:
        """Raise the error that ended the consumer, if any."""
        if self.failure is not None:
            raise self.failure
