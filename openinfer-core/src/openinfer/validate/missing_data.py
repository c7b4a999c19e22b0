"""Weights that are misspelt: volatile variables that hold zeros without data, tensors that nothing links to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Severity, counted, did_you_mean
from openinfer.ir.resolved import FromTensor, Storage
from openinfer.ir.temporaries import outputs
from openinfer.ir.uses import reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedGraph, ResolvedVar
    from openinfer.model import Model

MOST_NAMED = 5
"""Tensors that a note names."""


def check_data(graph: Graph, variables: Mapping[str, ResolvedVar], model: Model, findings: Findings) -> None:
    """Warn of volatile variables that are read, never written, and have neither data of the model nor ``@init``."""
    read = {name for _, node in graph.nodes() for name in reads(node)}
    written = {name for _, node in graph.nodes() for name in outputs(node)}
    for variable in variables.values():
        decl = variable.decl
        if variable.storage is not Storage.VOLATILE or decl is None or decl.init is not None:
            continue
        if isinstance(variable.initial, FromTensor) or variable.name in written or variable.name not in read:
            continue
        name = decl.ref or decl.name
        message = (
            f"volatile `{decl.name}` is read and never written, and {model.name} has no data for it: it holds zeros"
        )
        near = did_you_mean(name, (other for other in model.tensors if other != name))
        hint = near or "a weight belongs to `constant`, which must have a value; write @init(…) where zeros are meant"
        findings.warn("no-data", message, span=decl.span, hint=hint)


def unused_tensors(programs: Iterable[ResolvedGraph], model: Model) -> tuple[Diagnostic, ...]:
    """Return the note about tensors of a model that no declaration of some programs links to; none where all are."""
    linked = {name for program in programs for name in linked_tensors(program, model)}
    # The scales of a quantised tensor belong to it.
    unused = [name for name in model.tensors if name not in linked and name.partition("@")[0] not in linked]
    if not unused:
        return ()
    listed = ", ".join(f"`{name}`" for name in unused[:MOST_NAMED])
    more = f" and {len(unused) - MOST_NAMED} more" if len(unused) > MOST_NAMED else ""
    message = f"{model.name} has {counted(len(unused), 'tensor')} that no declaration links to: {listed}{more}"
    hint = "is the name of a declaration misspelt? @ref and @pattern link one to a tensor of another name"
    return (Diagnostic(code="unused-tensor", message=message, severity=Severity.NOTE, hint=hint),)


def linked_tensors(program: ResolvedGraph, model: Model) -> frozenset[str]:
    """Return the tensors of a model that declarations have the names of, by themselves, ``@ref`` or ``@pattern``."""
    declared = program.graph.vars.values()
    linked = {decl.ref or decl.name for decl in declared if decl.pattern is None}
    for table in program.tables.values():
        pieces = re.split(r"\{[A-Za-z_][A-Za-z0-9_]*\}", table.pattern)
        pattern = re.compile("[0-9]+".join(map(re.escape, pieces)))
        linked.update(name for name in model.tensors if pattern.fullmatch(name))
    return frozenset(linked & model.tensors.keys())
