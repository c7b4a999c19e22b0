"""Findings about a program while it is checked: one collector for every phase, and the errors that it ends in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Related, Severity, summary
from openinfer.errors import PluginError, ValidationError
from openinfer.ir.doubts import NO_DOUBTS
from openinfer.ir.places import NOWHERE, place_of_word, span_of
from openinfer.ir.size_notes import SizeNotes
from openinfer.ir.text import node_desc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from openinfer.diagnostics import Span
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.graph import Block, VarDecl
    from openinfer.ir.nodes import Node
    from openinfer.ir.places import Place, Places
    from openinfer.ir.size_notes import Sized


class Findings:
    """Findings in the order in which they were made.

    Attributes:
        strict: whether warnings count as errors.
        items: the findings.
        doubts: what findings of earlier phases leave open.
        faults: failures of plugins, each of which is a finding too.
        sizes: the named sizes, which explain the extents of variables.
        variables: names of the declared variables.
        unknown_sizes: size variables that are missing from the model, each reported once, at its first use.
    """

    def __init__(self, *, strict: bool = False, doubts: Doubts = NO_DOUBTS) -> None:
        self.strict = strict
        self.doubts = doubts
        self.items: list[Diagnostic] = []
        self.faults: list[PluginError] = []
        self.sizes = SizeNotes()
        self.variables: frozenset[str] = frozenset()
        self.unknown_sizes: set[str] = set()
        self._names: set[str] = set()
        self._nodes: set[int] = set()
        self._reported: set[tuple[str, int, str, str, int]] = set()
        self._block: Block | None = None
        self._node: Node | None = None
        self._subject: Callable[[], str] | None = None
        self._described: tuple[Node | None, str] = (None, "")

    # What is being checked

    def at(self, block: Block, node: Node) -> AbstractContextManager[None]:
        """Attribute findings to a node."""
        return _Focus(self, (block, node, self._subject))

    def about(self, subject: Callable[[], str]) -> AbstractContextManager[None]:
        """Have messages of errors begin with what they are about."""
        return _Focus(self, (self._block, self._node, _Subject(subject)))

    @property
    def focus(self) -> tuple[Block | None, Node | None, Callable[[], str] | None]:
        """The block and the node being checked, and what messages begin with."""
        return self._block, self._node, self._subject

    @focus.setter
    def focus(self, focus: tuple[Block | None, Node | None, Callable[[], str] | None]) -> None:
        self._block, self._node, self._subject = focus

    @property
    def places(self) -> Places:
        """The places of the parts of the node being checked."""
        return (self._node.places if self._node is not None else None) or NOWHERE

    def place_of_word(self, word: str, place: Place | None) -> Place | None:
        """Return where a word is in a part of the node being checked."""
        return place_of_word(self._node.span if self._node is not None else None, place, word)

    def span_at(self, place: Place | None) -> Span | None:
        """Return the span of a part of the node being checked, or None where it is unknown."""
        return None if place is None else self._span(None, place)

    # Findings about it

    def error(
        self,
        code: str,
        message: str,
        *,
        span: Span | None = None,
        place: Place | None = None,
        hint: str | None = None,
        decl: VarDecl | None = None,
        related: tuple[Related, ...] = (),
        sized: Iterable[Sized] = (),
        found: Mapping[str, tuple[int | None, ...]] | None = None,
        is_predicate: bool = False,
    ) -> None:
        """Record an error at ``span``, or at a ``place`` inside the node being checked.

        ``is_predicate`` says that the message has what is being checked as its subject, as in ``takes no bool``.
        ``decl`` is shown as another place involved, next to the ``related`` ones; ``sized`` are variables whose extents
        matter: each is shown with the sizes that its extents come from, and with what ``found`` says they are
        elsewhere: shapes by description.
        """
        declared = () if decl is None else declared_at(decl)
        others = (*related, *declared, *self.sizes.on(sized, found or {}))
        if self._subject is not None:
            message = f"{self._subject()}{' ' if is_predicate else ': '}{message}"
        self._add(Diagnostic(code=code, message=message, span=self._span(span, place), hint=hint, related=others))

    def warn(
        self,
        code: str,
        message: str,
        *,
        span: Span | None = None,
        place: Place | None = None,
        hint: str | None = None,
    ) -> None:
        """Record a warning, which strict mode turns into an error."""
        severity = Severity.ERROR if self.strict else Severity.WARNING
        where = self._span(span, place)
        self._add(Diagnostic(code=code, message=message, severity=severity, span=where, hint=hint))

    def fault(self, error: PluginError, place: Place | None = None) -> None:
        """Record that a plugin failed at the node being checked."""
        self.faults.append(error)
        self.error(error.code, str(error), place=place)

    def misfit(
        self, message: str, copied: Iterable[Sized], place: Place | None, *, conversion: str | None = None
    ) -> None:
        """Record a copy between variables of other shapes or, where a ``conversion`` is given, of other dtypes."""
        if conversion is None:
            self.error("shape-mismatch", message, place=place, sized=copied)
            return
        word = {False: "is declared", True: "gets its type"}
        related = tuple(Related(f"`{v.name}` {word[v.inferred]} here", v.span) for v in copied if v.span is not None)
        self.error("output-dtype", message, place=place, related=related, hint=conversion)

    def _span(self, span: Span | None, place: Place | None) -> Span | None:
        return span or (span_of(self._node.span, place) if self._node is not None else None)

    def _add(self, diagnostic: Diagnostic) -> None:
        if self._node is not None and self._block is not None:
            diagnostic = of_node(diagnostic, self._block.name, self._node, self._description(self._node))
        self.items.append(diagnostic)

    # Findings about other parts

    def of_graph(self, code: str, message: str, *, hint: str | None = None) -> None:
        """Record an error about the graph as a whole."""
        self.items.append(Diagnostic(code=code, message=message, hint=hint))

    def of_declaration(
        self, decl: VarDecl, code: str, message: str, *, place: Place | None = None, hint: str | None = None
    ) -> None:
        """Record an error about a declaration, at ``place`` or else at all of it."""
        span = span_of(decl.span, place)
        self._names.add(decl.name)
        self.items.append(Diagnostic(code=code, message=message, span=span, hint=hint, name=decl.name))

    def of_block(self, block: Block, code: str, message: str, *, severity: Severity = Severity.ERROR) -> None:
        """Record a finding about a block."""
        self.items.append(Diagnostic(code=code, message=message, severity=severity, span=block.span, block=block.name))

    def of_node(
        self,
        block: Block,
        node: Node,
        code: str,
        message: str,
        *,
        severity: Severity = Severity.ERROR,
        place: Place | None = None,
        hint: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        """Record a finding about a node, at ``place`` or else at the whole statement; the same one only once."""
        if severity is Severity.ERROR:
            self._nodes.add(node.index)
        where = span_of(node.span, place)
        key = (block.name, node.index, code, message, where.start if where is not None else -1)
        if key in self._reported:
            return
        self._reported.add(key)
        self.items.append(
            Diagnostic(
                code=code,
                message=message,
                severity=severity,
                span=where or node.span,
                hint=hint,
                related=related,
                block=block.name,
                node_index=node.index,
                node_desc=self._description(node),
            )
        )

    def _description(self, node: Node) -> str:
        """Return the description of a node, which is kept: long statements may get many findings."""
        if self._described[0] is not node:
            self._described = node, node_desc(node)
        return self._described[1]

    # What was found

    def doubt(self, name: str) -> None:
        """Exclude an ambiguous name from later checks."""
        self._names.add(name)

    def all_doubts(self) -> Doubts:
        """Return the doubts of earlier phases and those of the errors about declarations and nodes."""
        names, nodes = self.doubts.names | self._names, self.doubts.nodes | self._nodes
        return replace(self.doubts, names=names, nodes=nodes)

    @property
    def has_errors(self) -> bool:
        return self.errors_since(0)

    def has_error(self, *codes: str) -> bool:
        """Whether an error has one of these codes."""
        return any(item.code in codes and item.severity is Severity.ERROR for item in self.items)

    def has_error_but(self, code: str) -> bool:
        """Whether there are errors of another code."""
        return any(item.code != code and item.severity is Severity.ERROR for item in self.items)

    def errors_since(self, count: int) -> bool:
        """Whether there are errors among the findings after the first ``count``."""
        return any(item.severity is Severity.ERROR for item in self.items[count:])

    def finish(self) -> tuple[Diagnostic, ...]:
        """Return the warnings.

        Raises:
            ValidationError: there are errors; all findings are in its diagnostics, errors first.
            PluginError: a plugin failed; with all findings too.
        """
        errors = [item for item in self.items if item.severity is Severity.ERROR]
        warnings = tuple(item for item in self.items if item.severity is Severity.WARNING)
        if self.faults:
            self.faults[0].diagnostics = (*errors, *warnings)
            raise self.faults[0]
        if errors:
            raise ValidationError(summary(errors), diagnostics=(*errors, *warnings))
        return warnings


class _Subject:
    """What messages begin with, made once: long statements may get many findings."""

    __slots__ = ("_made", "_text")

    def __init__(self, made: Callable[[], str]) -> None:
        self._made, self._text = made, ""

    def __call__(self) -> str:
        self._text = self._text or self._made()
        return self._text


class _Focus:
    """What is being checked, for a block of code: several are entered for every statement of a program."""

    __slots__ = ("_before", "_findings", "_focus")

    def __init__(self, findings: Findings, focus: tuple[Block | None, Node | None, Callable[[], str] | None]) -> None:
        self._findings, self._focus = findings, focus

    def __enter__(self) -> None:
        self._before = self._findings.focus
        self._findings.focus = self._focus

    def __exit__(self, *exception: object) -> None:
        self._findings.focus = self._before


def of_node(diagnostic: Diagnostic, block: str, node: Node, desc: str | None = None) -> Diagnostic:
    """Return a finding as one about a node: at its span, where it has none of its own; ``desc`` describes the node."""
    return replace(
        diagnostic,
        span=diagnostic.span or node.span,
        block=block,
        node_index=node.index,
        node_desc=desc or node_desc(node),
    )


def declared_at(decl: VarDecl) -> tuple[Related, ...]:
    """Return the note that points at a declaration."""
    return noted_at(f"`{decl.name}` is declared here", decl.span)


def noted_at(message: str, span: Span | None) -> tuple[Related, ...]:
    """Return the note about another place; none for a graph that came from no text."""
    return (Related(message, span),) if span is not None else ()
