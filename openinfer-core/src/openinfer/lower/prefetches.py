"""Weights that the next block of a product reads, fetched while this one is computed.

A product goes through its weights block by block, and through one block once for every tile of places. What lies past
the second cache arrives while the first of these tiles waits; while the tiles of the block before it are computed, the
memory has nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, gcd, prod
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.loops import Bind, For, If, Load, Prefetch, Store
from openinfer.loops.substitution import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.arch import TargetInfo
    from openinfer.loops import Kernel, Statement

SHARE = 8
"""Weights above one of so many parts of the second cache are taken to lie past it, since a program has several of them.

Measured for MobileNetV1 of 224² on a core with 2 MB, where it makes 13 % of the time; a sixteenth is not quicker.
"""

MOST = 4
"""Lines that one iteration of the innermost loop asks for, at most: products with more of them wait for their loads."""


def with_prefetches(kernel: Kernel, target: TargetInfo | None) -> Kernel:
    """Return a loop program that fetches large constants a block ahead, where loops read every block several times.

    Args:
        target: whose caches count; without vector registers, or without caches, the loop program stays.
    """
    if target is None or target.is_scalar:
        return kernel
    stored = frozenset(_stored(kernel.body))
    large = frozenset(
        buffer.name
        for buffer in kernel.buffers
        if buffer.name not in stored
        and (size := buffer.size.constant) is not None
        and not buffer.dtype.is_packed
        and size * buffer.dtype.bits > 8 * target.l2_nbytes // SHARE
    )
    if not large:
        return kernel
    return replace(kernel, body=_Prefetching(large, target.line_nbytes).block(kernel.body, ()))


def _stored(body: Sequence[Statement]) -> Iterator[str]:
    for statement in body:
        match statement:
            case For(_, _, inner) | If(_, inner):
                yield from _stored(inner)
            case Store(buffer, _, _):
                yield buffer.name
            case _:
                pass


@dataclass(frozen=True, slots=True)
class _Prefetching:
    large: frozenset[str]
    line_nbytes: int

    def block(self, body: Sequence[Statement], outer: tuple[Var, ...]) -> tuple[Statement, ...]:
        """Return statements inside of serial loops over ``outer``, the outermost first."""
        return tuple(self._statement(statement, outer) for statement in body)

    def _statement(self, statement: Statement, outer: tuple[Var, ...]) -> Statement:
        match statement:
            case For(var, Bind.SERIAL, body) if any(map(_is_serial, body)):
                return For(var, Bind.SERIAL, self.block(body, (*outer, var)))
            case For(var, Bind.SERIAL, body):
                return For(var, Bind.SERIAL, (*self._prefetches(body, (*outer, var)), *body))
            case For(var, Bind.UNROLL, body) if any(map(_is_serial, body)):
                return For(var, Bind.UNROLL, self.block(body, outer))
            case If(tests, body):
                return If(tests, self.block(body, outer))
            case _:
                return statement

    def _prefetches(self, body: Sequence[Statement], serial: tuple[Var, ...]) -> tuple[Prefetch, ...]:
        """Return what fetches a part of the next block in every turn of an innermost loop."""
        blocks = {load.buffer.name: load for load in _loads(body, {}) if load.buffer.name in self.large}
        return tuple(prefetch for load in blocks.values() for prefetch in self._of_block(load, serial))

    def _of_block(self, load: Load, serial: tuple[Var, ...]) -> Iterator[Prefetch]:
        number = _block_loop(load.address, serial)
        if number is None:
            return
        block, inner = serial[number], serial[number + 1 :]
        size = (load.address.substituted({block: Index.of(block) + 1}) - load.address).constant or 0
        within = load.address.substituted({block: Index()})
        if not within.is_within(0, Index.of(size)):
            return
        turns = prod(map(_times, inner))
        lines = ceil(size * load.dtype.bits / (8 * self.line_nbytes * turns))
        if lines > MOST:
            return
        turn = Index()
        for var in inner:
            turn = turn * _times(var) + var
        start = (Index.of(block) + 1) % _times(block) * size
        shared = gcd(size, turns * lines)
        for line in range(lines):
            yield Prefetch(load.buffer, start + (turn * lines + line) * (size // shared) // (turns * lines // shared))


def _is_serial(statement: Statement) -> bool:
    match statement:
        case For(_, Bind.SERIAL, _):
            return True
        case For(_, _, body) | If(_, body):
            return any(map(_is_serial, body))
        case _:
            return False


def _loads(body: Sequence[Statement], first: Mapping[Var, Index]) -> Iterator[Load]:
    """Yield what statements without serial loops load: of every vector the first element."""
    for statement in body:
        match statement:
            case For(var, Bind.UNROLL, inner) if isinstance(var.extent, int):
                for turn in range(var.extent):
                    yield from _loads(inner, {**first, var: Index.of(turn)})
            case For(var, _, inner):
                yield from _loads(inner, {**first, var: Index()})
            case _:
                for value in values_of([statement]):
                    for leaf in value.leaves:
                        if isinstance(leaf, Load):
                            yield replace(leaf, address=leaf.address.substituted(first))


def _block_loop(address: Index, serial: Sequence[Var]) -> int | None:
    """Return the number of the loop over blocks that an address lies in, if each is read in more than one turn.

    So it is where a loop inside of that one has no part in the address, but the innermost of all has.
    """
    within = address.variables()
    number = next((number for number, var in enumerate(serial) if var in within), len(serial))
    inner = serial[number + 1 :]
    is_read_again = any(_times(var) > 1 and var not in within for var in inner)
    is_known = all(isinstance(var.extent, int) for var in inner)
    return number if is_read_again and is_known and serial[-1] in within and _times(serial[number]) > 1 else None


def _times(var: Var) -> int:
    """Return how often a loop runs; 1 where that is known at run time only."""
    return var.extent if isinstance(var.extent, int) else 1
