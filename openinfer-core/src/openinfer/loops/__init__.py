"""Loop programs: what a kernel does, in loops over index variables around scalar statements, for one machine.

`nodes` are the data, `verify` checks them and counts proved accesses, `text` and `reading` are their text both ways,
and `interpret` is their meaning on NumPy arrays. Printers turn them into the source of a language.
"""

from openinfer.loops.buffers import Buffer, Memory
from openinfer.loops.errors import LoopProgramError, UnprovedAccessError
from openinfer.loops.nodes import (
    Across,
    Alloc,
    Barrier,
    Bind,
    Fail,
    For,
    If,
    Join,
    Kernel,
    Leaf,
    Let,
    Load,
    Lookup,
    Number,
    Peer,
    Prefetch,
    Register,
    Set,
    Statement,
    Store,
    Value,
    value_of,
)
from openinfer.loops.tiles import Role, Tile, TileAlloc, TileFill, TileFma, TileLoad, Tiles, TileStore
from openinfer.loops.verify import Accesses, verify

__all__ = [
    "Accesses",
    "Across",
    "Alloc",
    "Barrier",
    "Bind",
    "Buffer",
    "Fail",
    "For",
    "If",
    "Join",
    "Kernel",
    "Leaf",
    "Let",
    "Load",
    "Lookup",
    "LoopProgramError",
    "Memory",
    "Number",
    "Peer",
    "Prefetch",
    "Register",
    "Role",
    "Set",
    "Statement",
    "Store",
    "Tile",
    "TileAlloc",
    "TileFill",
    "TileFma",
    "TileLoad",
    "TileStore",
    "Tiles",
    "UnprovedAccessError",
    "Value",
    "value_of",
    "verify",
]
