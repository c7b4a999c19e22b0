"""Statements other than operators, and the walk over blocks and loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.dtypes import BOOL, Kind
from openinfer.ir.nodes import (
    Assign,
    Branch,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Loop,
    Node,
    Op,
    Transfer,
)
from openinfer.ir.resolved import Filled, ResolvedOp, ResolvedVar, Storage
from openinfer.ir.types import TensorType
from openinfer.ir.values import Ref, StrValue
from openinfer.validate.caches import check_read, check_reset, check_write, persistent
from openinfer.validate.declarations import tensor_type
from openinfer.validate.operators import resolve_op, writable_type
from openinfer.validate.references import readable_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.graph import Block, Graph
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr
    from openinfer.validate.findings import Findings
    from openinfer.validate.scope import Scope


def temporaries(graph: Graph, scope: Scope, findings: Findings) -> dict[str, ResolvedVar]:
    """Return the temporaries of a graph with their sizes known, and record dimensions that cannot be resolved."""
    found: dict[str, ResolvedVar] = {}
    for block, node in graph.nodes():
        if not isinstance(node.kind, Assign):
            continue
        with findings.at(block, node):
            type_ = tensor_type(node.kind.dtype, node.kind.dims, scope.sizes, findings, node.span)
        if type_ is not None:
            name = node.kind.name
            found[name] = ResolvedVar(
                name=name,
                storage=Storage.TEMPORARY,
                type=type_,
                initial=Filled(0),
                dims=node.kind.dims,
                span=node.span,
            )
    return found


@dataclass
class Walk:
    """Checks the statements of a graph and collects the resolved operators."""

    graph: Graph
    environment: Environment
    findings: Findings
    ops: dict[int, ResolvedOp] = field(default_factory=dict[int, ResolvedOp])

    def blocks(self, scope: Scope) -> None:
        """Check every block: ``entry`` first, then the others by name."""
        for name in sorted(self.graph.blocks, key=lambda n: (n != "entry", n)):
            block = self.graph.blocks[name]
            self._nodes(block, block.nodes, scope)

    def _nodes(self, block: Block, nodes: Sequence[Node], scope: Scope) -> None:
        pending: list[tuple[Node, Scope]] = [(node, scope) for node in reversed(nodes)]
        while pending:
            node, here = pending.pop()
            with self.findings.at(block, node):
                self._node(node, here)
                if isinstance(node.kind, Loop):
                    inner = here.inside_loop(node.kind.index, self._loop_values(node.kind, here))
                    pending += [(child, inner) for child in reversed(node.kind.body)]

    def _node(self, node: Node, scope: Scope) -> None:
        kind = node.kind
        self._placement(node)
        if isinstance(kind, Op):
            resolved = resolve_op(kind, self.environment, scope, self.findings)
            if resolved is not None:
                self.ops[node.index] = resolved
        elif isinstance(kind, Transfer):
            self._copy(kind.src, kind.dst, scope)
        elif isinstance(kind, Branch):
            self._branch(kind, scope)
        elif isinstance(kind, CacheIncrement | CacheDecrement):
            self._count(kind.target, scope)
        elif isinstance(kind, CacheRead):
            check_read(kind, scope, self.findings)
        elif isinstance(kind, CacheWrite):
            check_write(kind, scope, self.findings)
        elif isinstance(kind, CacheReset):
            check_reset(kind, scope, self.findings)

    def _placement(self, node: Node) -> None:
        wanted = node.hints.get("placement")
        if isinstance(wanted, StrValue) and wanted.value.partition(":")[0] not in self.environment.devices:
            known = ", ".join(sorted(self.environment.devices)) or "none"
            self.findings.warn("unknown-placement", f"unknown device `{wanted.value}` in `placement`; known: {known}")

    def _loop_values(self, loop: Loop, scope: Scope) -> range | None:
        bounds = [self._bound(bound, loop, scope) for bound in (loop.start, loop.end)]
        start, end = bounds
        return None if start is None or end is None else range(start, end)

    def _bound(self, bound: IntExpr, loop: Loop, scope: Scope) -> int | None:
        for name in symbolic.names(bound):
            problem = scope.integer_problem(name)
            if problem is not None:
                code = "bound-not-scalar" if name in scope.variables else "unknown-variable"
                self.findings.error(code, f"bound `{symbolic.text(bound)}` of loop `{loop.name}`: {problem}")
                return None
        if any(not scope.is_size(name) for name in symbolic.names(bound)):
            return None
        return symbolic.evaluate(bound, scope.sizes.__getitem__)

    def _copy(self, source: Ref, target: str, scope: Scope) -> None:
        given = readable_type(source, scope, self.findings)
        wanted = writable_type(target, scope, self.findings)
        varying = any(n in scope.variables and scope.variables[n].varying for n in (source.name, target))
        if given is not None and wanted is not None:
            self._same(given, wanted, f"`{source.name}`", f"`{target}`", shapes=not varying)

    def _same(self, given: TensorType, wanted: TensorType, source: str, target: str, *, shapes: bool) -> None:
        if given.dtype is not wanted.dtype or (shapes and given.shape != wanted.shape):
            self.findings.error("shape-mismatch", f"{source} is {given}, {target} is {wanted}")

    def _branch(self, branch: Branch, scope: Scope) -> None:
        if branch.cond is None:
            return
        variable = scope.variables.get(branch.cond)
        found = variable.type if variable is not None else readable_type(Ref(branch.cond), scope, self.findings)
        if found is None:
            return
        decl = variable.decl if variable is not None else None
        if found.count != 1 or found.dtype.is_packed or found.dtype.kind is Kind.TERNARY:
            message = f"condition `{branch.cond}` is {found}, expected one bool or number"
            self.findings.error("cond-not-scalar", message, decl=decl)
        elif found.dtype is not BOOL:
            message = f"condition `{branch.cond}` is {found.dtype}: any value but zero is true"
            self.findings.warn("cond-not-bool", message)

    def _count(self, target: str, scope: Scope) -> None:
        variable = persistent(target, scope, self.findings)
        if variable is None:
            return
        dtype = variable.type.dtype
        numeric = (dtype.is_integer or dtype.is_float) and not dtype.is_packed
        if variable.type.shape or not numeric or (variable.decl is not None and variable.decl.formals):
            message = f"`{target}` is {variable.type}, expected a plain scalar of an unpacked number type"
            self.findings.error("dtype-unsupported", message, decl=variable.decl)
