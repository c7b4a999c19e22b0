"""What kernels find wrong while they run: read after the work is done, and reported as errors."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from openinfer.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from openinfer_backend_vulkan.glsl.shaders import Fault
    from openinfer_backend_vulkan.memory.blocks import StorageBuffer

_NONE = 0xFFFFFFFF


class FaultWords:
    """The words that the kernel of one bound call writes to, one for each fault that it may find."""

    def __init__(self, storage: StorageBuffer, faults: Sequence[Fault]) -> None:
        self.storage = storage
        self._faults = faults
        self._words: npt.NDArray[np.uint32] = storage.view(np.dtype(np.uint32), len(faults))
        self._words[:] = _NONE

    def taken(self) -> str | None:
        """Return what was found since the last call, or None."""
        words = self._words.tolist()
        self._words[:] = _NONE
        messages = (fault.message(word) for fault, word in zip(self._faults, words, strict=True) if word != _NONE)
        return next(messages, None)


class Faults:
    """The words of calls that were queued since the last check.

    Attributes:
        statement: whose calls are queued; its faults are raised inside it.
    """

    def __init__(self) -> None:
        self.statement: AbstractContextManager[object] = nullcontext()
        self._watched: dict[int, tuple[FaultWords, AbstractContextManager[object]]] = {}

    @property
    def is_watching(self) -> bool:
        """Whether calls were queued that may have a fault."""
        return bool(self._watched)

    def watch(self, words: FaultWords) -> None:
        """Check words after the work."""
        self._watched.setdefault(id(words), (words, self.statement))

    def check(self) -> None:
        """Read every word; the work that writes them is done.

        Raises:
            ExecutionError: ``out-of-range``; the first in the order of calls.
        """
        watched, self._watched = self._watched, {}
        taken = [(words.taken(), statement) for words, statement in watched.values()]
        for message, statement in taken:
            if message is not None:
                with statement:
                    raise ExecutionError(message, code="out-of-range")
