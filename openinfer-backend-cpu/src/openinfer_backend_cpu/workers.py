"""Threads that share work with the thread that has it.

Which of them makes a call decides nothing but the time it takes.
"""

from __future__ import annotations

import os
from collections import deque
from contextvars import copy_context
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.bound_calls import BoundCall


class _Job:
    """Calls that their owner and helpers take one by one."""

    def __init__(self, calls: Sequence[BoundCall]) -> None:
        self._waiting = deque(calls)
        self._helping = 0
        self._changed = Condition()
        self._failed: list[BaseException] = []

    def work(self) -> None:
        """Make calls until none waits; the first that raises ends that for all."""
        while self._waiting:
            try:
                call = self._waiting.popleft()
            except IndexError:
                return
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - the owner raises it
                self._failed.append(error)
                self._waiting.clear()

    def help(self) -> None:
        """Take calls until there are none; nothing waits any more where this has ended."""
        with self._changed:
            self._helping += 1
        try:
            self.work()
        finally:
            with self._changed:
                self._helping -= 1
                self._changed.notify()

    def end(self) -> None:
        """Wait until no helper works any more, and raise what a call raised."""
        # Who has taken a call is among those who help; nobody takes one from here on.
        self._waiting.clear()
        while self._helping:
            try:
                with self._changed:
                    self._changed.wait_for(lambda: not self._helping)
            except KeyboardInterrupt as interrupt:
                # Helpers still write: however often it comes, it is raised when they have ended.
                self._failed.append(interrupt)
        if self._failed:
            raise self._failed[0]


class Workers:
    """Threads that help whoever asks; they start when they are first needed and end with the process."""

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Begin without threads: a child has none of its parent's."""
        self._lock = Lock()
        self._started = 0
        self._asked: SimpleQueue[BoundCall] = SimpleQueue()

    def share(self, calls: Sequence[BoundCall], count: int) -> None:
        """Make calls in any order, in this thread and up to ``count`` - 1 others, and return when all have ended.

        Calls see the context variables of this thread, and with them NumPy's error state.

        Raises:
            BaseException: what a call raised; no call is begun after that.
        """
        helpers = min(count, len(calls)) - 1
        if helpers < 1:
            for call in calls:
                call()
            return
        job = _Job(calls)
        self._start(helpers)
        for _ in range(helpers):
            self._asked.put(_within_context(job))
        try:
            job.work()
        finally:
            job.end()

    def _start(self, helpers: int) -> None:
        with self._lock:
            while self._started < helpers:
                name = f"openinfer-cpu-{self._started + 1}"
                Thread(target=_serve, args=(self._asked,), name=name, daemon=True).start()
                self._started += 1


def _within_context(job: _Job) -> BoundCall:
    context = copy_context()
    return lambda: context.run(job.help)


def _serve(asked: SimpleQueue[BoundCall]) -> None:
    while True:
        asked.get()()


WORKERS = Workers()
"""The worker threads of this process: the maximum number requested at once so far."""
