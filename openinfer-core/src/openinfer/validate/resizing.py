"""Programs at the sizes of a step (``specification: runtime.sizes.7``, ``runtime.sizes.8``).

Statements that do not fit the sizes, and that the step may not reach, are left to the step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Severity
from openinfer.ir.findings import Findings, of_node
from openinfer.ir.nodes import Assign, Branch, CacheRead, CacheWrite, Op, Transfer
from openinfer.ir.reaching import reached_nodes
from openinfer.ir.uses import reads, writes
from openinfer.validate.resolve import check_against_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.plugins.environment import Environment

_FIRST = (Op, Transfer, Assign)
"""Statements that are checked before a step begins where it is certain to reach them."""

_TYPED = (*_FIRST, Branch, CacheRead, CacheWrite)
"""Statements that need the types of the variables that they name."""


def resize(
    usual: ResolvedGraph,
    model: Model,
    sizes: Mapping[str, int],
    *,
    environment: Environment,
    device: str | None = None,
    placement: bool = False,
    strict: bool = False,
) -> ResolvedGraph:
    """Return a program at other sizes; statements that do not fit, and may not be reached, are in ``refused``.

    Args:
        usual: the program at the sizes that it was checked with.
        sizes: named sizes that take the place of the model's.
        environment, device, placement, strict: as `openinfer.validate.resolve` takes them.

    Raises:
        ValidationError: declarations do not fit the sizes, or statements that the step is certain to reach.
    """
    findings = Findings(strict=strict)
    resized = check_against_model(
        usual.graph, model, findings, sizes=sizes, environment=environment, device=device, placement=placement
    )
    if not findings.has_errors:
        return replace(resized, warnings=findings.finish())
    refused = _left_to_the_step(usual, resized, findings)
    findings.items = [item for item in findings.items if item.node_index not in refused]
    warnings = findings.finish()
    return replace(
        resized,
        variables={name: resized.variables.get(name, variable) for name, variable in usual.variables.items()},
        ops={number: resized.ops.get(number, op) for number, op in usual.ops.items()},
        placed=usual.placed,
        warnings=warnings,
        refused=refused,
    )


def _left_to_the_step(usual: ResolvedGraph, resized: ResolvedGraph, findings: Findings) -> dict[int, Diagnostic]:
    """Return the first errors of statements that are refused where a step reaches them, by node."""
    reached = reached_nodes(usual.graph, resized.sizes, usual.integer_scalars)
    first = {node.index for _, node in usual.graph.nodes() if isinstance(node.kind, _FIRST)} & reached
    errors: dict[int, Diagnostic] = {}
    for item in findings.items:
        if item.severity is Severity.ERROR and item.node_index is not None:
            errors.setdefault(item.node_index, item)
    untyped = {number: item for number, item in _without_types(usual, resized) if number not in errors}
    return {number: item for number, item in errors.items() if number not in first} | untyped


def _without_types(usual: ResolvedGraph, resized: ResolvedGraph) -> Iterator[tuple[int, Diagnostic]]:
    """Yield the statements on temporaries whose types come from a statement that does not fit."""
    missing = usual.variables.keys() - resized.variables.keys()
    for block, node in usual.graph.nodes():
        names = sorted(missing & (reads(node) | writes(node))) if isinstance(node.kind, _TYPED) else []
        if names:
            message = (
                f"`{names[0]}` has no type, since the statement that gives it one does not fit the sizes of the step"
            )
            yield node.index, of_node(Diagnostic(code="shape-mismatch", message=message), block.name, node)
