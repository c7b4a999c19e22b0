"""Graph + Model + Environment -> ResolvedGraph, or every finding at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import as_errors, in_source_order, near_or_known
from openinfer.ir.check import check_structure
from openinfer.ir.doubts import NO_DOUBTS
from openinfer.ir.findings import Findings
from openinfer.ir.graph import Graph
from openinfer.ir.resolved import PrefixTable, ResolvedGraph, ResolvedVar
from openinfer.ir.size_notes import SizeNotes
from openinfer.ir.temporaries import assigned_names, undeclared_outputs
from openinfer.ir.uses import place_of_use
from openinfer.model import Model, exact_size
from openinfer.plugins.environment import Environment
from openinfer.validate.caches import varying_names
from openinfer.validate.concurrency import check_concurrency
from openinfer.validate.counted import counted_names
from openinfer.validate.declarations import resolve_declaration
from openinfer.validate.inference import infer_temporaries
from openinfer.validate.kernels import check_kernels
from openinfer.validate.missing_data import check_data
from openinfer.validate.numbers import name_numbers, number_names
from openinfer.validate.scope import Scope
from openinfer.validate.statements import Walk, temporaries
from openinfer.validate.stored_scales import scale_tables, scale_variables
from openinfer.validate.temporaries import check_temporaries

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.temporaries import Undeclared


def resolve(
    graph: Graph,
    model: Model,
    *,
    sizes: Mapping[str, int] | None = None,
    environment: Environment | None = None,
    device: str | None = None,
    placement: bool = False,
    strict: bool = False,
) -> ResolvedGraph:
    """Check a graph against a model and return it with every size, element type and operator known.

    Args:
        sizes: named sizes that take the place of the model's.
        environment: operators and devices; the installed plugins by default.
        device: name of a device that must be able to carry out every operator, or leave it to the device that it falls
            back to; None checks none.
        placement: whether operators run on the devices that hints name; checked where a ``device`` is given.
        strict: whether warnings are errors.

    Raises:
        ValidationError: with every independent finding of phases S and V, in that order and then in source order.
        DeviceError: ``device`` is unknown.
        TypeError: the graph or the model is something else, such as the path of one.
    """
    _check_kinds(graph, model)
    findings = Findings(strict=strict)
    resolved = check_against_model(
        graph, model, findings, sizes=sizes, environment=environment, device=device, placement=placement
    )
    return replace(resolved, warnings=findings.finish())


def _check_kinds(graph: object, model: object) -> None:
    """Raise TypeError early if graph or model has the wrong type."""
    if not isinstance(graph, Graph):
        raise TypeError(
            f"expected a Graph, found {type(graph).__name__}: openinfer.load_graph(path) reads one from a file, "
            "openinfer.graph(text) from program text"
        )
    if not isinstance(model, Model):
        raise TypeError(
            f"expected a Model, found {type(model).__name__}: openinfer.ModelLoader.open(path) opens one, "
            "openinfer.Model.from_arrays(...) makes one"
        )


def check_against_model(
    graph: Graph,
    model: Model,
    findings: Findings,
    *,
    doubts: Doubts = NO_DOUBTS,
    sizes: Mapping[str, int] | None = None,
    environment: Environment | None = None,
    device: str | None = None,
    placement: bool = False,
) -> ResolvedGraph:
    """Record the findings of phases S and V that are not consequences of what is in doubt, phase by phase.

    The graph that is returned is of use only if there are no errors.
    """
    offered = environment or Environment.default()
    doubts = _structure(graph, offered, findings, doubts)
    graph = name_numbers(graph, offered)
    begin = len(findings.items)
    known_sizes = _sizes(model, sizes or {}, findings)
    findings.sizes = SizeNotes(known_sizes, frozenset(sizes or {}))
    undeclared = undeclared_outputs(graph)
    findings.variables = frozenset(graph.vars) | assigned_names(graph) | undeclared.keys()
    scope = _declared(graph, model, known_sizes, offered, findings, doubts, inferable=undeclared.keys())
    walk = Walk(graph, offered, findings, doubts)
    walk.blocks(scope)
    check_temporaries(graph, undeclared, findings, doubts)
    if not doubts.names and not doubts.nodes:
        _check_inferred(undeclared, scope, findings)
    if not doubts.lost and not findings.has_error("missing-entry", "yield-rules", "unknown-block"):
        check_concurrency(graph, findings)
    if not doubts.lost and not findings.has_errors:
        check_data(graph, scope.variables, model, findings)
    placed: dict[int, str] = {}
    if device is not None and not findings.has_error_but("no-data"):
        placed = check_kernels(graph, walk.ops, device, offered, findings, placement=placement)
    findings.items[begin:] = in_source_order(findings.items[begin:])
    return ResolvedGraph(
        graph=graph,
        sizes=known_sizes,
        variables=scope.variables,
        tables=scope.tables,
        ops=walk.ops,
        placed=placed,
    )


def _check_inferred(undeclared: Undeclared, scope: Scope, findings: Findings) -> None:
    """Record temporaries whose first value depends on themselves, where nothing else says why they have no type."""
    if findings.has_errors:
        return
    for name, (block, node) in undeclared.items():
        if name not in scope.variables:
            with findings.at(block, node):
                message = f"temporary `{name}` has no type: what gives it its first value reads it"
                hint = f"declare it in front: `assign {name}: DTYPE[DIMS];`"
                findings.error("cannot-infer", message, place=place_of_use(node, name), hint=hint)


def _structure(graph: Graph, environment: Environment, findings: Findings, doubts: Doubts) -> Doubts:
    """Phase S, and the warnings of the text but for attributes that a plugin understands."""
    structure, doubts = check_structure(graph, doubts)
    warnings = [warning for warning in graph.warnings if not is_understood(warning, environment)]
    findings.items += as_errors(warnings) if findings.strict else warnings
    # A graph that was made with a check carries the warnings of phase S already.
    fresh = [finding for finding in structure if finding not in graph.warnings]
    findings.items += as_errors(fresh) if findings.strict else fresh
    return doubts


def is_understood(warning: Diagnostic, environment: Environment) -> bool:
    """Whether a warning is about an attribute that a plugin understands."""
    return warning.code == "unknown-attr" and warning.name in environment.attributes


def _sizes(model: Model, overrides: Mapping[str, int], findings: Findings) -> dict[str, int]:
    sizes = dict(model.sizevars)
    for name, value in overrides.items():
        exact = exact_size(value)
        if name not in model.sizevars:
            hint = near_or_known(name, model.sizevars, "its size variables")
            findings.error("unknown-sizevar", f"{model.name} has no size variable `{name}` to override", hint=hint)
        elif exact is None or exact < 0:
            findings.error("bad-dim", f"size `{name}` is {value!r}, expected a non-negative integer")
        else:
            sizes[name] = exact
    return sizes


def _declared(
    graph: Graph,
    model: Model,
    sizes: Mapping[str, int],
    environment: Environment,
    findings: Findings,
    doubts: Doubts,
    *,
    inferable: Set[str],
) -> Scope:
    certain = [decl for decl in graph.vars.values() if decl.name not in doubts.names]
    resolved = [resolve_declaration(decl, model, sizes, findings) for decl in certain]
    variables = {variable.name: variable for variable in resolved if isinstance(variable, ResolvedVar)}
    tables = {table.name: table for table in resolved if isinstance(table, PrefixTable)}
    variables |= scale_variables(variables.values(), model)
    tables |= scale_tables(tables.values(), model)
    scope = Scope(
        model=model,
        sizes=sizes,
        variables=variables,
        tables=tables,
        names=findings.variables.union(variables, tables, doubts.names, number_names(graph)),
        inferable=frozenset(inferable) - doubts.names,
        indices={},
    )
    variables |= temporaries(graph, scope, findings, doubts)
    varying = varying_names(graph, variables, sizes) | counted_names(graph, environment)
    shaped = {n: replace(v, varying=True) if n in varying else v for n, v in variables.items()}
    declared = replace(scope, variables=shaped)
    return infer_temporaries(graph, declared, environment, doubts)
