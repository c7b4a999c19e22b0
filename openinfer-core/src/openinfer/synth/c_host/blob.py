"""Weights as one binary file, for models that are too large to be text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.errors import SynthesisError
from openinfer.plan.places import ALIGNMENT

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan

FILE_NAME = "weights.bin"

OBJECT_NAME = "weights.S"
"""Assembler source that makes an object of the file."""

CHOICES = ("auto", "embedded", "file", "object")
"""What `BundleOptions.weights` may be."""

LARGEST_EMBEDDED = 1 << 20
"""Bytes of weights that are written out as text; more go into a binary file."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Little-endian weights one after another, and the offset of each by number, a multiple of the alignment."""

    data: bytes
    offsets: tuple[int, ...]

    @property
    def checksum(self) -> int:
        """Checksum of the little-endian 32-bit words: their sum, combined with the sum of the partial sums.

        It detects any change of one word, and words that are swapped. Both sums are modulo 2 to the 64; the second one
        is rotated by 32 bits before they are combined by exclusive or.
        """
        words = np.frombuffer(self.data + bytes(-len(self.data) % 4), "<u4").astype(np.uint64)
        sums = np.cumsum(words, dtype=np.uint64)
        low, high = int(sums[-1]) if sums.size else 0, int(np.sum(sums, dtype=np.uint64))
        return low ^ ((high << 32 | high >> 32) & (2**64 - 1))


def blob_of(plan: ExecutionPlan, largest_embedded: int = LARGEST_EMBEDDED) -> Blob | None:
    """Return the weights as a file, or None where they are few enough to be embedded in the source."""
    if plan.weights_nbytes <= largest_embedded:
        return None
    pieces = bytearray()
    offsets: list[int] = []
    for weight in plan.weights:
        pieces += bytes(-len(pieces) % ALIGNMENT)
        offsets.append(len(pieces))
        pieces += weight.data
    return Blob(bytes(pieces), tuple(offsets))


def chosen_blob(plan: ExecutionPlan) -> Blob | None:
    """Return the weights as a file where the options or their size say so.

    Raises:
        SynthesisError: the options name no place for weights.
    """
    chosen = plan.options.weights
    if chosen not in CHOICES:
        raise SynthesisError(f"the weights are {chosen!r}, expected one of {', '.join(CHOICES)}")
    if chosen == "embedded":
        return None
    return blob_of(plan, LARGEST_EMBEDDED if chosen == "auto" else 0)
