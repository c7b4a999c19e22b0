"""Graphs made by calls instead of text: the calls make the syntax tree, and the rest is what text goes through."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from openinfer.boundary import public
from openinfer.diagnostics import Source, counted
from openinfer.dsl.builder_values import (
    Known,
    access,
    attributes,
    dims_of,
    expression,
    name_of,
    names_of,
    operand,
    reference,
    settings_of,
    string_of,
    target,
    word,
)
from openinfer.dsl.call_sites import CallSites
from openinfer.dsl.reading import finished, read_tree
from openinfer.dsl.syntax import (
    AssignStatement,
    BlockSyntax,
    Declaration,
    LoopStatement,
    OpStatement,
    Program,
    ScopeStatement,
    Statement,
)
from openinfer.errors import GraphError
from openinfer.ir.graph import MemoryKind
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
from openinfer.ir.values import Ref

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from openinfer.dsl.builder_values import Attrs, Dim, Given
    from openinfer.dsl.syntax import Body, Place
    from openinfer.dtypes import DType
    from openinfer.ir.graph import Graph
    from openinfer.symbolic import IntExpr

_NONE: Mapping[str, Given] = {}


class GraphBuilder:
    """Makes a graph call by call.

    Names, references (``"W[l]"``), cache accesses (``"K[l, 0..step]"``) and expressions (``"3*D"``) are written as in
    program text. In settings and hints a ``str`` is a string; a variable is the `Ref` that its declaration returned (or
    ``Ref("x")``), an element type a `DType`, an expression `expr`. Findings point at the lines of the calls.

    Every method raises `GraphError` for what is not a name, reference, expression or value; `build` finds the rest.
    """

    def __init__(self) -> None:
        self._sites = CallSites()
        self._declarations: list[Declaration] = []
        self._blocks: list[BlockSyntax] = []
        self._open: list[list[Statement]] = []

    def __repr__(self) -> str:
        counts = (counted(len(self._declarations), "declaration"), counted(len(self._blocks), "block"))
        return f"<GraphBuilder: {', '.join(counts)}>"

    @public
    def build(self, *, check: bool = False, strict: bool = False) -> Graph:
        """Return the graph of everything that was called so far.

        Args:
            check: check the structure too (phase S).
            strict: turn every warning into an error.

        Raises:
            GraphError: the graph cannot be built; all findings.
            ValidationError: with ``check``, the structure is wrong; all findings.
        """
        if self._open:
            raise GraphError("build() inside of a block: leave its `with` first")
        program = Program(Source("<builder>", ""), tuple(self._declarations), tuple(self._blocks), ())
        return finished(read_tree(program, self._sites), check=check, strict=strict)

    @staticmethod
    def expr(text: str) -> IntExpr:
        """Return an integer expression, such as ``t+1``, as the value of a setting or an element of a list."""
        return expression(text)

    # Declarations

    def dynamic(
        self,
        name: str,
        dtype: str | DType,
        dims: Sequence[Dim] = (),
        *,
        init: float | None = None,
        attrs: Attrs | None = None,
    ) -> Ref:
        """Declare an input of every step; ``dims`` are its extents, and ``init`` is its value when none is inserted."""
        return self._declare(MemoryKind.DYNAMIC, name, dtype, dims, Known(init=init, attrs=attrs or {}), ())

    def volatile(
        self,
        name: str,
        dtype: str | DType,
        dims: Sequence[Dim] = (),
        *,
        formals: Sequence[str] = (),
        init: float | None = None,
        ref: str | None = None,
        pattern: str | None = None,
        attrs: Attrs | None = None,
    ) -> Ref:
        """Declare a variable that is initialised in every step; ``pattern`` and ``formals`` make it a prefix table."""
        known = Known(init=init, ref=ref, pattern=pattern, attrs=attrs or {})
        return self._declare(MemoryKind.VOLATILE, name, dtype, dims, known, formals)

    def constant(
        self,
        name: str,
        dtype: str | DType,
        dims: Sequence[Dim] = (),
        *,
        formals: Sequence[str] = (),
        init: float | None = None,
        ref: str | None = None,
        pattern: str | None = None,
        attrs: Attrs | None = None,
    ) -> Ref:
        """Declare a variable that never changes; ``pattern`` and ``formals`` make it a prefix table."""
        known = Known(init=init, ref=ref, pattern=pattern, attrs=attrs or {})
        return self._declare(MemoryKind.CONSTANT, name, dtype, dims, known, formals)

    def persistent(
        self,
        name: str,
        dtype: str | DType,
        dims: Sequence[Dim] = (),
        *,
        formals: Sequence[str] = (),
        init: float | None = None,
        ref: str | None = None,
        table: bool = False,
        auto_dim: Sequence[str] = (),
        fixed: Mapping[str, int] | None = None,
        attrs: Attrs | None = None,
    ) -> Ref:
        """Declare a variable that keeps its value between steps; the rest makes it a table or a growing matrix."""
        known = Known(init=init, ref=ref, table=table, auto_dim=auto_dim, fixed=fixed or {}, attrs=attrs or {})
        return self._declare(MemoryKind.PERSISTENT, name, dtype, dims, known, formals)

    def _declare(
        self, kind: MemoryKind, name: str, dtype: str | DType, dims: Sequence[Dim], known: Known, formals: Sequence[str]
    ) -> Ref:
        place = self._sites.here()
        head, indices = word(name, place), tuple(word(formal, place) for formal in formals)
        declaration = Declaration(
            kind, head, indices, word(dtype, place), dims_of(dims), tuple(attributes(known, place)), place
        )
        self._declarations.append(declaration)
        return Ref(name)

    # Regions

    @contextmanager
    def block(self, name: str, *, hints: Mapping[str, Given] = _NONE) -> Generator[None]:
        """Put the statements called inside of ``with`` into a block."""
        if self._open:
            raise GraphError(f"block `{name}` inside of a block: blocks do not nest")
        place = self._sites.here()
        head, given = word(name, place), settings_of(hints, place)
        with self._inside() as statements:
            yield
        self._blocks.append(BlockSyntax(head, given, tuple(statements), place))

    @contextmanager
    def loop(
        self, name: str, index: str, start: Dim, end: Dim, *, hints: Mapping[str, Given] = _NONE
    ) -> Generator[Ref]:
        """Put the statements called inside of ``with`` into a loop over ``start`` (included) to ``end`` (excluded)."""
        place = self._sites.here()
        first, last = dims_of((start, end))
        with self._inside() as statements:
            yield Ref(name_of(index))
        self._add(LoopStatement(name_of(name), index, first, last, tuple(statements)), hints, place)

    @contextmanager
    def scope(self, name: str, *, hints: Mapping[str, Given] = _NONE) -> Generator[None]:
        """Label the statements called inside of ``with``."""
        label = string_of(name, "the name of a scope")
        place = self._sites.here()
        with self._inside() as statements:
            yield
        self._add(ScopeStatement(label, tuple(statements)), hints, place)

    @contextmanager
    def _inside(self) -> Generator[list[Statement]]:
        statements: list[Statement] = []
        self._open.append(statements)
        try:
            yield statements
        finally:
            self._open.pop()

    def _add(self, body: Body, hints: Mapping[str, Given] = _NONE, place: Place | None = None) -> None:
        here = place if place is not None else self._sites.here()
        if not self._open:
            raise GraphError("statements are added inside a block: `with builder.block(name): …`")
        self._open[-1].append(Statement(body, settings_of(hints, here), here))

    # Statements

    def assign(self, name: str, dtype: str | DType, dims: Sequence[Dim] = ()) -> Ref:
        """Declare a temporary, filled with zeros."""
        place = self._sites.here()
        self._add(AssignStatement(name_of(name), word(dtype, place), dims_of(dims)), place=place)
        return Ref(name)

    def op(
        self,
        op: str,
        *inputs: str | Ref | float,
        outputs: str | Ref | Sequence[str | Ref],
        settings: Mapping[str, Given] = _NONE,
        hints: Mapping[str, Given] = _NONE,
    ) -> None:
        """Call an operator; an input is a variable, an entry of a prefix table, or a number."""
        place = self._sites.here()
        named = settings_of(settings, place)
        targets = (outputs,) if isinstance(outputs, str | Ref) else outputs
        arguments = (*((operand(value, place), place) for value in inputs), *named)
        self._add(OpStatement(name_of(op), arguments, tuple(map(target, targets))), hints, place)

    def transfer(self, source: str | Ref, to: str | Ref, *, hints: Mapping[str, Given] = _NONE) -> None:
        """Copy a value."""
        self._add(Transfer(reference(source), target(to)), hints)

    def cache_read(self, source: str | Ref, to: str | Ref, *, hints: Mapping[str, Given] = _NONE) -> None:
        """Read persistent memory, such as ``K[l, 0..step]``."""
        self._add(CacheRead(access(source), target(to)), hints)

    def cache_write(self, source: str | Ref, to: str | Ref, *, hints: Mapping[str, Given] = _NONE) -> None:
        """Write persistent memory, such as ``K[l, step]``."""
        self._add(CacheWrite(reference(source), access(to)), hints)

    def cache_increment(self, name: str | Ref, amount: Dim = 1, *, hints: Mapping[str, Given] = _NONE) -> None:
        """Add to a persistent scalar."""
        self._add(CacheIncrement(target(name), expression(amount)), hints)

    def cache_decrement(self, name: str | Ref, amount: Dim = 1, *, hints: Mapping[str, Given] = _NONE) -> None:
        """Subtract from a persistent scalar."""
        self._add(CacheDecrement(target(name), expression(amount)), hints)

    def cache_reset(self, name: str | Ref, *, hints: Mapping[str, Given] = _NONE) -> None:
        """Give persistent memory its initial value again."""
        self._add(CacheReset(access(name)), hints)

    def branch(self, block: str) -> None:
        """Call a block."""
        self._add(Branch(name_of(block)))

    def branch_if(self, condition: str | Ref, then_block: str, else_block: str) -> None:
        """Call one of two blocks."""
        self._add(Branch(name_of(then_block), target(condition), name_of(else_block)))

    def barrier(self) -> None:
        """Let no statement move across this place."""
        self._add(Barrier())

    def dep(self, *, after: str, before: str) -> None:
        """Order two statements that share no data; targets as in text, such as ``cache.write``."""
        for dotted in (after, before):
            for part in dotted.split(".", 1):
                name_of(part)
        self._add(Dep(after, before))

    def yield_(self, *names: str | Ref) -> None:
        """Hand variables over."""
        self._add(Yield(names_of(names, "yield")))

    def await_(self, *names: str | Ref) -> None:
        """Wait for variables."""
        self._add(Await(names_of(names, "await")))

    def return_(self, *names: str | Ref) -> None:
        """Leave the block; in ``entry`` the names are the results of the step."""
        self._add(Return(tuple(map(target, names))))
