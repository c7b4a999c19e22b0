"""Long calls that signals may end: they run in a thread of their own, while the main thread can handle signals."""

from __future__ import annotations

import contextlib
import threading
from _thread import start_new_thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable

LONG_WORK = 1 << 28
"""Work of a step, as `polls` estimates it, from which on it is run so: ten milliseconds at least, and a thread costs a
few hundredths of one."""

_PATIENCE_S = 0.05
"""Seconds after which a wait looks again, should the end of a call have been missed."""


def run_until_stopped(call: Callable[[], int], stop: ctypes.c_int) -> int:
    """Return what a call returns; a signal handler that raises ends it through the flag ``stop``, and raises here.

    Python handles signals in the main thread only: in others, the call is made at once.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: list[int | BaseException] = []
    ended = threading.Lock()
    ended.acquire()

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            results.append(error)
        ended.release()

    stop.value = 0
    try:
        try:
            start_new_thread(work, ())
        except RuntimeError:  # There are too many threads.
            return call()
        while not results:
            ended.acquire(timeout=_PATIENCE_S)
    except BaseException:
        stop.value = 1
        # Memory is in use until the call has ended, whatever comes meanwhile.
        while not results:
            with contextlib.suppress(BaseException):
                ended.acquire(timeout=_PATIENCE_S)
        raise
    (result,) = results
    if isinstance(result, BaseException):
        raise result
    return result
