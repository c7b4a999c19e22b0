"""Statements of a program as nodes: one class for each kind of the graph JSON (``specification: json.graphs``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from openinfer.ir.values import Attrs
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from openinfer.diagnostics import Span
    from openinfer.dtypes import DType
    from openinfer.ir.places import Places
    from openinfer.ir.values import Ref
    from openinfer.symbolic import IntExpr


ONE = Const(1)
"""What a counter changes by where nothing else is written."""


@dataclass(frozen=True, slots=True)
class Single:
    """One index of a cache access, such as ``l`` or ``t+1``."""

    index: IntExpr


@dataclass(frozen=True, slots=True)
class Slice:
    """A half-open range of a cache access; a missing bound is open. Only ``end`` may be a negative `Const`."""

    start: IntExpr | None = None
    end: IntExpr | None = None


@dataclass(frozen=True, slots=True)
class CacheAccess:
    """A persistent variable with the slots written after it; ``K`` is not bracketed, ``K[]`` is."""

    base: str
    bracketed: bool = False
    slots: tuple[Single | Slice, ...] = ()

    def expressions(self) -> Iterator[IntExpr]:
        """Yield the integer expressions in the brackets."""
        for slot in self.slots:
            bounds = (slot.index,) if isinstance(slot, Single) else (slot.start, slot.end)
            yield from (bound for bound in bounds if bound is not None)


@dataclass(frozen=True, slots=True)
class Assign:
    """``assign name: dtype[dims];`` declares a temporary and fills it with zeros."""

    name: str
    dtype: DType
    dims: tuple[IntExpr, ...] = ()


@dataclass(frozen=True, slots=True)
class Op:
    """``op name(inputs, settings) >> outputs;`` with the operator's name as written."""

    op: str
    inputs: tuple[Ref, ...]
    outputs: tuple[str, ...]
    settings: Attrs = field(default_factory=Attrs)


@dataclass(frozen=True, slots=True)
class Transfer:
    """``transfer src >> dst;``"""

    src: Ref
    dst: str


@dataclass(frozen=True, slots=True)
class CacheRead:
    """``cache.read src >> dst;``"""

    src: CacheAccess
    dst: str


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """``cache.write src >> dst;``"""

    src: Ref
    dst: CacheAccess


@dataclass(frozen=True, slots=True)
class CacheIncrement:
    """``cache.increment amount target;``"""

    target: str
    amount: IntExpr = ONE


@dataclass(frozen=True, slots=True)
class CacheDecrement:
    """``cache.decrement amount target;``"""

    target: str
    amount: IntExpr = ONE


@dataclass(frozen=True, slots=True)
class CacheReset:
    """``cache.reset target;``"""

    target: CacheAccess


@dataclass(frozen=True, slots=True)
class Branch:
    """``branch then_block;`` or ``branch cond then_block else_block;``: a call of a block."""

    then_block: str
    cond: str | None = None
    else_block: str | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """``loop name (index in start..end) { body }``: half-open, step 1."""

    name: str
    index: str
    start: IntExpr
    end: IntExpr
    body: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Barrier:
    """``barrier;``: no node moves, fuses or is reordered across it."""


@dataclass(frozen=True, slots=True)
class Dep:
    """``dep after(after) before(before);``: an order without a data edge. Targets may be dotted."""

    after: str
    before: str


@dataclass(frozen=True, slots=True)
class Yield:
    """``yield names;``"""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Await:
    """``await names;``"""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Return:
    """``return names;``: leaves the block; in ``entry`` the names are the results of the step."""

    names: tuple[str, ...] = ()


NodeKind: TypeAlias = (
    Assign
    | Op
    | Transfer
    | CacheRead
    | CacheWrite
    | CacheIncrement
    | CacheDecrement
    | CacheReset
    | Branch
    | Loop
    | Barrier
    | Dep
    | Yield
    | Await
    | Return
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A statement with its place in the graph.

    Equality compares ``kind``, ``hints`` and ``scope`` only: numbers, ids and places say where a node came from.

    Attributes:
        index: number in the graph, unique; a loop is numbered after its body.
        uuid: id for tools.
        kind: what the node does.
        hints: ``with { … }`` of the node, with those of the scopes around it merged in (inner wins).
        scope: names of the scopes around the node, outermost first.
        span: place of the statement in the text, if the graph came from text.
        places: those of its parts, likewise.
    """

    index: int = field(compare=False)
    uuid: UUID = field(compare=False)
    kind: NodeKind
    hints: Attrs = field(default_factory=Attrs)
    scope: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    places: Places | None = field(default=None, compare=False, repr=False)
