"""The syntax tree: a program as it was written, with the place of every word that a later finding may point at.

Statements that mean the same before and after lowering are node kinds of the graph; the rest have classes
of their own here. Offsets are character offsets into the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from openinfer.ir.nodes import (
    Await,
    Barrier,
    Branch,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Dep,
    Return,
    Transfer,
    Yield,
)
from openinfer.ir.places import DeclarationPlaces, Place, Places

if TYPE_CHECKING:
    from openinfer.diagnostics import Diagnostic, Source
    from openinfer.ir.graph import MemoryKind
    from openinfer.ir.values import Ref
    from openinfer.symbolic import IntExpr


@dataclass(frozen=True, slots=True)
class Word:
    """A name with its place."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, truth value or string."""

    value: int | float | bool | str
    place: Place


@dataclass(frozen=True, slots=True)
class Indexed:
    """A name with indices, as the value of a setting."""

    ref: Ref
    place: Place


@dataclass(frozen=True, slots=True)
class Sum:
    """An integer expression; also a lone name."""

    expr: IntExpr
    place: Place


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Literal | Sum, ...]
    place: Place


Value: TypeAlias = Literal | Indexed | Sum | Items


@dataclass(frozen=True, slots=True)
class Setting:
    """``name=value`` of an operator or of ``with { … }``; an argument of an unknown attribute may have no name."""

    name: Word | None
    value: Value


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a declaration.

    ``name`` is the canonical one (``ref`` for ``@reference``). What ``content`` holds follows from it: ``init``
    a `Literal`, ``ref`` and ``pattern`` text, ``auto_dim`` words, ``fixed`` words with numbers, ``table`` nothing,
    and an unknown attribute its arguments.
    """

    name: str
    content: Literal | str | tuple[Word, ...] | tuple[tuple[Word, int], ...] | tuple[Setting, ...]
    place: Place
    known: bool


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration in a memory section."""

    kind: MemoryKind
    name: Word
    formals: tuple[Word, ...]
    dtype: Word
    dims: tuple[IntExpr, ...]
    attributes: tuple[Attribute, ...]
    place: Place
    places: DeclarationPlaces | None = None


@dataclass(frozen=True, slots=True)
class AssignStatement:
    name: str
    dtype: Word
    dims: tuple[IntExpr, ...]


@dataclass(frozen=True, slots=True)
class OpStatement:
    """Arguments are inputs and settings in the order written; their order is checked when the graph is built."""

    op: str
    arguments: tuple[tuple[Ref, Place] | Setting, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopStatement:
    name: str
    index: str
    start: IntExpr
    end: IntExpr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ScopeStatement:
    name: str
    body: tuple[Statement, ...]


Body: TypeAlias = (
    AssignStatement
    | OpStatement
    | LoopStatement
    | ScopeStatement
    | Transfer
    | CacheRead
    | CacheWrite
    | CacheIncrement
    | CacheDecrement
    | CacheReset
    | Branch
    | Barrier
    | Dep
    | Yield
    | Await
    | Return
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with its hints; the place of a loop or scope is that of its head.

    ``places`` are those of its parts in the text.
    """

    body: Body
    hints: tuple[Setting, ...]
    place: Place
    places: Places | None = None


@dataclass(frozen=True, slots=True)
class BlockSyntax:
    name: Word
    hints: tuple[Setting, ...]
    statements: tuple[Statement, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Gap:
    """A piece of text of which nothing could be made, without its comments.

    ``rule`` is what it would have been: ``declaration``, ``section``, a statement, or ``""`` for a statement of an
    unknown kind; ``block`` is the name of the block around it.
    """

    rule: str
    block: str
    text: str


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program: declarations and blocks in source order, the parser's warnings, and what it could not read."""

    source: Source
    declarations: tuple[Declaration, ...]
    blocks: tuple[BlockSyntax, ...]
    warnings: tuple[Diagnostic, ...]
    gaps: tuple[Gap, ...] = ()
