"""What is certain of parameters beyond their bounds, while stages over them are written."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from openinfer.affine.index import Index


class Facts(Protocol):
    """Facts about parameters, by which more quotients and remainders fold and more places lie inside for certain."""

    def is_never_negative(self, index: Index) -> bool:
        """Return whether an index is at least 0 for certain."""
        ...

    def where_run(self, extents: frozenset[Index]) -> Facts:
        """Return the facts that hold where loops of these extents run at least once."""
        ...

    def extent_of_runs(self, extent: Index) -> Index:
        """Return the extent of a loop that runs at least once, such as ``T - 1`` for ``max(T - 1, 0)``."""
        ...

    def divisor(self, index: Index) -> Index:
        """Return a positive index as a product of parameters, by which indices can be divided."""
        ...


FACTS: ContextVar[Facts | None] = ContextVar("FACTS", default=None)
"""The facts that hold for the indices that are being made; None: bounds of variables are all that is certain."""
