"""Collects findings while a graph is resolved, and turns them into one error at the end."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from openinfer import symbolic
from openinfer.diagnostics import Diagnostic, Related, Severity, summary
from openinfer.errors import PluginError, ValidationError
from openinfer.ir.places import NOWHERE, place_of_word, span_of
from openinfer.ir.text import node_desc
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from openinfer.diagnostics import Span
    from openinfer.ir.graph import Block, VarDecl
    from openinfer.ir.nodes import Node
    from openinfer.ir.places import Place, Places
    from openinfer.ir.types import TensorType
    from openinfer.symbolic import IntExpr


class Sized(Protocol):
    """A declaration with its sizes known: a variable, a temporary or a prefix table."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> TensorType: ...
    @property
    def dims(self) -> tuple[IntExpr, ...]: ...
    @property
    def span(self) -> Span | None: ...
    @property
    def inferred(self) -> bool: ...


@dataclass
class Findings:
    """Findings in the order in which they were made; the node being checked is filled in.

    A size variable that is missing from the model is reported once, at its first use: ``unknown_sizes`` are those.
    ``sizes`` and ``overridden`` (those that the caller gave) explain the extents of variables; ``variables`` are
    those declared. ``faults`` are failures of plugins, each of which is a finding too.
    """

    strict: bool
    items: list[Diagnostic] = field(default_factory=list[Diagnostic])
    unknown_sizes: set[str] = field(default_factory=set[str])
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    overridden: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    faults: list[PluginError] = field(default_factory=list[PluginError])
    _block: Block | None = None
    _node: Node | None = None
    _described: str | None = None
    _subject: tuple[str, Callable[[], str]] | None = None

    @contextmanager
    def about(self, name: str, subject: Callable[[], str]) -> Generator[None]:
        """Have messages of errors say what they are about: they begin with it, in place of ``name`` where that is."""
        before, self._subject = self._subject, (name, subject)
        try:
            yield
        finally:
            self._subject = before

    @contextmanager
    def at(self, block: Block, node: Node) -> Generator[None]:
        """Attribute findings to a node."""
        before = self._block, self._node, self._described
        self._block, self._node, self._described = block, node, None
        try:
            yield
        finally:
            self._block, self._node, self._described = before

    @property
    def places(self) -> Places:
        """The places of the parts of the node being checked."""
        return (self._node.places if self._node is not None else None) or NOWHERE

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
    ) -> None:
        """Record an error at ``span``, or at a ``place`` inside the node being checked.

        ``decl`` is shown as another place involved, beside the ``related`` ones; ``sized`` are variables whose extents
        matter: each is shown with the sizes that its extents come from, and with what ``found`` says they are
        elsewhere: shapes by description.
        """
        others = (*related, *_declared(decl), *self._derivations(sized, found or {}))
        message = self._with_subject(message)
        self._add(Diagnostic(code=code, message=message, span=self._span(span, place), hint=hint, related=others))

    def fault(self, error: PluginError, place: Place | None = None) -> None:
        """Record that a plugin failed at the node being checked."""
        self.faults.append(error)
        self.error(error.code, str(error), place=place)

    def _with_subject(self, message: str) -> str:
        if self._subject is None:
            return message
        name, subject = self._subject
        return subject() + message.removeprefix(name) if message.startswith(f"{name} ") else f"{subject()}: {message}"

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

    def place_of_word(self, word: str, place: Place | None) -> Place | None:
        """Return where a word stands in a part of the node being checked."""
        return place_of_word(self._node.span if self._node is not None else None, place, word)

    def span_at(self, place: Place | None) -> Span | None:
        """Return the span of a part of the node being checked, or None where it is unknown."""
        return None if place is None else self._span(None, place)

    def _span(self, span: Span | None, place: Place | None) -> Span | None:
        return span or (span_of(self._node.span, place) if self._node is not None else None)

    def _derivations(self, sized: Iterable[Sized], found: Mapping[str, tuple[int | None, ...]]) -> Iterator[Related]:
        for variable in dict.fromkeys(sized):
            if variable.span is None:
                continue
            names = list(dict.fromkeys(name for dim in variable.dims for name in symbolic.names(dim)))
            values = ", ".join(self._size_note(name, variable, found) for name in names)
            dims = ", ".join(symbolic.text(dim) for dim in variable.dims)
            place = "gets its type here" if variable.inferred else "is declared here"
            note = f"is {variable.type.dtype}[{dims}]: {values}" if names else place
            yield Related(f"`{variable.name}` {note}", variable.span)

    def _size_note(self, name: str, variable: Sized, found: Mapping[str, tuple[int | None, ...]]) -> str:
        """Return a size with where it comes from, and what it would be by other shapes of the same rank."""
        text = self.size_text(name)
        for other, shape in found.items():
            for dim, extent in zip(variable.dims, shape, strict=False):
                is_other = dim == Name(name) and extent is not None and extent != self.sizes[name]
                if is_other and len(shape) == len(variable.dims):
                    return f"{text}, {extent} from {other}"
        return text

    def size_text(self, name: str) -> str:
        """Return the value of a size and where it comes from, such as ``D = 64 from the model``."""
        origin = "the caller" if name in self.overridden else "the model"
        return f"{name} = {self.sizes[name]} from {origin}"

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

    def _add(self, diagnostic: Diagnostic) -> None:
        if self._node is None or self._block is None:
            self.items.append(diagnostic)
            return
        self._described = self._described or node_desc(self._node)
        self.items.append(
            replace(
                diagnostic,
                span=diagnostic.span or self._node.span,
                block=self._block.name,
                node_index=self._node.index,
                node_desc=self._described,
            )
        )

    @property
    def has_errors(self) -> bool:
        return any(item.severity is Severity.ERROR for item in self.items)

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


def _declared(decl: VarDecl | None) -> tuple[Related, ...]:
    if decl is None or decl.span is None:
        return ()
    return (Related(f"`{decl.name}` is declared here", decl.span),)
