"""What was made on a device, in the order of its release, and what of it outlives the device."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Owned:
    """Functions that release what was made on a device. They are called latest first.

    In a process that was forked from the one that made it, nothing is released.

    Attributes:
        is_closed: whether all is released, but for what is lent.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._process = os.getpid()
        self._releases: dict[int, Callable[[], None]] = {}
        self._number = 0
        self._loans: dict[int, int] = {}
        self._is_releasing = False

    def __len__(self) -> int:
        """Return how much was not released."""
        return len(self._releases)

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from that of the device."""
        return os.getpid() != self._process

    def add(self, release: Callable[[], None]) -> int:
        """Return the number to hand to `release`."""
        self._number += 1
        self._releases[self._number] = release
        return self._number

    def release(self, number: int) -> None:
        """Release something; after `close` this does nothing."""
        release = None if self.is_closed else self._releases.pop(number, None)
        if release is not None and not self.is_inherited:
            release()

    def lend(self, number: int, borrower: object) -> None:
        """Keep something, and what was made first, for as long as an object is there, also after `close`."""
        finalizer = weakref.finalize(borrower, self._return, id(borrower))
        finalizer.atexit = False
        self._loans[id(borrower)] = number

    def close(self) -> None:
        """Release everything but what is lent, which is released when it is returned."""
        self.is_closed = True
        self._release_free()

    def _return(self, loan: int) -> None:
        # A finalizer may run at any point of this class, so that it releases nothing where something is being released.
        self._loans.pop(loan)
        if self.is_closed and not self._is_releasing:
            self._release_free()

    def _release_free(self) -> None:
        if self.is_inherited:
            self._releases.clear()
        self._is_releasing = True
        try:
            while (number := self._latest_free()) is not None:
                self._releases.pop(number)()
        finally:
            self._is_releasing = False

    def _latest_free(self) -> int | None:
        """Return the number of what was made last and is not lent; the first one, the device, serves all loans."""
        lent = set(self._loans.values())
        lent |= {next(iter(self._releases), 0)} if lent else set()
        return next((number for number in reversed(self._releases) if number not in lent), None)
