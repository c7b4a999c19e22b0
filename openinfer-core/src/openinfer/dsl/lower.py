"""Phase B: from the syntax tree to the graph; names become element types, literals are rounded, nodes get numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from openinfer.diagnostics import Diagnostic, Related, in_source_order
from openinfer.dsl.declarations import lower_declaration
from openinfer.dsl.gaps import doubts_of
from openinfer.dsl.numbering import Numbering
from openinfer.dsl.positions import Positions
from openinfer.dsl.syntax import (
    AssignStatement,
    LoopStatement,
    OpStatement,
    ScopeStatement,
    Setting,
)
from openinfer.dsl.value_lowering import ValueLowering
from openinfer.ir.graph import Block, Graph, VarDecl
from openinfer.ir.language import CARRIES_HINTS
from openinfer.ir.nodes import Assign, Loop, Node, NodeKind, Op
from openinfer.ir.temporaries import assigned_names
from openinfer.ir.values import Attrs, Ref

if TYPE_CHECKING:
    from openinfer.dsl.syntax import BlockSyntax, Program, Statement, Word
    from openinfer.dsl.value_lowering import Spans
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
    return _Lowering(program, positions or Positions(program.source)).run()


class _Lowering:
    """One program on its way to a graph, with the findings so far."""

    def __init__(self, program: Program, positions: Spans) -> None:
        self._values = ValueLowering(positions)
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
            warnings=in_source_order([*self._program.warnings, *self._values.warnings]),
        )
        return Lowered(graph, in_source_order(self._values.errors), self._doubts(graph))

    def _doubts(self, graph: Graph) -> Doubts:
        unread = doubts_of(self._program.gaps, graph.vars.keys() | assigned_names(graph))
        return replace(unread, names=unread.names | self._doubted_names, nodes=unread.nodes | self._doubted_nodes)

    def _declarations(self) -> dict[str, VarDecl]:
        """Return the declarations by name, but for names that are declared in two ways: which is meant is not known."""
        declarations: dict[str, VarDecl] = {}
        ambiguous: set[str] = set()
        for written in self._program.declarations:
            before = len(self._values.errors)
            declaration = lower_declaration(self._values, written)
            earlier = declarations.setdefault(declaration.name, declaration)
            if earlier is not declaration:
                self._duplicate("duplicate-name", "variable", written.name, earlier)
            if earlier != declaration:
                ambiguous.add(declaration.name)
            if len(self._values.errors) > before:
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

    def _duplicate(self, code: str, what: str, name: Word, earlier: VarDecl | Block) -> None:
        related = (Related("declared here first", earlier.span),) if earlier.span is not None else ()
        message = f"{what} `{name.text}` is declared twice"
        span = self._values.positions.of(name.place)
        self._values.errors.append(Diagnostic(code=code, message=message, span=span, related=related))

    def _block(self, written: BlockSyntax) -> Block:
        hints = self._values.hints(written.hints)
        self._numbering.block = written.name.text
        nodes = self._nodes(written.statements, (), Attrs())
        return Block(written.name.text, nodes, hints, self._values.positions.of(written.place))

    def _nodes(self, statements: tuple[Statement, ...], scope: tuple[str, ...], inherited: Attrs) -> tuple[Node, ...]:
        nodes: list[Node] = []
        for statement in statements:
            before = len(self._values.errors)
            hints = Attrs({**inherited, **self._values.hints(statement.hints)})
            if isinstance(statement.body, ScopeStatement):
                nodes += self._nodes(statement.body.body, (*scope, statement.body.name), hints)
                continue
            wrong_hints = len(self._values.errors) > before
            kind = self._kind(statement, scope)
            kept = hints if isinstance(kind, CARRIES_HINTS) else Attrs()
            span = self._values.positions.of(statement.place)
            node = self._numbering.node(kind, kept, scope, span, statement.places)
            nodes.append(node)
            if wrong_hints or (len(self._values.errors) > before and not isinstance(kind, Loop)):
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
            return Assign(body.name, self._values.dtype(body.dtype), body.dims)
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
                self._values.error(
                    "positional-after-setting", message, argument[1], "move this input in front of the settings"
                )
            inputs.append(argument[0])
        return Op(body.op, tuple(inputs), body.outputs, self._values.settings(settings, "duplicate-setting"))
