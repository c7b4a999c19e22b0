"""Types of undeclared temporaries, inferred from statements (``specification: language.temporaries``).

A statement is taken once everything that it reads has a type, in written order, ``entry`` first; the first one that
yields a name gives it its type. Extents that only the running program knows are names of their own, such as
``K#0``, whose values here are stand-ins.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.ir.findings import Findings
from openinfer.ir.nodes import CacheRead, Op, Transfer
from openinfer.ir.places import part, span_of
from openinfer.ir.resolved import Filled, ResolvedVar, Storage
from openinfer.ir.temporaries import outputs, undeclared_outputs, with_indices
from openinfer.ir.text import type_text
from openinfer.ir.types import TensorType
from openinfer.symbolic import Const, Name
from openinfer.validate.caches import symbolic_extents
from openinfer.validate.op_inference import infer_op
from openinfer.validate.symbolic_shapes import symbolic_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.diagnostics import Span
    from openinfer.dtypes import DType
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.values import Ref
    from openinfer.model import Model
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr
    from openinfer.validate.scope import Scope

STAND_IN = 1
"""The value of an extent that is known only when the program runs."""


@dataclass(frozen=True, slots=True)
class InferredType:
    """The type of a temporary without a declaration, and where it comes from.

    Attributes:
        dims: extents as expressions of sizes; None for what is known only when the program runs.
        block, node: the first statement that yields it.
    """

    name: str
    dtype: DType
    dims: tuple[IntExpr | None, ...]
    block: str
    node: Node

    @property
    def is_known(self) -> bool:
        """Whether every extent is known before the program runs, so that ``assign`` can declare it."""
        return None not in self.dims

    @property
    def span(self) -> Span | None:
        """Place of the name in the statement."""
        return _output_span(self.node, self.name)

    def __str__(self) -> str:
        shown = ", ".join("?" if dim is None else symbolic.text(dim) for dim in self.dims)
        return f"{self.name}: {self.dtype.name}[{shown}]" if self.dims else f"{self.name}: {type_text(self.dtype, ())}"


def infer_temporaries(
    graph: Graph, scope: Scope, environment: Environment, doubts: Doubts
) -> Mapping[str, ResolvedVar]:
    """Return the temporaries whose types follow from what is declared; mistakes are left to the check of statements."""
    inference = _Inference(graph, scope, environment, doubts)
    inference.run()
    return inference.found


def inferred_types(resolved: ResolvedGraph, model: Model, environment: Environment) -> tuple[InferredType, ...]:
    """Return the temporaries of a program that nothing declares, with extents as expressions of sizes if they are."""
    from openinfer.ir.doubts import NO_DOUBTS
    from openinfer.validate.scope import Scope

    declared = {name: found for name, found in resolved.variables.items() if not found.inferred}
    names = frozenset((*resolved.variables, *resolved.tables))
    scope = Scope(
        model=model, sizes=resolved.sizes, variables=declared, tables=resolved.tables, names=names, indices={}
    )
    inference = _Inference(resolved.graph, scope, environment, NO_DOUBTS, symbolic=True)
    inference.run()
    return tuple(inference.types())


@dataclass
class _Inference:
    """One pass over a graph, repeated until it finds nothing more.

    Attributes:
        unknown: extents that only the running program knows, with their stand-ins.
        dims: extents of what was found, as expressions.
    """

    graph: Graph
    scope: Scope
    environment: Environment
    doubts: Doubts
    symbolic: bool = False
    found: dict[str, ResolvedVar] = field(default_factory=dict[str, ResolvedVar])
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    dims: dict[str, tuple[IntExpr, ...]] = field(default_factory=dict[str, "tuple[IntExpr, ...]"])
    _first: dict[str, tuple[Block, Node]] = field(default_factory=dict[str, "tuple[Block, Node]"])

    def run(self) -> None:
        pending = list(self._pending())
        while pending:
            left = [(block, node, indices) for block, node, indices in pending if not self._take(block, node, indices)]
            if len(left) == len(pending):
                return
            pending = left

    def types(self) -> Iterator[InferredType]:
        for name, (block, node) in self._first.items():
            dims = (None if self._is_unknown(dim) else dim for dim in self.dims[name])
            yield InferredType(name, self.found[name].type.dtype, tuple(dims), block.name, node)

    def _pending(self) -> Iterator[tuple[Block, Node, tuple[str, ...]]]:
        missing = undeclared_outputs(self.graph).keys() - self.doubts.names
        for name in sorted(self.graph.blocks, key=lambda n: (n != "entry", n)) if missing else ():
            block = self.graph.blocks[name]
            for node, indices in with_indices(block.nodes):
                if node.index not in self.doubts.nodes and not missing.isdisjoint(outputs(node)):
                    yield block, node, indices

    def _take(self, block: Block, node: Node, indices: tuple[str, ...]) -> bool:
        """Note the types of what a statement yields; return whether it needs no other look."""
        names = outputs(node)
        missing = [name for name in names if name not in self.scope.names or name not in self._visible()]
        if all(name in self._visible() for name in names):
            return True
        scope = replace(self.scope, variables=self._visible(), indices={**self.scope.indices, **dict.fromkeys(indices)})
        results = self._results(node, scope)
        if results is None:
            return False
        for name, (dtype, dims) in zip(names, results, strict=False):
            if name in missing and name not in self.found:
                self._note(name, dtype, dims, block, node)
        return True

    def _visible(self) -> Mapping[str, ResolvedVar]:
        return {**self.scope.variables, **self.found} if self.found else self.scope.variables

    def _note(self, name: str, dtype: DType, dims: Sequence[IntExpr], block: Block, node: Node) -> None:
        sizes = {**self.scope.sizes, **self.unknown}
        extents = tuple(symbolic.evaluate(dim, sizes.__getitem__) for dim in dims)
        self.dims[name] = tuple(dims)
        self._first[name] = (block, node)
        self.found[name] = ResolvedVar(
            name=name,
            storage=Storage.TEMPORARY,
            type=TensorType(dtype, extents),
            initial=Filled(0),
            dims=tuple(
                Const(extent) if self._is_unknown(dim) else dim for dim, extent in zip(dims, extents, strict=True)
            ),
            span=_output_span(node, name),
            varying=any(map(self._is_unknown, dims)),
            inferred=True,
        )

    def _is_unknown(self, dim: IntExpr) -> bool:
        return any(name in self.unknown for name in symbolic.names(dim))

    def _new(self, label: str, stand_in: int = STAND_IN) -> IntExpr:
        name = f"{label}#{len(self.unknown)}"
        self.unknown[name] = stand_in
        return Name(name)

    # Statements

    def _results(self, node: Node, scope: Scope) -> Sequence[tuple[DType, Sequence[IntExpr]]] | None:
        match node.kind:
            case Transfer(src):
                kind = scope.type_of(src.name)
                return None if kind is None else [(kind.dtype, self._dims_of(src, scope))]
            case CacheRead(access):
                return self._read(access.base, node.kind, scope)
            case Op():
                return self._op(node.kind, scope)
            case _:
                return None

    def _read(self, base: str, read: CacheRead, scope: Scope) -> Sequence[tuple[DType, Sequence[IntExpr]]] | None:
        source = scope.variables.get(base)
        if source is None or source.storage is not Storage.PERSISTENT:
            return None
        known = {name: size for name, size in scope.sizes.items() if scope.is_size(name)}
        dims = symbolic_extents(read.src, source, known)
        return [(source.type.dtype, [self._new(base) if dim is None else dim for dim in dims])]

    def _dims_of(self, ref: Ref, scope: Scope) -> Sequence[IntExpr]:
        """Return the extents of an operand as expressions; each of a varying variable is a name of its own."""
        if ref.name in self.dims:
            return self.dims[ref.name]
        if ref.name in scope.indices:
            return ()
        declared = next(iter(scope.declared(ref.name)), None)
        if declared is None:
            return ()
        if isinstance(declared, ResolvedVar) and declared.varying:
            self.dims[ref.name] = tuple(self._new(ref.name, extent) for extent in declared.type.shape)
            return self.dims[ref.name]
        return declared.dims if self.symbolic else tuple(map(Const, declared.type.shape))

    def _op(self, op: Op, scope: Scope) -> Sequence[tuple[DType, Sequence[IntExpr]]] | None:
        findings = Findings()
        inferred = infer_op(op, self.environment, scope, findings)
        if inferred is None:
            return None
        by_input = [None if ref is None else self._dims_of(ref, scope) for ref in inferred.inputs]
        groups = [dims for dims in by_input if dims is not None]
        pseudo = {name: self._new(name) for name in inferred.late_names}
        groups += [
            [_renamed(expr, pseudo) for expr in exprs] for exprs in inferred.setting_exprs if self.symbolic or pseudo
        ]
        base = {**self.scope.sizes, **self.unknown}

        def rule(sizes: Mapping[str, int]) -> Sequence[tuple[int, ...]] | None:
            late_values = {name: sizes[made.name] for name, made in pseudo.items() if isinstance(made, Name)}
            return inferred.shapes(by_input, sizes, late_values)

        shapes = rule(base)
        if shapes is None and pseudo:
            # An index into an extent of 1 has no other value.
            zeros = {made.name: 0 for made in pseudo.values() if isinstance(made, Name)}
            self.unknown.update(zeros)
            base.update(zeros)
            shapes = rule(base)
        if shapes is None:
            return None
        dims = symbolic_shapes(rule, base, shapes, groups)
        hidden = any(self._is_unknown(dim) for group in groups for dim in group)
        known = [self._with_numbers(op.op, *each, hidden=hidden) for each in zip(shapes, dims, strict=True)]
        return list(zip(inferred.dtypes, known, strict=True))

    def _with_numbers(
        self, label: str, shape: Sequence[int], dims: Sequence[IntExpr | None], *, hidden: bool
    ) -> list[IntExpr]:
        """Return extents with numbers for those without an expression, or names where the running program decides."""
        return [
            dim if dim is not None else self._new(label, extent) if hidden else Const(extent)
            for extent, dim in zip(shape, dims, strict=True)
        ]


def _renamed(expr: IntExpr, pseudo: Mapping[str, IntExpr]) -> IntExpr:
    """Return an expression with other names for those that only the running program knows."""
    if isinstance(expr, Name):
        return pseudo.get(expr.name, expr)
    if isinstance(expr, Const):
        return expr
    return replace(expr, left=_renamed(expr.left, pseudo), right=_renamed(expr.right, pseudo))


def _output_span(node: Node, name: str) -> Span | None:
    if node.span is None or node.places is None:
        return node.span
    return span_of(node.span, part(node.places.writes, outputs(node).index(name)))
