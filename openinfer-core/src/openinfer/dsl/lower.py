"""Phase B: from the syntax tree to the graph; names become element types, literals are rounded, nodes get numbers."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from openinfer.diagnostics import Diagnostic, Related, Severity, as_errors, did_you_mean, summary
from openinfer.dsl.declarations import lower_declaration
from openinfer.dsl.numbering import Numbering
from openinfer.dsl.positions import Positions
from openinfer.dsl.settings import KNOWN_HINTS, ListError, attr_value
from openinfer.dsl.syntax import (
    AssignStatement,
    LoopStatement,
    OpStatement,
    Place,
    ScopeStatement,
    Setting,
)
from openinfer.dtypes import BY_NAME, DType
from openinfer.errors import GraphError
from openinfer.ir.graph import Block, Graph, VarDecl
from openinfer.ir.nodes import (
    Assign,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Loop,
    Node,
    NodeKind,
    Op,
    Transfer,
)
from openinfer.ir.values import Attrs, AttrValue, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.diagnostics import Span
    from openinfer.dsl.syntax import BlockSyntax, Program, Statement, Word

_CARRIES_HINTS = (Op, Transfer, CacheRead, CacheWrite, CacheIncrement, CacheDecrement, CacheReset, Loop)


def lower(program: Program, *, strict: bool = False, positions: Spans | None = None) -> Graph:
    """Return the graph of a program; warnings are in ``Graph.warnings``.

    Places are looked up in ``positions``, or else in the program's source.

    Raises:
        GraphError: with every error found; in strict mode warnings are errors.
    """
    lowering = Lowering(program, positions or Positions(program.source))
    graph = lowering.run()
    if lowering.errors:
        raise GraphError(summary(lowering.errors), diagnostics=lowering.errors)
    if strict and graph.warnings:
        errors = as_errors(graph.warnings)
        raise GraphError(summary(errors), diagnostics=errors)
    return graph


class Spans(Protocol):
    """Turns places into spans, if there is anything to show."""

    def of(self, place: Place) -> Span | None: ...


class Lowering:
    """One program on its way to a graph, with the findings so far."""

    def __init__(self, program: Program, positions: Spans) -> None:
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = list(program.warnings)
        self.positions = positions
        self._program = program
        self._numbering = Numbering()

    def run(self) -> Graph:
        declarations: dict[str, VarDecl] = {}
        for written in self._program.declarations:
            declaration = lower_declaration(self, written)
            earlier = declarations.get(written.name.text)
            if earlier is not None:
                self._duplicate("duplicate-name", "variable", written.name, earlier)
            elif declaration is not None:
                declarations[declaration.name] = declaration
        blocks: dict[str, Block] = {}
        for written in self._program.blocks:
            block = self._block(written)
            earlier = blocks.setdefault(block.name, block)
            if earlier is not block:
                self._duplicate("duplicate-block", "block", written.name, earlier)
        return Graph(
            vars=MappingProxyType(declarations),
            blocks=MappingProxyType(blocks),
            next_index=self._numbering.next_index,
            warnings=tuple(sorted(self.warnings, key=_offset)),
        )

    # Findings

    def error(self, code: str, message: str, place: Place, hint: str | None = None) -> None:
        """Record an error."""
        self.errors.append(Diagnostic(code=code, message=message, span=self.positions.of(place), hint=hint))

    def warn(self, code: str, message: str, place: Place, hint: str | None = None) -> None:
        """Record a warning."""
        span = self.positions.of(place)
        self.warnings.append(Diagnostic(code=code, message=message, severity=Severity.WARNING, span=span, hint=hint))

    def _duplicate(self, code: str, what: str, name: Word, earlier: VarDecl | Block) -> None:
        related = (Related("declared here first", earlier.span),) if earlier.span is not None else ()
        message = f"{what} `{name.text}` is declared twice"
        span = self.positions.of(name.place)
        self.errors.append(Diagnostic(code=code, message=message, span=span, related=related))

    # Values

    def dtype(self, word: Word) -> DType | None:
        """Return the element type of that name; report an unknown one."""
        dtype = BY_NAME.get(word.text)
        if dtype is None:
            self.error("unknown-dtype", f"unsupported dtype `{word.text}`", word.place, _near_dtype(word.text))
        return dtype

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
            hints = Attrs({**inherited, **self.hints(statement.hints)})
            if isinstance(statement.body, ScopeStatement):
                nodes += self._nodes(statement.body.body, (*scope, statement.body.name), hints)
                continue
            kind = self._kind(statement, scope)
            if kind is not None:
                kept = hints if isinstance(kind, _CARRIES_HINTS) else Attrs()
                span = self.positions.of(statement.place)
                nodes.append(self._numbering.node(kind, kept, scope, span, statement.places))
        return tuple(nodes)

    def _kind(self, statement: Statement, scope: tuple[str, ...]) -> NodeKind | None:
        body = statement.body
        if isinstance(body, AssignStatement):
            dtype = self.dtype(body.dtype)
            return Assign(body.name, dtype, body.dims) if dtype is not None else None
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


def _offset(diagnostic: Diagnostic) -> int:
    return diagnostic.span.start if diagnostic.span is not None else 0


_OTHER_SPELLINGS = {
    "bf16": "bfloat16 bfloat",
    "bool": "boolean logical",
    "f8": "float8 fp8",
    "f16": "float16 fp16 half",
    "f32": "float32 fp32 float single",
    "f64": "float64 fp64 double",
    "i1": "int1",
    "i2": "int2",
    "i4": "int4",
    "i8": "int8 char",
    "i16": "int16 short",
    "i32": "int32 int integer",
    "i64": "int64 long",
    "u1": "uint1",
    "u2": "uint2",
    "u4": "uint4",
    "u8": "uint8 byte",
    "u16": "uint16",
    "u32": "uint32 uint",
    "u64": "uint64 size",
}
"""How other languages and frameworks call the element types; a ``_t`` behind them does not matter."""

_MEANT = {word: name for name, words in _OTHER_SPELLINGS.items() for word in (name, *words.split())}


def _near_dtype(name: str) -> str | None:
    meant = _MEANT.get(name.lower().removesuffix("_t"))
    if meant is not None:
        return f"did you mean `{meant}`?"
    return did_you_mean(name.lower(), BY_NAME) or f"known: {', '.join(dict.fromkeys(d.name for d in BY_NAME.values()))}"
