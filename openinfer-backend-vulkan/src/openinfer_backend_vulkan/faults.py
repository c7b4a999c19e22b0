"""What kernels find wrong while they run: read after the work is done, and reported as errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.errors import ExecutionError

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer_backend_vulkan.memory import StorageBuffer
    from openinfer_backend_vulkan.shaders import Fault, Rules

_NONE = 0xFFFFFFFF


class FaultWord:
    """The word that the kernel of one bound call writes to."""

    def __init__(self, storage: StorageBuffer, fault: Fault | Rules) -> None:
        self.storage = storage
        self._fault = fault
        self._word: npt.NDArray[np.uint32] = np.frombuffer(storage.bytes, np.uint32, 1)
        self._word[0] = _NONE

    def taken(self) -> str | None:
        """Return what was found since this was asked last, or None."""
        found = int(self._word[0])
        if found == _NONE:
            return None
        self._word[0] = _NONE
        return self._fault.message(found)


class Faults:
    """The words of calls that were queued since they were looked at last."""

    def __init__(self) -> None:
        self._watched: dict[int, FaultWord] = {}

    def watch(self, word: FaultWord) -> None:
        """Have a word looked at after the work."""
        self._watched[id(word)] = word

    def check(self) -> None:
        """Look at every word; the work that writes them is done.

        Raises:
            ExecutionError: ``out-of-range``; the first in the order of calls.
        """
        found = [message for word in self._watched.values() if (message := word.taken()) is not None]
        self._watched.clear()
        if found:
            raise ExecutionError(found[0], code="out-of-range")
