"""How the consumers of a program run: in threads of their own, in line, or node by node for an inspector."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from openinfer.simulate.consumers.bound import bind_consumers
from openinfer.simulate.consumers.exchange import Exchange
from openinfer.simulate.consumers.steps import ConsumerSteps
from openinfer.simulate.consumers.threads import Threads, at_once
from openinfer.simulate.devices.deferred_faults import first_failure
from openinfer.simulate.program.machine import Machine

if TYPE_CHECKING:
    from openinfer.events import TraceEvent
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.simulate.compile.placement import Placements
    from openinfer.simulate.consumers.bound import BoundConsumer
    from openinfer.simulate.consumers.exchange import Join
    from openinfer.simulate.consumers.sharing import Sharing
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.program.machine import Happened
    from openinfer.simulate.program.recording import Recorder
    from openinfer.simulate.state.memory import Memory


class ConsumerRuns:
    """The consumers of one executor.

    Args:
        sharing: how the program hands variables over; None where it does not.
        recorder: keeps their events, where ``trace`` is on.

    Attributes:
        consumers: the consumers by name, ready to run.
        threads: where those run that may run at the same time.

    Raises:
        ExecutionError: an operator cannot be bound on the device.
    """

    def __init__(
        self,
        resolved: ResolvedGraph,
        sharing: Sharing | None,
        memory: Memory,
        backend: DeviceBackend,
        binder: Binder,
        placements: Placements,
        recorder: Recorder,
        *,
        trace: bool,
    ) -> None:
        self.consumers = bind_consumers(resolved, sharing, memory, backend, binder, placements)
        self.threads = Threads(max(len(self.consumers), 1))
        self._sharing = sharing
        self._memory = memory
        self._backend = backend
        self._recorder = recorder
        self._tracing = trace
        self._stepped: deque[ConsumerSteps] = deque()

    @property
    def stepped_into(self) -> ConsumerSteps | None:
        """The consumer of which a node runs next; None where the next one is of ``entry``."""
        return self._stepped[0] if self._stepped else None

    def exchange(self, *, merged: bool, stepping: bool) -> Exchange | None:
        """Return the exchange of variables for one step; None if the program has no consumers.

        Args:
            merged: whether consumers may run at the same time, since nodes are not stepped.
            stepping: whether they run node by node, by `advance`.
        """
        if self._sharing is None:
            return None

        def start(bound: BoundConsumer, notes: list[Happened]) -> Join:
            if stepping:
                steps = ConsumerSteps(bound, self._recorder, notes if self._tracing else None)
                self._stepped.append(steps)
                return steps.join
            begin = self.threads.start if merged and bound.parallel else at_once
            return begin(lambda: self._run(bound, notes))

        return Exchange(self._sharing, self._memory, self.consumers, start, self._recorder.notes)

    def advance(self) -> tuple[TraceEvent, ConsumerSteps]:
        """Run a node of the consumer that is stepped into; return its event, and the consumer."""
        steps = self._stepped[0]
        event = steps.advance()
        if not steps.machine.frames:
            self._stepped.popleft()
        return event, steps

    def finish(self) -> None:
        """Finish the consumers that are stepped into, as threads do after an error elsewhere."""
        for steps in self._stepped:
            steps.finish()

    def drop(self) -> None:
        """Abandon the consumers that are stepped into."""
        self._stepped.clear()

    def close(self) -> None:
        """Release their backends, once none of them runs."""
        self.threads.close()
        for bound in self.consumers.values():
            if bound.backend is not self._backend:
                bound.backend.close()

    def _run(self, bound: BoundConsumer, notes: list[Happened]) -> None:
        """Run a consumer block to its end; with tracing on, note what ran."""
        record = self._recorder.record(notes, bound.consumer.name, bound.backend) if self._tracing else None
        with np.errstate(all="ignore"), first_failure(bound.backend):
            Machine(bound.memory, bound.code, merged=True, record=record).run()
            bound.backend.synchronize()
