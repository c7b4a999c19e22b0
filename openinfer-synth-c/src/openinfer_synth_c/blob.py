"""Weights as one binary file, for models that are too large to be text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.plan.arena import ALIGNMENT

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan

FILE_NAME = "weights.bin"

LARGEST_EMBEDDED = 1 << 20
"""Bytes of weights that are written out as text; more go into a binary file."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Little-endian weights one after another, and by number the offset of each, a multiple of the alignment."""

    data: bytes
    offsets: tuple[int, ...]


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
