"""Collects findings while a graph is resolved, and turns them into one error at the end."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.diagnostics import Diagnostic, Related, Severity, summary
from openinfer.errors import ValidationError
from openinfer.ir.text import node_desc

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from openinfer.diagnostics import Span
    from openinfer.ir.graph import Block, VarDecl
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedVar


@dataclass
class Findings:
    """Findings in the order in which they were made; the node being looked at is filled in.

    A size variable that the model lacks is told once, at its first use: ``unknown_sizes`` are those told. ``sizes`` and
    ``overridden`` (those that the caller gave) explain the extents of variables.
    """

    strict: bool
    items: list[Diagnostic] = field(default_factory=list[Diagnostic])
    unknown_sizes: set[str] = field(default_factory=set[str])
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    overridden: frozenset[str] = frozenset()
    _block: Block | None = None
    _node: Node | None = None

    @contextmanager
    def at(self, block: Block, node: Node) -> Generator[None]:
        """Attribute findings to a node."""
        before = self._block, self._node
        self._block, self._node = block, node
        try:
            yield
        finally:
            self._block, self._node = before

    def error(
        self,
        code: str,
        message: str,
        *,
        span: Span | None = None,
        hint: str | None = None,
        decl: VarDecl | None = None,
        sized: Sequence[ResolvedVar] = (),
    ) -> None:
        """Record an error.

        ``decl`` is shown as the other place involved; ``sized`` are variables whose extents matter: each is shown with
        the sizes that its extents come from.
        """
        related = (*_declared(decl), *self._derivations(sized))
        self._add(Diagnostic(code=code, message=message, span=span, hint=hint, related=related))

    def _derivations(self, sized: Sequence[ResolvedVar]) -> Iterator[Related]:
        for variable in dict.fromkeys(sized):
            if variable.span is None:
                continue
            names = list(dict.fromkeys(name for dim in variable.dims for name in symbolic.names(dim)))
            values = ", ".join(f"{name} = {self.sizes[name]} from {self.origin(name)}" for name in names)
            dims = ", ".join(symbolic.text(dim) for dim in variable.dims)
            told = f"is {variable.type.dtype}[{dims}]: {values}" if names else "is declared here"
            yield Related(f"`{variable.name}` {told}", variable.span)

    def origin(self, name: str) -> str:
        """Return where the value of a size comes from."""
        return "the caller" if name in self.overridden else "the model"

    def warn(self, code: str, message: str, *, span: Span | None = None, hint: str | None = None) -> None:
        """Record a warning, which strict mode turns into an error."""
        severity = Severity.ERROR if self.strict else Severity.WARNING
        self._add(Diagnostic(code=code, message=message, severity=severity, span=span, hint=hint))

    def _add(self, diagnostic: Diagnostic) -> None:
        if self._node is None or self._block is None:
            self.items.append(diagnostic)
            return
        self.items.append(
            replace(
                diagnostic,
                span=diagnostic.span or self._node.span,
                block=self._block.name,
                node_index=self._node.index,
                node_desc=node_desc(self._node),
            )
        )

    @property
    def has_errors(self) -> bool:
        return any(item.severity is Severity.ERROR for item in self.items)

    def errors_since(self, count: int) -> bool:
        """Whether there are errors among the findings after the first ``count``."""
        return any(item.severity is Severity.ERROR for item in self.items[count:])

    def finish(self) -> tuple[Diagnostic, ...]:
        """Return the warnings.

        Raises:
            ValidationError: there are errors; all findings are in its diagnostics, errors first.
        """
        errors = [item for item in self.items if item.severity is Severity.ERROR]
        warnings = tuple(item for item in self.items if item.severity is Severity.WARNING)
        if errors:
            raise ValidationError(summary(errors), diagnostics=(*errors, *warnings))
        return warnings


def _declared(decl: VarDecl | None) -> tuple[Related, ...]:
    if decl is None or decl.span is None:
        return ()
    return (Related(f"`{decl.name}` is declared here", decl.span),)
