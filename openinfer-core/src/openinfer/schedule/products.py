"""Products of matrices by groups of threads: tiles of results, whose factors the threads of a group share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.schedule.threads import Threads

SIDE = 16
"""Threads along each side of a tile."""

BLOCK = 4
"""Neighbouring results along each side that a thread computes; its blocks have equal distances."""

FEWEST = 32
"""Fewest rows and columns of a product, and terms of a sum, that tiles are used for."""

PADDING = BLOCK
"""Elements between the rows of a shared tile, so that threads reach different banks of the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSchedule:
    """How a group of `SIDE` by `SIDE` threads computes a product.

    Attributes:
        rows, columns: results of a tile.
        depth: terms that are shared at a time.
    """

    rows: int
    columns: int
    depth: int

    @property
    def elements(self) -> int:
        """Elements that a group shares of a factor on either side."""
        return self.depth * (self.rows + self.columns + 2 * PADDING)


def product_tile(
    rows: int, columns: int, depth: int, count: int, lanes: int, nbytes: int, device: Threads
) -> ProductSchedule | None:
    """Return the largest tiles that keep a device busy; None: other forms are better.

    Args:
        count: how many such products there are.
        lanes: neighbouring terms that a thread loads at once.
        nbytes: bytes of the values that are shared of a term of one row or column.
    """
    if device.is_software or device.group < SIDE * SIDE or min(rows, columns, depth) < FEWEST:
        return None
    found = None
    for side in (64, 128):
        made = ProductSchedule(rows=side, columns=side, depth=max(SIDE, BLOCK * lanes))
        groups = -(-rows // side) * -(-columns // side) * count
        is_filled = side == 64 or (min(rows, columns) > 64 and groups * SIDE * SIDE >= device.busy)
        if is_filled and made.elements * nbytes <= device.shared_nbytes:
            found = made
    return found
