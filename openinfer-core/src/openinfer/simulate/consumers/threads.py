"""Worker threads for consumers, which run concurrently with the thread that steps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Threads:
    """Threads that are made when first needed and wait for work between steps.

    Args:
        most: most pieces of work that run at the same time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], object]) -> Callable[[], object]:
        """Start a task; return a function that waits for its end and raises its error, if any."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix="openinfer")
        return self._pool.submit(work).result

    def close(self) -> None:
        """Let the threads end."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def at_once(work: Callable[[], object]) -> Callable[[], object]:
    """Run a task in this thread; return a function that raises the error of the task, if any."""
    raised: Exception | None = None
    try:
        work()
    except Exception as error:  # noqa: BLE001 - it is raised where the work is waited for
        raised = error

    def wait() -> None:
        if raised is not None:
            raise raised

    return wait
