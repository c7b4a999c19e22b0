"""Graph + Model + Environment -> ResolvedGraph, or every finding at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Severity, did_you_mean
from openinfer.errors import ValidationError
from openinfer.ir.resolved import PrefixTable, ResolvedGraph, ResolvedVar
from openinfer.model import exact_size
from openinfer.plugins.environment import Environment
from openinfer.validate.caches import varying_names
from openinfer.validate.concurrency import check_concurrency
from openinfer.validate.declarations import resolve_declaration
from openinfer.validate.findings import Findings
from openinfer.validate.kernels import check_kernels
from openinfer.validate.scope import Scope
from openinfer.validate.signature import signature_findings
from openinfer.validate.statements import Walk, temporaries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.graph import Graph
    from openinfer.model import Model


def resolve(
    graph: Graph,
    model: Model,
    *,
    sizes: Mapping[str, int] | None = None,
    environment: Environment | None = None,
    device: str | None = None,
    strict: bool = False,
) -> ResolvedGraph:
    """Check a graph against a model and return it with every size, element type and operator known.

    Args:
        sizes: named sizes that take the place of the model's.
        environment: operators and devices; the installed plugins by default.
        device: name of a device that must be able to carry out every operator; None checks none.
        strict: whether warnings are errors.

    Raises:
        ValidationError: with every finding of phases S and V.
        DeviceError: ``device`` is unknown.
    """
    offered = environment or Environment.default()
    findings = Findings(strict)
    _structure(graph, offered, findings)
    known_sizes = _sizes(model, sizes or {}, findings)
    findings.sizes, findings.overridden = known_sizes, frozenset(sizes or {})
    scope = _declared(graph, model, known_sizes, findings)
    walk = Walk(graph, offered, findings)
    walk.blocks(scope)
    check_concurrency(graph, findings)
    if device is not None and not findings.has_errors:
        check_kernels(graph, walk.ops, device, offered, findings)
    return ResolvedGraph(
        graph=graph,
        sizes=known_sizes,
        variables=scope.variables,
        tables=scope.tables,
        ops=walk.ops,
        warnings=findings.finish(),
    )


def _structure(graph: Graph, environment: Environment, findings: Findings) -> None:
    """Phase S, and the warnings of the text but for attributes that a plugin understands."""
    for warning in graph.warnings:
        if not _understood(warning, environment):
            findings.items.append(replace(warning, severity=Severity.ERROR) if findings.strict else warning)
    try:
        findings.items += graph.check(strict=findings.strict)
    except ValidationError as error:
        findings.items += [item for item in error.diagnostics if isinstance(item, Diagnostic)]
        findings.items += signature_findings(graph, environment)
        findings.finish()


def _understood(warning: Diagnostic, environment: Environment) -> bool:
    return warning.code == "unknown-attr" and warning.message.rpartition("@")[2] in environment.attributes


def _sizes(model: Model, overrides: Mapping[str, int], findings: Findings) -> dict[str, int]:
    sizes = dict(model.sizevars)
    for name, value in overrides.items():
        exact = exact_size(value)
        if name not in model.sizevars:
            hint = did_you_mean(name, model.sizevars)
            findings.error("unknown-sizevar", f"{model.name} has no size variable `{name}` to override", hint=hint)
        elif exact is None or exact < 0:
            findings.error("bad-dim", f"size `{name}` is {value!r}, expected a non-negative integer")
        else:
            sizes[name] = exact
    return sizes


def _declared(graph: Graph, model: Model, sizes: Mapping[str, int], findings: Findings) -> Scope:
    resolved = [resolve_declaration(decl, model, sizes, findings) for decl in graph.vars.values()]
    variables = {found.name: found for found in resolved if isinstance(found, ResolvedVar)}
    tables = {found.name: found for found in resolved if isinstance(found, PrefixTable)}
    scope = Scope(model=model, sizes=sizes, variables=variables, tables=tables, indices={})
    variables |= temporaries(graph, scope, findings)
    varying = varying_names(graph, variables, sizes)
    shaped = {n: replace(v, varying=True) if n in varying else v for n, v in variables.items()}
    return replace(scope, variables=shaped)
