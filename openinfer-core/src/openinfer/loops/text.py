"""The text of a loop program, which reads back to an equal one. Its syntax is Python's, its words are these:

    def rows(x: GLOBAL[f32, 12], y: GLOBAL[f32, 3], *, n):        # buffers with memory, type and size; parameters
        'y = sum_axis(x)'                                         # its origin
        for i in SERIAL(3):                                       # a loop and how it is bound
            total: f32 = 0.0                                      # a named scalar
            for j in SERIAL(4):
                total = total + x[4*i + j]                        # set again
            y[i] = total                                          # a store

``t: PRIVATE[f32, 16]`` allocates, ``if 0 <= i < n:`` tests, ``BARRIER()`` waits, ``guarded(x[i - 1], 0.0, 0 <= i - 1 <
6)`` reads only where it may, ``number(i, i64)`` is the value of an index, ``across(add, t)`` combines a private buffer,
``p: index[7] = cast(x[i], i64)`` binds an index, and ``fail(refused, 'rule')`` ends the step with an error.
``with JOIN(thread):`` precedes how named scalars of two threads become one: ``total = total + peer(total)``.

``t: TILES[f32, TOTAL, 16, 8, 4, 32]`` allocates four tiles of 16 by 8 elements that 32 threads hold together. Then
``t[i] = TILE(0.0)`` fills one, ``l[i] = TILE(x, address, stride)`` loads one (with ``TRANSPOSED`` after the stride:
along its columns), ``t[i] = TILE_FMA(l[i], r[i])`` adds a product to it, and ``TILE_STORE(y, address, stride, t[i])``
stores it.
"""

from __future__ import annotations

from itertools import count as counted
from typing import TYPE_CHECKING

from openinfer.expr.linear import linearise
from openinfer.expr.text import literal_text, program_text
from openinfer.loops.nodes import (
    Across,
    Alloc,
    Barrier,
    Fail,
    For,
    If,
    Join,
    Let,
    Load,
    Lookup,
    Number,
    Peer,
    Prefetch,
    Set,
    Store,
)
from openinfer.loops.tiles import TileAlloc, TileFill, TileFma, TileLoad, Tiles, TileStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.loops.buffers import Buffer
    from openinfer.loops.nodes import Kernel, Leaf, Statement, Value
    from openinfer.loops.tiles import Tile, TileStatement

_INDENT = "    "


def kernel_text(kernel: Kernel) -> str:
    """Return the text of a loop program, with a line end after the last line."""
    buffers = [f"{buffer.name}: {_buffer_text(buffer)}" for buffer in kernel.buffers]
    parameters = ["*", *(var.name for var in kernel.parameters)] if kernel.parameters else []
    lines = [f"def {kernel.name}({', '.join([*buffers, *parameters])}):"]
    if kernel.origin:
        lines.append(f"{_INDENT}{kernel.origin!r}")
    if kernel.body or not kernel.origin:
        lines += _KernelText(set(_registers(kernel.body))).block(kernel.body, _INDENT)
    return "\n".join(lines) + "\n"


def _buffer_text(buffer: Buffer) -> str:
    return f"{buffer.memory.value}[{buffer.dtype}, {buffer.size}]"


def _registers(body: Sequence[Statement]) -> Iterator[str]:
    for statement in body:
        match statement:
            case For(_, _, inner) | If(_, inner):
                yield from _registers(inner)
            case Let(name, _):
                yield name
            case _:
                pass


class _KernelText:
    def __init__(self, registers: set[str]) -> None:
        self._names = (name for number in counted() if (name := f"v{number}") not in registers)

    def block(self, body: Sequence[Statement], pad: str) -> Iterator[str]:
        if not body:
            yield f"{pad}pass"
        for statement in body:
            match statement:
                case For(var, bind, inner):
                    yield f"{pad}for {var.name} in {bind.value}({var.extent}):"
                    yield from self.block(inner, pad + _INDENT)
                case If(tests, inner):
                    yield f"{pad}if {' and '.join(map(str, tests))}:"
                    yield from self.block(inner, pad + _INDENT)
                case Alloc(buffer):
                    yield f"{pad}{buffer.name}: {_buffer_text(buffer)}"
                case Join(over, pairs):
                    yield f"{pad}with JOIN({over.name}):"
                    yield from self.block(pairs, pad + _INDENT)
                case Let(name, value):
                    yield from self._line(pad, f"{name}: {value.dtype} = ", value)
                case Set(name, value):
                    yield from self._line(pad, f"{name} = ", value)
                case Lookup(var, value):
                    yield from self._line(pad, f"{var.name}: index[{var.extent}] = ", value)
                case Store(buffer, address, value):
                    yield from self._line(pad, f"{buffer.name}[{address}] = ", value)
                case Fail(refused, rule):
                    yield from self._line(pad, "fail(", refused, f", {rule!r})")
                case _:
                    yield pad + _line_text(statement)

    def _line(self, pad: str, before: str, value: Value, after: str = "") -> Iterator[str]:
        inputs = {number: _leaf_text(leaf) for number, leaf in enumerate(value.leaves)}
        lines, text = program_text(linearise(value.expr), inputs, lambda: next(self._names))
        yield from (pad + line for line in lines)
        yield f"{pad}{before}{text}{after}"


def _line_text(statement: Barrier | Prefetch | TileStatement) -> str:
    """Return a statement that computes no value, on its line."""
    match statement:
        case Barrier():
            return "BARRIER()"
        case Prefetch(buffer, address):
            return f"PREFETCH({buffer.name}, {address})"
        case TileAlloc(Tiles(name, dtype, role, rows, columns, count, threads)):
            return f"{name}: TILES[{dtype}, {role.value}, {rows}, {columns}, {count}, {threads}]"
        case TileFill(tile, value):
            return f"{_named_tile(tile)} = TILE({literal_text(tile.tiles.dtype, value)})"
        case TileLoad(tile, buffer, address, stride, is_transposed):
            order = ", TRANSPOSED" if is_transposed else ""
            return f"{_named_tile(tile)} = TILE({buffer.name}, {address}, {stride}{order})"
        case TileStore(buffer, address, stride, tile):
            return f"TILE_STORE({buffer.name}, {address}, {stride}, {_named_tile(tile)})"
        case TileFma(total, left, right):
            return f"{_named_tile(total)} = TILE_FMA({_named_tile(left)}, {_named_tile(right)})"


def _named_tile(tile: Tile) -> str:
    return f"{tile.tiles.name}[{tile.at}]"


def _leaf_text(leaf: Leaf) -> str:
    match leaf:
        case Load(buffer, address, guards, fill):
            place = f"{buffer.name}[{address}]"
            if fill is None:
                return place
            return f"guarded({', '.join([place, literal_text(fill.dtype, fill.value), *map(str, guards)])})"
        case Number(index, dtype):
            return f"number({index}, {dtype})"
        case Across(function, buffer):
            return f"across({function}, {buffer.name})"
        case Peer(name, _):
            return f"peer({name})"
        case _:
            return leaf.name
