"""The meaning of a loop program on NumPy arrays, one element at a time: what printers are compared with.

Every loop runs in order, whatever it is bound to; `verify` makes sure that no order matters to a parallel one. Threads
of a group that wait for one another run in turn, each as far as the next barrier or join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openinfer.affine import Index
from openinfer.array_types import storage_dtype
from openinfer.errors import OpenInferError
from openinfer.expr import tree
from openinfer.expr.elementary import spelled_out
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.loops.errors import LoopProgramError
from openinfer.loops.nodes import (
    Across,
    Alloc,
    Barrier,
    Bind,
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
    Value,
)
from openinfer.loops.teams import is_meeting, team
from openinfer.loops.tiles import TileAlloc, TileFill, TileFma, TileLoad, TileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.affine import Var, Within
    from openinfer.loops.buffers import Buffer
    from openinfer.loops.nodes import Kernel, Leaf, Statement
    from openinfer.loops.tiles import Tile, TileStatement

    Program = Callable[..., None]

Array: TypeAlias = npt.NDArray[Any]


class StepFailedError(OpenInferError):
    """A `Fail` was reached whose test holds; the message is its rule."""

    default_code = "out-of-range"


def interpret(kernel: Kernel, arrays: Mapping[str, Array], parameters: Mapping[str, int] | None = None) -> None:
    """Run a loop program on flat arrays, by name of buffer; packed types have one element a byte.

    Raises:
        StepFailedError: an element is refused.
        IndexError: an access lies outside of its array, which `verify` rules out.
    """
    _Run(dict(arrays), dict(parameters or {})).block(kernel.body)


class _Run:
    def __init__(self, arrays: dict[str, Array], variables: dict[str, int]) -> None:
        self._arrays = arrays
        self._variables = variables
        self._registers: dict[str, Array] = {}
        self._tiles: dict[str, Array] = {}
        self._peers: dict[str, Array] = {}
        self._compiled: dict[int, tuple[Value, Program]] = {}

    def _thread(self, places: Mapping[str, int]) -> _Run:
        """Return the run of a thread: it has scalars and private buffers of its own, and shares all others."""
        made = _Run(dict(self._arrays), {**self._variables, **places})
        made._registers = dict(self._registers)
        made._tiles = dict(self._tiles)
        made._compiled = self._compiled
        return made

    def block(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case For():
                self._loop(statement)
            case If(tests, body):
                if self._hold(tests):
                    self.block(body)
            case Alloc(buffer):
                self._arrays[buffer.name] = np.zeros(self._index(buffer.size), storage_dtype(buffer.dtype))
            case Let(name, value) | Set(name, value):
                self._registers[name] = self._value(value)
            case Lookup(var, value):
                self._variables[var.name] = int(self._value(value))
            case Fail(refused, rule):
                if self._value(refused):
                    raise StepFailedError(rule)
            case Store(buffer, address, value):
                self._arrays[buffer.name][self._place(buffer, address)] = self._value(value)
            case Prefetch() | Barrier():
                # There are no caches, and between loops over threads nothing to wait for: they follow one another.
                pass
            case Join():
                raise LoopProgramError("a join outside of the threads of a group")
            case _:
                self._of_tiles(statement)

    def _of_tiles(self, statement: TileStatement) -> None:
        """Do what a subgroup does at once: each of its threads has whole tiles here, and all do the same."""
        match statement:
            case TileAlloc(tiles):
                made = np.zeros((tiles.count, tiles.rows, tiles.columns), storage_dtype(tiles.dtype))
                self._tiles[tiles.name] = made
            case TileFill(tile, value):
                self._tile(tile)[...] = value
            case TileLoad(tile, buffer, address, stride, is_transposed):
                found = self._tile(tile)
                (found.T if is_transposed else found)[...] = self._arrays[buffer.name][
                    self._places(tile, buffer, address, stride, is_transposed)
                ]
            case TileStore(buffer, address, stride, tile):
                self._arrays[buffer.name][self._places(tile, buffer, address, stride)] = self._tile(tile)
            case TileFma(total, left, right):
                sums = self._tile(total)
                sums += self._tile(left).astype(sums.dtype) @ self._tile(right).astype(sums.dtype)

    def _tile(self, tile: Tile) -> Array:
        """Return a tile, as a view."""
        return self._tiles[tile.tiles.name][self._index(tile.at)]

    def _places(
        self, tile: Tile, buffer: Buffer, address: Index, stride: int, is_transposed: bool = False
    ) -> npt.NDArray[np.intp]:
        """Return the places of the elements of a tile in memory, lines of neighbours."""
        rows, columns = tile.tiles.rows, tile.tiles.columns
        lines, length = (columns, rows) if is_transposed else (rows, columns)
        first = self._place(buffer, address)
        self._place(buffer, address + stride * (lines - 1) + length - 1)
        return first + stride * np.arange(lines)[:, None] + np.arange(length)

    def _loop(self, loop: For) -> None:
        if loop.bind is Bind.LOCAL and is_meeting(team(loop)[1]):
            self._together(loop)
            return
        for place in range(self._index(_extent(loop.var))):
            self._variables[loop.var.name] = place
            self.block(loop.body)

    def _together(self, loop: For) -> None:
        """Run the threads of a group in turn, each as far as the next place where they meet."""
        axes, body = team(loop)
        places = list(np.ndindex(*(self._index(_extent(axis)) for axis in axes)))
        threads = [self._thread({axis.name: at for axis, at in zip(axes, place, strict=True)}) for place in places]
        running = [thread.steps(body) for thread in threads]
        while True:
            met = [next(each, None) for each in running]
            if all(each is None for each in met):
                return
            if any(each is not met[0] for each in met):
                raise LoopProgramError("threads of a group do not meet at one statement")
            if isinstance(met[0], Join):
                _join(met[0], axes, places, threads)

    def steps(self, body: Sequence[Statement]) -> Iterator[Barrier | Join]:
        """Run statements; yield those at which a thread waits for the others of its group."""
        for statement in body:
            match statement:
                case Barrier() | Join():
                    yield statement
                case For(var, _, inner) if is_meeting(inner):
                    for place in range(self._index(_extent(var))):
                        self._variables[var.name] = place
                        yield from self.steps(inner)
                case If(tests, inner) if is_meeting(inner):
                    if self._hold(tests):
                        yield from self.steps(inner)
                case _:
                    self._statement(statement)

    def join(self, other: _Run, pairs: Sequence[Set]) -> dict[str, Array]:
        """Return named scalars of this thread combined with those of another one."""
        self._peers = other._registers
        return {pair.name: self._value(pair.value) for pair in pairs}

    def scalars(self, pairs: Sequence[Set]) -> dict[str, Array]:
        """Return the values of what is joined."""
        return {pair.name: self._registers[pair.name] for pair in pairs}

    def set(self, values: Mapping[str, Array]) -> None:
        """Give named scalars other values."""
        self._registers |= values

    def _index(self, index: Index | None) -> int:
        return 0 if index is None else index.evaluate(self._variables)

    def _place(self, buffer: Buffer, address: Index) -> int:
        place = self._index(address)
        if not 0 <= place < len(self._arrays[buffer.name]):
            raise IndexError(f"{buffer.name}[{address}] is element {place} of {len(self._arrays[buffer.name])}")
        return place

    def _hold(self, tests: Sequence[Within]) -> bool:
        return all(0 <= self._index(test.index) < self._index(test.extent) for test in tests)

    def _value(self, value: Value) -> Array:
        out = np.empty((), storage_dtype(value.dtype))
        self._program(value)([self._leaf(leaf) for leaf in value.leaves], out)
        return out

    def _program(self, value: Value) -> Program:
        known = self._compiled.get(id(value))
        if known is None:
            known = self._compiled[id(value)] = (value, compile_program(linearise(spelled_out(value.expr))))
        return known[1]

    def _leaf(self, leaf: Leaf) -> Array:
        match leaf:
            case Load(buffer, address, guards, fill):
                if fill is not None and not self._hold(guards):
                    return np.asarray(fill.value, storage_dtype(buffer.dtype))
                return np.asarray(self._arrays[buffer.name][self._place(buffer, address)])
            case Number(index, dtype):
                return np.asarray(self._index(index)).astype(storage_dtype(dtype))
            case Across(function, buffer):
                return self._across(function, buffer)
            case Peer(name, _):
                return self._peers[name]
            case _:
                return self._registers[leaf.name]

    def _across(self, function: str, buffer: Buffer) -> Array:
        """Combine neighbours at half the distance again and again, as the lanes of a vector are."""
        parts = [np.asarray(element) for element in self._arrays[buffer.name]]
        inputs = (tree.Input(0, buffer.dtype), tree.Input(1, buffer.dtype))
        combined = Value(tree.Apply(function, inputs, buffer.dtype))
        while len(parts) > 1:
            half = (len(parts) + 1) // 2
            out = [np.empty((), storage_dtype(buffer.dtype)) for _ in parts[half:]]
            for place, other in enumerate(parts[half:]):
                self._program(combined)([parts[place], other], out[place])
            parts = [*out, *parts[len(out) : half]]
        return parts[0]


def _extent(var: Var) -> Index | None:
    return Index.of(var.extent) if isinstance(var.extent, int) else var.extent


def _join(join: Join, axes: Sequence[Var], places: Sequence[tuple[int, ...]], threads: Sequence[_Run]) -> None:
    """Combine threads that differ along one axis: neighbours at half the distance again and again."""
    along = axes.index(join.over)
    teams: dict[tuple[int, ...], list[_Run]] = {}
    for place, thread in zip(places, threads, strict=True):
        teams.setdefault((*place[:along], *place[along + 1 :]), []).append(thread)
    for members in teams.values():
        left = list(members)
        while len(left) > 1:
            half = (len(left) + 1) // 2
            for first, other in zip(left, left[half:], strict=False):
                first.set(first.join(other, join.pairs))
            left = left[:half]
        joined = left[0].scalars(join.pairs)
        for member in members:
            member.set(joined)
