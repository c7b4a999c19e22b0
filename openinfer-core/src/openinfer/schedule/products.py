"""Products of matrices by groups of threads: tiles of results, whose factors the threads of a group share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.schedule.threads import WORD_NBYTES

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.schedule.threads import Threads, TileShape

SIDE = 16
"""Threads along each side of a tile."""

BLOCK = 4
"""Neighbouring results along each side that a thread computes; its blocks have equal distances."""

FEWEST = 32
"""Fewest rows and columns of a product, and terms of a sum, that tiles are used for."""

SMALLEST = 64
"""Fewest results along a side of a tile."""

TILES = ((64, 64), (64, 128), (128, 64), (128, 128))
"""Rows and columns of tiles, the quickest last: more results share what a thread loads."""

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
    best = None
    for tile in TILES:
        made = ProductSchedule(rows=tile[0], columns=tile[1], depth=max(SIDE, BLOCK * lanes))
        groups = -(-rows // made.rows) * -(-columns // made.columns) * count
        is_used = all(extent > side // 2 for extent, side in zip((rows, columns), tile, strict=True) if side > SMALLEST)
        is_filled = tile == TILES[0] or (is_used and groups * SIDE * SIDE >= device.busy)
        if is_filled and made.elements * nbytes <= device.shared_nbytes:
            best = made
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class TileProductSchedule:
    """How a group of subgroups computes a product with the matrix units of a device.

    Attributes:
        shape: what a subgroup multiplies at once.
        rows, columns: results of a group.
        depth: terms that are shared at a time.
        stages: 2: the next slab is put into memory of its own while one is multiplied; 1: into the same, after it.
        down, across: subgroups of a group along its rows and columns.
        subgroup: threads of a subgroup.
        band: tiles of rows that groups go through before the next tile of columns: they use the same elements.
    """

    shape: TileShape
    rows: int
    columns: int
    depth: int
    down: int
    across: int
    subgroup: int
    band: int
    stages: int = 1

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return self.down * self.across * self.subgroup


SLABS = ((128, 1), (64, 2), (64, 1))
"""Bytes of the terms of a row or column that are shared at a time, and memories for them, the quickest first."""

PADDING_NBYTES = 16
"""Bytes between the rows of a shared slab, so that threads reach different banks of the memory."""

SUBGROUPS = 2
"""Subgroups of a group along each side."""

MOST_IN_BAND = 8


def tile_product(
    rows: int, columns: int, depth: int, count: int, types: tuple[DType, DType], device: Threads
) -> TileProductSchedule | None:
    """Return the largest tiles for matrix units that keep a device busy; None: it has none for these types and sizes.

    Args:
        count: how many such products there are.
        types: of the factors and of the total.
    """
    shape = next((tile for tile in device.tiles if (tile.factor, tile.total) == types), None)
    if shape is None or min(rows, columns, depth) < FEWEST:
        return None
    best = None
    for side in (32, 64, 128):
        groups = -(-rows // side) * -(-columns // side) * count
        is_filled = side == 32 or (min(rows, columns) > side // 2 and groups * _threads(device) >= device.busy)
        slabs = (
            slab for slab in SLABS if slab[0] * 8 <= depth * shape.factor.bits and _fits(side, slab, shape, device)
        )
        slab = next(slabs, None)
        if is_filled and slab is not None:
            nbytes, stages = slab
            best = TileProductSchedule(
                shape=shape,
                rows=side,
                columns=side,
                depth=nbytes * 8 // shape.factor.bits,
                down=SUBGROUPS,
                across=SUBGROUPS,
                subgroup=device.subgroup,
                band=_band(-(-rows // side)),
                stages=stages,
            )
    return best


def _threads(device: Threads) -> int:
    return device.subgroup * SUBGROUPS**2


def _fits(side: int, slab: tuple[int, int], shape: TileShape, device: Threads) -> bool:
    """Return whether a device has the memory for tiles, and its threads have equal shares of them."""
    terms_nbytes, stages = slab
    depth, side_nbytes = terms_nbytes * 8 // shape.factor.bits, side * shape.factor.bits // 8
    # Lines are as long as the terms, or as the side: either may take more.
    slab_nbytes = max(side * (terms_nbytes + PADDING_NBYTES), depth * (side_nbytes + PADDING_NBYTES))
    results_nbytes = SUBGROUPS**2 * shape.rows * (shape.columns + BLOCK) * shape.total.bits // 8
    is_whole = not any(side // SUBGROUPS % n for n in (shape.rows, shape.columns)) and not depth % shape.depth
    parts, lines = max(terms_nbytes, side_nbytes) // WORD_NBYTES, device.subgroup * BLOCK // shape.columns
    is_even = device.subgroup % parts == 0 and lines > 0 and shape.rows % lines == 0
    is_shared = 2 * stages * slab_nbytes + results_nbytes <= device.shared_nbytes and _threads(device) <= device.group
    return is_whole and is_even and is_shared and side * terms_nbytes // WORD_NBYTES % _threads(device) == 0


def _band(tiles: int) -> int:
    return next(n for n in range(MOST_IN_BAND, 0, -1) if tiles % n == 0)
