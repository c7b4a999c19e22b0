"""Phase B: from the syntax tree to the graph; names become element types, literals are rounded, nodes get numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from openinfer.diagnostics import Diagnostic, Related, Severity, did_you_mean, in_source_order
from openinfer.dsl.declarations import lower_declaration
from openinfer.dsl.gaps import doubts_of
from openinfer.dsl.numbering import Numbering
from openinfer.dsl.positions import Positions
from openinfer.dsl.settings import ListError, attr_value
from openinfer.dsl.syntax import (
    AssignStatement,
    LoopStatement,
    OpStatement,
    Place,
    ScopeStatement,
    Setting,
)
from openinfer.dtypes import BY_NAME, F32, DType
from openinfer.ir.dtype_names import near_dtype
from openinfer.ir.graph import Block, Graph, VarDecl
from openinfer.ir.language import CARRIES_HINTS, KNOWN_HINTS
from openinfer.ir.nodes import Assign, Loop, Node, NodeKind, Op
from openinfer.ir.values import Attrs, AttrValue, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.diagnostics import Span
    from openinfer.dsl.syntax import BlockSyntax, Program, Statement, Word
    from openinfer.ir.doubts import Doubts


@dataclass(frozen=True, slots=True)
class Lowered:
    """The graph of what a program says, with the errors of phase B; warnings are in the graph."""

    graph: Graph
    errors: tuple[Diagnostic, ...]
    doubts: Doubts


def lower(program: Program, positions: Spans | None = None) -> Lowered:
    """Return the graph of a program; a wrong part is left out, or is a placeholder with the parts that are known.

    Places are looked up in ``positions``, or else in the program's source.
    """
    return Lowering(program, positions or Positions(program.source)).run()


class Spans(Protocol):
    """Converts places to spans, if there is a source text to show."""

    def of(self, place: Place) -> Span | None: ...


class Lowering:
    """One program on its way to a graph, with the findings so far."""

    def __init__(self, program: Program, positions: Spans) -> None:
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = list(program.warnings)
        self.positions = positions
        self._program = program
        self._numbering = Numbering()
        self._doubted_names: set[str] = set()
        self._doubted_nodes: set[int] = set()

    def run(self) -> Lowered:
        declarations = self._declarations()
        blocks = self._blocks()
        graph = Graph(
            vars=MappingProxyType(declarations),
            blocks=MappingProxyType(blocks),
            next_index=self._numbering.next_index,
            warnings=in_source_order(self.warnings),
        )
        return Lowered(graph, in_source_order(self.errors), self._doubts())

    def _doubts(self) -> Doubts:
        unread = doubts_of(self._program.gaps)
        return replace(unread, names=unread.names | self._doubted_names, nodes=unread.nodes | self._doubted_nodes)

    def _declarations(self) -> dict[str, VarDecl]:
        """Return the declarations by name, but for names that are declared in two ways: which is meant is not known."""
        declarations: dict[str, VarDecl] = {}
        ambiguous: set[str] = set()
        for written in self._program.declarations:
            before = len(self.errors)
            declaration = lower_declaration(self, written)
            earlier = declarations.setdefault(declaration.name, declaration)
            if earlier is not declaration:
                self._duplicate("duplicate-name", "variable", written.name, earlier)
            if earlier != declaration:
                ambiguous.add(declaration.name)
            if len(self.errors) > before:
                self._doubted_names.add(declaration.name)
        return {name: declaration for name, declaration in declarations.items() if name not in ambiguous}

    def _blocks(self) -> dict[str, Block]:
        blocks: dict[str, Block] = {}
        for written in self._program.blocks:
            block = self._block(written)
            earlier = blocks.setdefault(block.name, block)
            if earlier is not block:
                self._duplicate("duplicate-block", "block", written.name, earlier)
            if earlier is not block or not block.name:
                self._doubted_names |= {node.kind.name for node in block.walk() if isinstance(node.kind, Assign)}
        return {name: block for name, block in blocks.items() if name}

    # Findings

    def error(self, code: str, message: str, place: Place, hint: str | None = None) -> None:
        """Record an error."""
        self.errors.append(Diagnostic(code=code, message=message, span=self.positions.of(place), hint=hint))

    def warn(self, code: str, message: str, place: Place, hint: str | None = None, *, name: str | None = None) -> None:
        """Record a warning; ``name`` is that of what it is about."""
        span = self.positions.of(place)
        found = Diagnostic(code=code, message=message, severity=Severity.WARNING, span=span, hint=hint, name=name)
        self.warnings.append(found)

    def _duplicate(self, code: str, what: str, name: Word, earlier: VarDecl | Block) -> None:
        related = (Related("declared here first", earlier.span),) if earlier.span is not None else ()
        message = f"{what} `{name.text}` is declared twice"
        span = self.positions.of(name.place)
        self.errors.append(Diagnostic(code=code, message=message, span=span, related=related))

    # Values

    def dtype(self, word: Word) -> DType:
        """Return the element type of that name; report an unknown one, and return a placeholder."""
        dtype = BY_NAME.get(word.text)
        if dtype is None:
            self.error("unknown-dtype", f"unknown element type `{word.text}`", word.place, near_dtype(word.text))
        return dtype or F32

    def settings(self, written: Iterable[Setting], duplicate: str) -> Attrs:
        """Return named values in the order written; report duplicates and mixed lists."""
        found: dict[str, AttrValue] = {}
        for setting in written:
            name = cast("Word", setting.name)
            if name.text in found:
                self.error(duplicate, f"`{name.text}` is given twice", name.place)
            value = self.value(setting, name.text)
            if value is not None:
                found.setdefault(name.text, value)
        return Attrs(found)

    def value(self, setting: Setting, name: str | None = None) -> AttrValue | None:
        """Return the value of a setting; report a list that mixes kinds."""
        try:
            return attr_value(setting.value, name)
        except ListError as error:
            self.error("bad-list", str(error), setting.value.place)
            return None

    def hints(self, written: tuple[Setting, ...]) -> Attrs:
        """Return hints; report wrong types of known ones, and warn about unknown ones."""
        hints = self.settings(written, "duplicate-hint")
        for setting in written:
            name = cast("Word", setting.name)
            known = KNOWN_HINTS.get(name.text)
            if known is None:
                self.warn(
                    "unknown-hint", f"unknown hint `{name.text}`", name.place, did_you_mean(name.text, KNOWN_HINTS)
                )
            elif name.text in hints and not isinstance(self.value(setting), known[0]):
                self.error("bad-hint", f"hint `{name.text}` takes {known[1]}", setting.value.place)
        return hints

    # Blocks

    def _block(self, written: BlockSyntax) -> Block:
        hints = self.hints(written.hints)
        self._numbering.block = written.name.text
        nodes = self._nodes(written.statements, (), Attrs())
        return Block(written.name.text, nodes, hints, self.positions.of(written.place))

    def _nodes(self, statements: tuple[Statement, ...], scope: tuple[str, ...], inherited: Attrs) -> tuple[Node, ...]:
        nodes: list[Node] = []
        for statement in statements:
            before = len(self.errors)
            hints = Attrs({**inherited, **self.hints(statement.hints)})
            if isinstance(statement.body, ScopeStatement):
                nodes += self._nodes(statement.body.body, (*scope, statement.body.name), hints)
                continue
            wrong_hints = len(self.errors) > before
            kind = self._kind(statement, scope)
            kept = hints if isinstance(kind, CARRIES_HINTS) else Attrs()
            span = self.positions.of(statement.place)
            node = self._numbering.node(kind, kept, scope, span, statement.places)
            nodes.append(node)
            if wrong_hints or (len(self.errors) > before and not isinstance(kind, Loop)):
                self._doubt(node)
        return tuple(nodes)

    def _doubt(self, node: Node) -> None:
        """Leave out of later checks what a statement with an error says."""
        self._doubted_nodes.add(node.index)
        if isinstance(node.kind, Assign):
            self._doubted_names.add(node.kind.name)

    def _kind(self, statement: Statement, scope: tuple[str, ...]) -> NodeKind:
        body = statement.body
        if isinstance(body, AssignStatement):
            return Assign(body.name, self.dtype(body.dtype), body.dims)
        if isinstance(body, OpStatement):
            return self._op(body)
        if isinstance(body, LoopStatement):
            return Loop(body.name, body.index, body.start, body.end, self._nodes(body.body, scope, Attrs()))
        return cast("NodeKind", body)

    def _op(self, body: OpStatement) -> Op:
        inputs: list[Ref] = []
        settings: list[Setting] = []
        for argument in body.arguments:
            if isinstance(argument, Setting):
                settings.append(argument)
                continue
            if settings:
                message = "positional args must come before settings"
                self.error("positional-after-setting", message, argument[1], "move this input in front of the settings")
            inputs.append(argument[0])
        return Op(body.op, tuple(inputs), body.outputs, self.settings(settings, "duplicate-setting"))
