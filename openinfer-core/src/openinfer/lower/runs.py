"""Loop programs in several runs, for devices that end the loops of a thread after some number of turns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within
from openinfer.dtypes import I64
from openinfer.expr import tree
from openinfer.loops import Bind, Buffer, Fail, For, If, Let, Load, Lookup, Number, Register, Set, Store, value_of
from openinfer.loops.substitution import substituted
from openinfer.lower.perfect_nests import nest_of, set_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.loops import Kernel, Statement, Value

    TurnsOf = Callable[[Value], int]
    """Turns of loops within the computation of a value."""

FIRST = Var("first")
"""The parameter of a loop program in runs: the first place of its loop that a run visits."""


@dataclass(frozen=True, slots=True)
class Runs:
    """A loop program to be run once for each of ``starts``, in their order, as its parameter `FIRST`.

    Attributes:
        scratch: buffers of the program that keep totals from run to run; () where there is one run, without parameter.
    """

    kernel: Kernel
    starts: tuple[int, ...] = (0,)
    scratch: tuple[Buffer, ...] = ()


def in_runs(kernel: Kernel, most_turns: int, turns_of: TurnsOf) -> Runs | None:
    """Return runs of at most so many iterations of a thread's loops, None where there are none.

    A loop in the outermost block of a thread is divided, together with those that fill it; what it has
    added up is kept between the runs.
    """
    axes, body = _threads(kernel.body)
    if turns(body, turns_of) <= most_turns:
        return Runs(kernel)
    longest = max(range(len(body)), key=lambda number: turns(body[number : number + 1], turns_of))
    rest = turns((*body[:longest], *body[longest + 1 :]), turns_of)
    folded, inside = nest_of(body[longest : longest + 1])
    size = (most_turns - rest - 1) // (1 + turns(inside, turns_of))
    extents = [var.extent for var in folded if isinstance(var.extent, int)]
    if size < 1 or not folded or len(extents) < len(folded):
        return None
    return _Division(kernel, axes, body, longest).runs(size, folded, extents, inside)


def turns(body: Sequence[Statement], turns_of: TurnsOf) -> int:
    """Return how many turns of loops statements take at most, those included that find loops at their ends."""
    total = 0
    for statement in body:
        match statement:
            case For(Var(extent=int(extent)), Bind.SERIAL, inner):
                total += extent * (1 + turns(inner, turns_of)) + 1
            case For(_, _, inner) | If(_, inner):
                total += turns(inner, turns_of)
            case Let(_, value) | Set(_, value) | Lookup(_, value) | Fail(value, _) | Store(_, _, value):
                total += turns_of(value)
            case _:
                pass
    return total


def _threads(body: tuple[Statement, ...]) -> tuple[list[Var], tuple[Statement, ...]]:
    axes: list[Var] = []
    while len(body) == 1 and isinstance(body[0], For) and body[0].bind.is_parallel:
        axes.append(body[0].var)
        body = body[0].body
    return axes, body


class _Division:
    def __init__(self, kernel: Kernel, axes: Sequence[Var], body: tuple[Statement, ...], longest: int) -> None:
        self._kernel = kernel
        self._axes = axes
        self._before, self._after = body[:longest], body[longest + 1 :]
        size, at = Index.of(1), Index()
        for axis in axes:
            extent = Index.of(0 if axis.extent is None else axis.extent)
            size, at = size * extent, at * extent + axis
        self._at = at
        changed = set_in(body[longest : longest + 1])
        self._totals = [
            Register(s.name, s.value.dtype) for s in self._before if isinstance(s, Let) and s.name in changed
        ]
        self._scratch = [Buffer(f"kept_{total.name}", total.dtype, size) for total in self._totals]

    def runs(self, size: int, folded: Sequence[Var], extents: Sequence[int], inside: tuple[Statement, ...]) -> Runs:
        """Return runs of ``size`` places each of loops that are walked as one."""
        extent, step = prod(extents), Var(folded[0].name if len(folded) == 1 else "step", size)
        visited = FIRST + step
        if len(folded) == 1:
            inside = substituted(inside, {folded[0]: visited})
        else:
            inside = (*_digits(visited, folded, extents), *inside)
        is_later = Within(FIRST - 1, Index.of(extent))
        is_last = Within(FIRST + size - extent, Index.of(size))
        body: tuple[Statement, ...] = (
            *self._before,
            *([If((is_later,), tuple(self._restored()))] if self._totals else []),
            For(step, Bind.SERIAL, (If((Within(visited, Index.of(extent)),), inside),)),
            *self._kept(),
            *([If((is_last,), self._after)] if self._after else []),
        )
        for axis in reversed(self._axes):
            body = (For(axis, Bind.GROUP, body),)
        kernel = replace(
            self._kernel,
            buffers=(*self._kernel.buffers, *self._scratch),
            body=body,
            parameters=(*self._kernel.parameters, FIRST),
        )
        return Runs(kernel, tuple(range(0, extent, size)), tuple(self._scratch))

    def _restored(self) -> list[Statement]:
        return [
            Set(total.name, value_of(tree.Input(0, total.dtype), {0: Load(buffer, self._at)}))
            for total, buffer in zip(self._totals, self._scratch, strict=True)
        ]

    def _kept(self) -> list[Statement]:
        return [
            Store(buffer, self._at, value_of(tree.Input(0, total.dtype), {0: total}))
            for total, buffer in zip(self._totals, self._scratch, strict=True)
        ]


def _digits(place: Index, axes: Sequence[Var], extents: Sequence[int]) -> list[Statement]:
    """Return statements that bind axes to the digits of a place in row-major order."""
    lookups: list[Statement] = []
    below = prod(extents)
    for axis, extent in zip(axes, extents, strict=True):
        below //= extent
        digit = place // below if axis == axes[0] else place // below % extent
        lookups.append(Lookup(axis, value_of(tree.Input(0, I64), {0: Number(digit, I64)})))
    return lookups
