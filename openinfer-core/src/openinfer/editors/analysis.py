"""What is wrong with a text, as far as it can be known: every phase up to the first that has errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, did_you_mean
from openinfer.dsl import graph
from openinfer.editors.reading import outline_of
from openinfer.errors import OpenInferError
from openinfer.ir.check import structure_findings
from openinfer.ir.nodes import Op

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.editors.outline import Outline
    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.plugins.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """A text with its outline and findings; ``resolved`` if there is a model and the text fits it."""

    text: str
    outline: Outline
    findings: Sequence[Diagnostic]
    resolved: ResolvedGraph | None = None


def analyse(text: str, environment: Environment, model: Model | None = None) -> Analysis:
    """Return what an editor shows of a text. Without a model, sizes and model names are not checked."""
    outline = outline_of(text)
    try:
        built = graph(text)
        if model is None:
            findings = (*built.warnings, *structure_findings(built), *_unknown_operators(built, environment))
            return Analysis(text=text, outline=outline, findings=findings)
        resolved = _resolved(built, model, environment)
        return Analysis(text=text, outline=outline, findings=resolved.warnings, resolved=resolved)
    except OpenInferError as error:
        found = [finding for finding in error.diagnostics if isinstance(finding, Diagnostic)]
        alone = Diagnostic(code=error.code, message=str(error))
        return Analysis(text=text, outline=outline, findings=found or [alone])


def _resolved(built: Graph, model: Model, environment: Environment) -> ResolvedGraph:
    from openinfer.validate import resolve

    return resolve(built, model, environment=environment)


def _unknown_operators(built: Graph, environment: Environment) -> Iterator[Diagnostic]:
    known = {*environment.ops, *environment.op_aliases}
    for _, node in built.nodes():
        if isinstance(node.kind, Op) and node.kind.op not in known:
            message = f"unknown operator `{node.kind.op}`"
            hint = did_you_mean(node.kind.op, known)
            yield Diagnostic(code="unknown-op", message=message, span=node.span, hint=hint)
