"""Tiles: small matrices that the threads of a subgroup hold together, for the matrix units of a device.

Each thread holds a part that only the device knows; statements are about whole tiles. All threads of the subgroup carry
out such a statement at once, with the same operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from openinfer.affine import Index, Var
from openinfer.loops.errors import LoopProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer.loops.buffers import Buffer
    from openinfer.scalars import Scalar


class Role(Enum):
    """What a tile is in ``TOTAL = LEFT @ RIGHT + TOTAL``."""

    LEFT = "LEFT"
    RIGHT = "RIGHT"
    TOTAL = "TOTAL"


@dataclass(frozen=True, slots=True)
class Tiles:
    """A row of tiles of one form.

    Attributes:
        rows, columns: shape of each of them.
        count: how many there are.
        threads: how many threads hold them together: those of the innermost loops over threads.
    """

    name: str
    dtype: DType
    role: Role
    rows: int
    columns: int
    count: int
    threads: int


@dataclass(frozen=True, slots=True)
class Tile:
    """One of some tiles."""

    tiles: Tiles
    at: Index


@dataclass(frozen=True, slots=True)
class TileAlloc:
    """Make tiles, without values, for the rest of the block that this is in."""

    tiles: Tiles


@dataclass(frozen=True, slots=True)
class TileFill:
    """Give all elements of a tile one value."""

    tile: Tile
    value: Scalar


@dataclass(frozen=True, slots=True)
class TileLoad:
    """Read a tile from memory: element (r, c) is at ``address + stride * r + c``.

    Attributes:
        is_transposed: element (r, c) is at ``address + r + stride * c`` instead.
    """

    tile: Tile
    buffer: Buffer
    address: Index
    stride: int
    is_transposed: bool = False


@dataclass(frozen=True, slots=True)
class TileStore:
    """Write a tile to memory: element (r, c) goes to ``address + stride * r + c``."""

    buffer: Buffer
    address: Index
    stride: int
    tile: Tile


@dataclass(frozen=True, slots=True)
class TileFma:
    """Add the product of two tiles to a third one. Terms are added in any order, with partial totals in its type."""

    total: Tile
    left: Tile
    right: Tile


TileStatement: TypeAlias = TileAlloc | TileFill | TileLoad | TileStore | TileFma


def tiles_in(statement: TileStatement) -> tuple[Tile, ...]:
    """Return the tiles that a statement is about, apart from allocation."""
    match statement:
        case TileAlloc():
            return ()
        case TileFma(total, left, right):
            return total, left, right
        case _:
            return (statement.tile,)


def places_of_tile(tiles: Tiles, address: Index, stride: int, is_transposed: bool) -> tuple[Index, Var, Var]:
    """Return the address of any element of a tile, with the variables that are its row and column."""
    row, column = Var("row'", tiles.rows), Var("column'", tiles.columns)
    inner, outer = (row, column) if is_transposed else (column, row)
    return address + outer * stride + inner, row, column


def subgroup_of(threads: Sequence[Var], count: int) -> tuple[Var, ...]:
    """Return the innermost of some nested loops over threads that have so many iterations in all.

    Raises:
        LoopProgramError: there are none.
    """
    found: tuple[Var, ...] = ()
    size = 1
    for var in reversed(threads):
        if size < count and isinstance(var.extent, int):
            found, size = (var, *found), size * var.extent
    if size != count:
        loops = ", ".join(f"{var.name} ({var.extent})" for var in threads) or "none"
        raise LoopProgramError(
            f"tiles of {count} threads, which the loops over threads here do not divide into: {loops}"
        )
    return found
