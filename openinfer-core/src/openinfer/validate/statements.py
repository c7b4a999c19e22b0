"""Statements other than operators, and the walk over blocks and loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
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
from openinfer.ir.places import part, span_of
from openinfer.ir.resolved import Filled, ResolvedOp, ResolvedVar, Storage
from openinfer.ir.text import ref_text
from openinfer.ir.uses import reads, writes
from openinfer.ir.values import Ref, StrValue
from openinfer.validate.caches import check_read, check_reset, check_write, persistent
from openinfer.validate.declarations import tensor_type
from openinfer.validate.operators import resolve_op, writable_type
from openinfer.validate.references import are_integers, readable_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.diagnostics import Span
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.values import Attrs
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr
    from openinfer.validate.scope import Scope

MOST_INDICES = 6
"""Most indices of a loop bound whose first and last values are tried, each with each."""


def temporaries(graph: Graph, scope: Scope, findings: Findings, doubts: Doubts) -> dict[str, ResolvedVar]:
    """Return the temporaries of a graph with their sizes known, and record dimensions that cannot be resolved."""
    variables: dict[str, ResolvedVar] = {}
    for block, node in graph.nodes():
        if not isinstance(node.kind, Assign) or node.kind.name in doubts.names or node.index in doubts.nodes:
            continue
        with findings.at(block, node):
            places = [span_of(node.span, place) for place in findings.places.operands]
            type_ = tensor_type(node.kind.dtype, node.kind.dims, scope.sizes, findings, node.span, places)
        if type_ is not None:
            name = node.kind.name
            variables[name] = ResolvedVar(
                name=name,
                storage=Storage.TEMPORARY,
                type=type_,
                initial=Filled(0),
                dims=node.kind.dims,
                span=node.span,
            )
    return variables


@dataclass
class Walk:
    """Checks the statements of a graph and collects the resolved operators."""

    graph: Graph
    environment: Environment
    findings: Findings
    doubts: Doubts
    ops: dict[int, ResolvedOp] = field(default_factory=dict[int, ResolvedOp])

    def blocks(self, scope: Scope) -> None:
        """Check every block: ``entry`` first, then the others by name."""
        for name in sorted(self.graph.blocks, key=lambda n: (n != "entry", n)):
            block = self.graph.blocks[name]
            self._placement(block.hints, block.span)
            self._nodes(block, block.nodes, scope)

    def _nodes(self, block: Block, nodes: Sequence[Node], scope: Scope) -> None:
        pending: list[tuple[Node, Scope]] = [(node, scope) for node in reversed(nodes)]
        while pending:
            node, here = pending.pop()
            with self.findings.at(block, node):
                is_doubted = self._is_doubted(node)
                if not is_doubted:
                    self._node(node, here)
                if isinstance(node.kind, Loop):
                    values = None if is_doubted else self._loop_values(node.kind, here)
                    inner = here.inside_loop(node.kind.index, values)
                    pending += [(child, inner) for child in reversed(node.kind.body)]

    def _is_doubted(self, node: Node) -> bool:
        """Whether something about a statement was reported already, or about what it uses."""
        if node.index in self.doubts.nodes:
            return True
        names = self.doubts.names
        return bool(names) and not (names.isdisjoint(reads(node)) and names.isdisjoint(writes(node)))

    def _node(self, node: Node, scope: Scope) -> None:
        kind = node.kind
        self._placement(node.hints)
        if isinstance(kind, Op):
            resolved = resolve_op(kind, node.index, self.environment, scope, self.findings)
            if resolved is not None:
                self.ops[node.index] = resolved
        elif isinstance(kind, Transfer):
            self._copy(kind.src, kind.dst, scope)
        elif isinstance(kind, Branch):
            self._branch(kind, scope)
        elif isinstance(kind, CacheIncrement | CacheDecrement):
            self._count(kind.target, scope)
            self._amount(kind.amount, scope)
        elif isinstance(kind, CacheRead):
            check_read(kind, scope, self.findings)
        elif isinstance(kind, CacheWrite):
            check_write(kind, scope, self.findings)
        elif isinstance(kind, CacheReset):
            check_reset(kind, scope, self.findings)

    def _placement(self, hints: Attrs, span: Span | None = None) -> None:
        """Check the device that hints name: those of the node being checked, or of a block with its ``span``."""
        wanted = hints.get("placement")
        if isinstance(wanted, StrValue) and wanted.value.partition(":")[0] not in self.environment.devices:
            devices = ", ".join(sorted(self.environment.devices)) or "none"
            message = f"unknown device `{wanted.value}` in `placement`; known: {devices}"
            own = self.findings.places.hints.get("placement")
            self.findings.warn("unknown-placement", message, span=span, place=own[1] if own is not None else None)

    def _loop_values(self, loop: Loop, scope: Scope) -> range | None:
        start, end = (self._bound(number, loop, scope) for number in (0, 1))
        return None if start is None or end is None else range(start, end)

    def _bound(self, number: int, loop: Loop, scope: Scope) -> int | None:
        bound = (loop.start, loop.end)[number]
        what, place = (
            f"bound `{symbolic.text(bound)}` of loop `{loop.name}`",
            part(self.findings.places.operands, number),
        )
        if not are_integers(symbolic.names(bound), what, scope, self.findings, place):
            return None
        others = [name for name in symbolic.names(bound) if not scope.is_size(name)]
        for indices in _ends(others, scope):
            value = self._reached(bound, number, loop, scope, indices)
            if value is None or not others:
                return value
        return None

    def _reached(self, bound: IntExpr, number: int, loop: Loop, scope: Scope, indices: Mapping[str, int]) -> int | None:
        """Return a bound at values of the loops around it; None if it has none or does not fit 64 bits, an error."""
        place = part(self.findings.places.operands, number)
        values = {**scope.sizes, **indices}
        try:
            value = symbolic.evaluate(bound, values.__getitem__)
        except symbolic.DivisionError as error:
            if indices:
                return None
            self.findings.error("bad-division", f"a bound of loop `{loop.name}`: {error}", place=place)
            return None
        if value in symbolic.INT64:
            return value
        where = "".join(f" at {name} = {index}" for name, index in indices.items())
        shown = f"{symbolic.value_text(value)}{where}"
        message = f"bound `{symbolic.text(bound)}` of loop `{loop.name}` is {shown}, which does not fit 64 bits"
        self.findings.error("integer-range", message, place=place)
        return None

    def _copy(self, source: Ref, target: str, scope: Scope) -> None:
        places = self.findings.places
        written = part(places.writes, 0)
        source_type = readable_type(source, scope, self.findings, part(places.reads, 0))
        wanted = writable_type(target, scope, self.findings, written)
        if source_type is None or wanted is None:
            return
        message = f"`{ref_text(source)}` is {source_type}, `{target}` is {wanted}"
        if source_type.dtype is not wanted.dtype:
            hint = f"convert it: `op cast({ref_text(source)}, to={wanted.dtype}) >> {target};`"
            self.findings.misfit(message, scope.declared(source.name, target), written, conversion=hint)
            return
        varying = any(n in scope.variables and scope.variables[n].varying for n in (source.name, target))
        if not varying and source_type.shape != wanted.shape:
            self.findings.misfit(message, scope.declared(source.name, target), written)

    def _branch(self, branch: Branch, scope: Scope) -> None:
        if branch.cond is None:
            return
        place = part(self.findings.places.reads, 0)
        variable = scope.variables.get(branch.cond)
        condition = (
            variable.type if variable is not None else readable_type(Ref(branch.cond), scope, self.findings, place)
        )
        if condition is None:
            return
        decl = variable.decl if variable is not None else None
        if condition.count != 1 or condition.dtype.is_packed or condition.dtype.kind is Kind.TERNARY:
            message = f"condition `{branch.cond}` is {condition}, expected one bool or number"
            self.findings.error("cond-not-scalar", message, place=place, decl=decl)
        elif condition.dtype is not BOOL:
            message = f"condition `{branch.cond}` is {condition.dtype}: any value but zero is true"
            self.findings.warn("cond-not-bool", message, place=place)

    def _amount(self, amount: IntExpr, scope: Scope) -> None:
        """Check what a counter changes by: an integer expression that is not negative."""
        place = part(self.findings.places.operands, 0)
        what = f"amount `{symbolic.text(amount)}`"
        if not are_integers(symbolic.names(amount), what, scope, self.findings, place):
            return
        if any(not scope.is_size(name) for name in symbolic.names(amount)):
            return
        try:
            value = symbolic.evaluate(amount, scope.sizes.__getitem__)
        except symbolic.DivisionError as error:
            self.findings.error("bad-division", f"an amount: {error}", place=place)
            return
        if value < 0 or value not in symbolic.INT64:
            message = f"{what} is {symbolic.value_text(value)}, expected 0 to 2^63-1"
            self.findings.error("integer-range", message, place=place)

    def _count(self, target: str, scope: Scope) -> None:
        place = part(self.findings.places.writes, 0)
        variable = persistent(target, scope, self.findings, place)
        if variable is None:
            return
        dtype = variable.type.dtype
        numeric = (dtype.is_integer or dtype.is_float) and not dtype.is_packed
        if variable.type.shape or not numeric or (variable.decl is not None and variable.decl.formals):
            message = f"`{target}` is {variable.type}, expected a plain scalar of an unpacked number type"
            self.findings.error("dtype-unsupported", message, place=place, decl=variable.decl)


def _ends(names: Sequence[str], scope: Scope) -> Iterator[dict[str, int]]:
    """Yield the first and last values of loop indices, each with each; nothing where one is not known to run."""
    ranges = [scope.indices.get(name) for name in names]
    if len(names) > MOST_INDICES or not all(ranges):
        return
    for values in product(*(sorted({values_of[0], values_of[-1]}) for values_of in ranges if values_of)):
        yield dict(zip(names, values, strict=True))
