"""Whether a loop program means something: names are bound, accesses lie inside, parallel loops do not race."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, is_identifier
from openinfer.dtypes import BOOL, I64
from openinfer.expr.linear import linearise
from openinfer.loops.bounds import is_kept_within
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
    Let,
    Load,
    Lookup,
    Number,
    Peer,
    Prefetch,
    Register,
    Set,
    Store,
    Value,
)
from openinfer.loops.races import find_race
from openinfer.loops.teams import is_meeting, team
from openinfer.loops.tiles import (
    Role,
    Tile,
    TileAlloc,
    TileFill,
    TileFma,
    TileLoad,
    Tiles,
    TileStore,
    places_of_tile,
    subgroup_of,
    tiles_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Within
    from openinfer.dtypes import DType
    from openinfer.loops.nodes import Kernel, Leaf, Statement


@dataclass(slots=True)
class Accesses:
    """How many accesses lie inside of their buffer whatever the data are, and how many because of a test."""

    proved: int = 0
    guarded: int = 0


def verify(kernel: Kernel) -> Accesses:
    """Check a loop program and count its accesses.

    Raises:
        UnprovedAccessError: an access may lie outside of its buffer, and no test keeps it inside.
        LoopProgramError: a name is unknown or used twice; types do not agree; a constant buffer is written; iterations
            of a parallel loop write one element, or one reads what another writes; not every thread arrives at a
            barrier or join; what is joined is not a named scalar of a thread; a loop over lanes has no constant length,
            or holds other statements than `Let`, `Set`, `Store` and `If`; a statement about tiles differs between the
            threads that hold them, or their forms do not go together.
    """
    check = _Check(kernel.name)
    scope = _Scope(
        frozenset(kernel.parameters),
        {buffer.name: buffer for buffer in kernel.buffers},
        {},
    )
    names = [kernel.name, *(buffer.name for buffer in kernel.buffers), *(var.name for var in kernel.parameters)]
    for name in names:
        if not is_identifier(name):
            raise LoopProgramError(f"{kernel.name}: the name {name!r} is not an identifier of letters, digits and _")
    if len(scope.buffers) < len(kernel.buffers):
        raise LoopProgramError(f"{kernel.name}: two buffers have one name")
    check.block(kernel.body, scope)
    return check.accesses


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known at a statement.

    Attributes:
        threads: variables of the enclosing loops over threads.
        own: names of the scalars that each thread has.
        varying: variables that threads may have different values of.
    """

    variables: frozenset[Var]
    buffers: Mapping[str, Buffer]
    registers: Mapping[str, DType]
    tests: tuple[Within, ...] = ()
    threads: tuple[Var, ...] = ()
    own: frozenset[str] = frozenset()
    varying: frozenset[Var] = frozenset()
    tiles: Mapping[str, Tiles] = field(default_factory=dict[str, Tiles])


@dataclass(slots=True)
class _Check:
    kernel: str
    accesses: Accesses = field(default_factory=Accesses)

    def block(self, body: Sequence[Statement], scope: _Scope) -> None:
        for statement in body:
            scope = self._statement(statement, scope)

    def _statement(self, statement: Statement, scope: _Scope) -> _Scope:
        """Check a statement and return what is known after it."""
        match statement:
            case For(var, bind, body):
                self._loop(var, bind, body, scope)
            case If(tests, body):
                for test in tests:
                    self._bound(test.index, scope)
                self.block(body, replace(scope, tests=(*scope.tests, *tests)))
            case Alloc() | Let() | Lookup() | TileAlloc():
                return self._declared(statement, scope)
            case Set(name, value):
                self._value(value, scope)
                if scope.registers.get(name) is not value.dtype:
                    raise self._error(f"{name} is {scope.registers.get(name, 'not named')}, it is set to {value.dtype}")
            case Fail(refused, _):
                self._value(refused, scope)
                if refused.dtype is not BOOL:
                    raise self._error(f"a test is {refused.dtype}, expected bool")
            case Store() | Prefetch():
                self._reached(statement, scope)
            case Barrier() | Join():
                self._met(statement, scope)
            case TileFill() | TileLoad() | TileStore() | TileFma():
                self._of_tiles(statement, scope)
        return scope

    def _declared(self, statement: Alloc | Let | Lookup | TileAlloc, scope: _Scope) -> _Scope:
        match statement:
            case TileAlloc(tiles):
                self._new(tiles.name, scope)
                subgroup_of(scope.threads, tiles.threads)
                return replace(scope, tiles={**scope.tiles, tiles.name: tiles})
            case Alloc(buffer):
                self._new(buffer.name, scope)
                if buffer.memory not in (Memory.PRIVATE, Memory.SHARED):
                    raise self._error(f"{buffer.name} is allocated as {buffer.memory.value}")
                if buffer.memory is Memory.SHARED and scope.threads:
                    raise self._error(f"{buffer.name} is shared and allocated by each thread: allocate it outside")
                return replace(scope, buffers={**scope.buffers, buffer.name: buffer})
            case Let(name, value):
                self._new(name, scope)
                self._value(value, scope)
                own = scope.own | {name} if scope.threads else scope.own
                return replace(scope, registers={**scope.registers, name: value.dtype}, own=own)
            case Lookup(var, value):
                self._new(var.name, scope)
                self._value(value, scope)
                if value.dtype is not I64:
                    raise self._error(f"the index {var.name} is computed as {value.dtype}, expected i64")
                varying = scope.varying | {var} if scope.threads else scope.varying
                return replace(scope, variables=scope.variables | {var}, varying=varying)

    def _of_tiles(self, statement: TileFill | TileLoad | TileStore | TileFma, scope: _Scope) -> None:
        """Refuse what the threads of a subgroup cannot do at once, and forms of tiles that do not go together."""
        for tile in tiles_in(statement):
            self._tile(tile, scope)
        match statement:
            case TileFill():
                pass
            case TileFma(total, left, right):
                a, b, c = left.tiles, right.tiles, total.tiles
                roles = (a.role, b.role, c.role) == (Role.LEFT, Role.RIGHT, Role.TOTAL)
                if not roles or (a.rows, b.columns) != (c.rows, c.columns) or a.columns != b.rows:
                    raise self._error(f"{c.name} is not a total of products of {a.name} and {b.name}")
            case TileLoad(tile, buffer, address, stride, is_transposed):
                self._uniform(address, tile.tiles, scope)
                self._tile_access(tile.tiles, buffer, address, (stride, is_transposed), scope)
            case TileStore(buffer, address, stride, tile):
                if buffer.memory is Memory.CONSTANT:
                    raise self._error(f"{buffer.name} is constant and is written")
                self._uniform(address, tile.tiles, scope)
                self._tile_access(tile.tiles, buffer, address, (stride, False), scope)

    def _tile(self, tile: Tile, scope: _Scope) -> None:
        if scope.tiles.get(tile.tiles.name) != tile.tiles:
            raise self._error(f"there are no tiles {tile.tiles.name} of this form here")
        self._uniform(tile.at, tile.tiles, scope)
        for test in scope.tests:
            self._uniform(test.index - test.extent, tile.tiles, scope)
        if not tile.at.is_within(0, Index.of(tile.tiles.count)):
            raise self._error(f"{tile.tiles.name}[{tile.at}] may lie outside of {tile.tiles.count} tiles")

    def _uniform(self, index: Index, tiles: Tiles, scope: _Scope) -> None:
        """Refuse an index that may differ between the threads that hold some tiles."""
        common = frozenset(scope.threads) - frozenset(subgroup_of(scope.threads, tiles.threads))
        self._bound(index, scope)
        for var in sorted(index.variables() & (scope.varying - common), key=lambda var: var.name):
            raise self._error(f"threads that hold {tiles.name} together have different {var.name}")

    def _tile_access(
        self, tiles: Tiles, buffer: Buffer, address: Index, order: tuple[int, bool], scope: _Scope
    ) -> None:
        if buffer.dtype is not tiles.dtype:
            raise self._error(f"{tiles.name} holds {tiles.dtype}, {buffer.name} {buffer.dtype}")
        places, row, column = places_of_tile(tiles, address, *order)
        inside = replace(scope, variables=scope.variables | {row, column})
        self._access(buffer, places, (), inside)

    def _met(self, statement: Barrier | Join, scope: _Scope) -> None:
        match statement:
            case Barrier():
                self._meeting("a barrier", scope)
            case Join():
                self._join(statement, scope)

    def _meeting(self, what: str, scope: _Scope) -> None:
        """Refuse a place that only some threads of a group may come to, or come to more often than others."""
        if any((test.index - test.extent).variables() & scope.varying for test in scope.tests):
            raise self._error(f"only some threads of a group reach {what}")

    def _join(self, join: Join, scope: _Scope) -> None:
        self._meeting("a join", scope)
        if join.over not in scope.threads:
            raise self._error(f"a join over {join.over.name}, which is not a loop over threads here")
        peers = frozenset(pair.name for pair in join.pairs)
        for pair in join.pairs:
            if pair.name not in scope.own:
                raise self._error(f"{pair.name} is joined, but it is not a scalar of a thread")
            for leaf in pair.value.leaves:
                if isinstance(leaf, Peer) and (leaf.name not in peers or scope.registers[leaf.name] is not leaf.dtype):
                    raise self._error(f"the {leaf.name} of another thread is used as {leaf.dtype} and is not joined")
            plain = tuple(
                Register(leaf.name, leaf.dtype) if isinstance(leaf, Peer) else leaf for leaf in pair.value.leaves
            )
            self._statement(Set(pair.name, Value(pair.value.expr, plain)), scope)

    def _loop(self, var: Var, bind: Bind, body: Sequence[Statement], scope: _Scope) -> None:
        self._new(var.name, scope)
        if isinstance(var.extent, Index):
            self._bound(var.extent, scope)
        elif var.extent is None:
            raise self._error(f"the loop over {var.name} has no extent")
        if bind is Bind.LANES:
            self._lanes(var, body)
        threads, varying = scope.threads, scope.varying
        if bind is Bind.LOCAL:
            threads, varying = (*threads, var), varying | {var}
            self._team(For(var, bind, tuple(body)), scope)
        elif isinstance(var.extent, Index) and var.extent.variables() & varying:
            varying |= {var}
            if is_meeting(body) or is_meeting(body, (TileAlloc, TileFill, TileLoad, TileStore, TileFma)):
                raise self._error(
                    f"threads of a group meet in a loop over {var.extent} places, of which each has its own"
                )
        inside = replace(scope, variables=scope.variables | {var}, threads=threads, varying=varying)
        self.block(body, inside)
        race = find_race(var, bind, body) if bind.is_parallel else None
        if race is not None:
            raise self._error(race)

    def _team(self, loop: For, scope: _Scope) -> None:
        """Refuse threads that meet where other threads may do something else at the same time."""
        around, inside = len(scope.threads), team(loop)[1]
        if not around and is_meeting(inside) and any(_has_threads(each) for each in inside):
            raise self._error(f"threads meet in the loop over {loop.var.name}, which has loops over threads inside")

    def _lanes(self, var: Var, body: Sequence[Statement]) -> None:
        """Refuse what has no meaning in the lanes of a register: statements run one by one, each in all lanes."""
        if not isinstance(var.extent, int):
            raise self._error(f"the lanes {var.name} are {var.extent}, which is not known before the program runs")
        for statement in body:
            if isinstance(statement, If):
                self._lanes(var, statement.body)
            elif not isinstance(statement, (Let, Set, Store)):
                found = type(statement).__name__
                raise self._error(
                    f"the loop over the lanes {var.name} holds a statement {found}: expected Let, Set, Store or If"
                )

    def _reached(self, statement: Store | Prefetch, scope: _Scope) -> None:
        match statement:
            case Store(buffer, _, value):
                self._value(value, scope)
                if buffer.memory is Memory.CONSTANT:
                    raise self._error(f"{buffer.name} is constant and is written")
                if value.dtype is not buffer.dtype:
                    raise self._error(f"{buffer.name} holds {buffer.dtype}, {value.dtype} is stored")
            case Prefetch():
                pass
        self._access(statement.buffer, statement.address, (), scope)

    def _value(self, value: Value, scope: _Scope) -> None:
        for leaf in value.leaves:
            self._leaf(leaf, scope)
        for instruction in linearise(value.expr).instructions:
            if instruction.function != "input":
                continue
            if not 0 <= instruction.index < len(value.leaves):
                raise self._error(f"an expression uses input {instruction.index}, which has no leaf")
            if value.leaves[instruction.index].dtype is not instruction.dtype:
                found = value.leaves[instruction.index].dtype
                raise self._error(f"an expression uses input {instruction.index} as {instruction.dtype}, it is {found}")

    def _leaf(self, leaf: Leaf, scope: _Scope) -> None:
        match leaf:
            case Load(buffer, address, guards, fill):
                if (fill is None) != (not guards):
                    raise self._error(f"a load of {buffer.name} has guards without a fill, or a fill without guards")
                for guard in guards:
                    self._bound(guard.index, scope)
                self._access(buffer, address, guards, scope)
            case Register(name, dtype):
                if scope.registers.get(name) is not dtype:
                    raise self._error(f"{name} is used as {dtype}, it is {scope.registers.get(name, 'not named')}")
            case Number(index, _):
                self._bound(index, scope)
            case Peer(name, _):
                raise self._error(f"the {name} of another thread is used outside of a join")
            case Across(_, buffer):
                if scope.buffers.get(buffer.name) != buffer or buffer.memory is not Memory.PRIVATE:
                    raise self._error(f"{buffer.name} is not a private buffer here")

    def _access(self, buffer: Buffer, address: Index, guards: Sequence[Within], scope: _Scope) -> None:
        if scope.buffers.get(buffer.name) != buffer:
            raise self._error(f"there is no buffer {buffer.name} of this form here")
        self._bound(address, scope)
        # Nothing runs in a loop without iterations, as over the roots of an ensemble of no trees.
        if address.is_within(0, buffer.size) or any(var.extent == 0 for var in scope.variables):
            self.accesses.proved += 1
        elif is_kept_within(address, buffer.size, (*scope.tests, *guards)):
            self.accesses.guarded += 1
        else:
            tests = " and ".join(map(str, (*scope.tests, *guards))) or "there is no test"
            what = f"{buffer.name}[{address}] may lie outside of {buffer.size} elements ({tests})"
            raise UnprovedAccessError(f"{self.kernel}: {what}")

    def _bound(self, index: Index, scope: _Scope) -> None:
        for var in sorted(index.variables() - scope.variables, key=lambda var: var.name):
            raise self._error(f"the variable {var.name} in {index} is not bound")

    def _new(self, name: str, scope: _Scope) -> None:
        if not is_identifier(name):
            raise self._error(f"the name {name!r} is not an identifier of letters, digits and _")
        known = (
            {var.name for var in scope.variables} | scope.buffers.keys() | scope.registers.keys() | scope.tiles.keys()
        )
        if name in known:
            raise self._error(f"the name {name} is in use")

    def _error(self, message: str) -> LoopProgramError:
        return LoopProgramError(f"{self.kernel}: {message}")


def _has_threads(statement: Statement) -> bool:
    if isinstance(statement, For) and statement.bind is Bind.LOCAL:
        return True
    return isinstance(statement, For | If) and any(map(_has_threads, statement.body))
