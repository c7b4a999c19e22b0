"""Types of undeclared temporaries, inferred from statements (``specification: language.temporaries``).

A statement is taken once everything that it reads has a type, in written order, ``entry`` first; the first one that
yields a name gives it its type. The extents of what is read from memory are known only when the program runs, and so
are those that follow from them.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, cast

from openinfer import symbolic
from openinfer.dims import NeedsNumberError
from openinfer.errors import OpenInferError, PluginError
from openinfer.ir.findings import Findings
from openinfer.ir.nodes import CacheRead, Op, Transfer
from openinfer.ir.places import part, span_of
from openinfer.ir.resolved import Filled, ResolvedVar, RuntimeInts, RuntimeScalar, Storage
from openinfer.ir.temporaries import outputs, undeclared_outputs, with_indices
from openinfer.ir.text import type_text
from openinfer.ir.types import TensorType
from openinfer.ir.uses import reads
from openinfer.ir.values import Number
from openinfer.ops.schema import OpTypeError
from openinfer.symbolic import Const
from openinfer.validate.caches import symbolic_extents
from openinfer.validate.inferred_shapes import Statement, integer_settings, of_numbers, results, supplied
from openinfer.validate.numbers import NumberTypeError, number_constant, number_element, numbers_of
from openinfer.validate.op_inference import DependsOnDeclarationError, inferred_call
from openinfer.validate.settings import SettingError
from openinfer.validate.signature import match_signature
from openinfer.validate.step_sizes import step_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.diagnostics import Span
    from openinfer.dtypes import DType
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, SettingValue, UnresolvedSetting
    from openinfer.ir.values import Ref
    from openinfer.model import Model
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr
    from openinfer.validate.inferred_shapes import Dims, Result
    from openinfer.validate.scope import Scope
    from openinfer.validate.signature import Matched


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


def infer_temporaries(graph: Graph, scope: Scope, environment: Environment, doubts: Doubts) -> Scope:
    """Return a scope with the temporaries whose types follow from what is declared.

    Mistakes are left to the check of statements: the scope says why other temporaries have no type.
    """
    inference = _Inference(graph, scope, environment, doubts)
    inference.run()
    return replace(inference.scope, uninferred=inference.uninferred, matched=inference.matched, calls=inference.calls)


def inferred_types(resolved: ResolvedGraph, model: Model, environment: Environment) -> tuple[InferredType, ...]:
    """Return the temporaries of a program that nothing declares, with extents as expressions of sizes if they are.

    An expression is right in every step, whatever the sizes are that may differ from step to step.
    """
    from openinfer.ir.doubts import NO_DOUBTS
    from openinfer.validate.scope import Scope

    declared = {name: variable for name, variable in resolved.variables.items() if not variable.inferred}
    names = frozenset((*resolved.variables, *resolved.tables))
    scope = Scope(
        model=model,
        sizes=resolved.sizes,
        variables=declared,
        tables=resolved.tables,
        names=names,
        inferable=frozenset(undeclared_outputs(resolved.graph)),
        indices={},
    )
    named = _Named(step_sizes(resolved.graph, model), resolved.variables)
    inference = _Inference(resolved.graph, scope, environment, NO_DOUBTS, named)
    inference.run()
    return tuple(inference.types())


@dataclass(frozen=True, slots=True)
class _Named:
    """What is needed to infer extents as expressions of sizes, where numbers were inferred before.

    Attributes:
        step_sizes: sizes that may differ from step to step.
        variables: what has the numbers.
    """

    step_sizes: frozenset[str]
    variables: Mapping[str, ResolvedVar]

    def rank(self, name: str) -> int | None:
        """Return the number of dims of a variable."""
        variable = self.variables.get(name)
        return None if variable is None else len(variable.type.shape)


@dataclass
class _Inference:
    """One pass over a graph; a statement that reads what has no type yet waits for it.

    Attributes:
        named: whether extents are expressions of sizes; None: they are numbers.
        dims: extents of the temporaries that were inferred.
        uninferred: why outputs have no type.
        matched: signatures by node index.
        calls: by node index, of statements on numbers.
    """

    graph: Graph
    scope: Scope
    environment: Environment
    doubts: Doubts
    named: _Named | None = None
    dims: dict[str, Dims] = field(default_factory=dict[str, "Dims"])
    uninferred: dict[str, OpenInferError] = field(default_factory=dict[str, OpenInferError])
    matched: dict[int, Matched] = field(default_factory=dict[int, "Matched"])
    calls: dict[int, OpCall] = field(default_factory=dict[int, "OpCall"])
    # Mistakes are reported by the check of statements.
    _unread: Findings = field(default_factory=Findings)
    _first: dict[str, tuple[Block, Node]] = field(default_factory=dict[str, "tuple[Block, Node]"])
    _plain_calls: dict[tuple[object, ...], OpCall] = field(default_factory=dict[tuple[object, ...], "OpCall"])
    _waiting: dict[str, list[int]] = field(default_factory=dict[str, "list[int]"])

    def __post_init__(self) -> None:
        # One table that grows: a copy for each statement would take time that grows as the square of their number.
        self._visible = dict(self.scope.variables)
        self.scope = replace(self.scope, variables=self._visible)

    def run(self) -> None:
        """Take every statement once what it reads has a type: in written order, and again from the start."""
        missing = self.scope.inferable
        statements = list(self._statements(missing))
        queue = [(0, number) for number in range(len(statements))]
        while queue:
            turn, number = heappop(queue)
            block, node, indices = statements[number]
            noted = self._take(block, node, indices)
            if noted is None:
                for name in missing & reads(node) - self._visible.keys():
                    self._waiting.setdefault(name, []).append(number)
            for name in noted or ():
                for waiting in self._waiting.pop(name, ()):
                    heappush(queue, (turn if waiting > number else turn + 1, waiting))

    def types(self) -> Iterator[InferredType]:
        for name, (block, node) in self._first.items():
            yield InferredType(name, self._visible[name].type.dtype, tuple(self.dims[name]), block.name, node)

    def _statements(self, missing: Set[str]) -> Iterator[tuple[Block, Node, tuple[str, ...]]]:
        numbered = {node.index for _, node in self.graph.nodes() if any(numbers_of(node))}
        for name in sorted(self.graph.blocks, key=lambda n: (n != "entry", n)) if missing or numbered else ():
            block = self.graph.blocks[name]
            for node, indices in with_indices(block.nodes):
                if node.index in self.doubts.nodes:
                    continue
                if node.index in numbered or not missing.isdisjoint(outputs(node)):
                    yield block, node, indices

    def _take(self, block: Block, node: Node, indices: tuple[str, ...]) -> Sequence[str] | None:
        """Note the types of what a statement yields; return the names, or None where it needs another look."""
        names = outputs(node)
        if all(name in self._visible for name in (*names, *(number.name for number in numbers_of(node)))):
            return ()
        scope = self.scope
        if indices:
            scope = replace(scope, indices={**scope.indices, **dict.fromkeys(indices)})
        results = self._results(node, scope)
        if results is None:
            return None
        noted = [
            (name, dtype, dims)
            for name, (dtype, dims) in zip(names, results, strict=False)
            if name not in self._visible
        ]
        for name, dtype, dims in noted:
            self._note(name, dtype, dims, block, node)
        return [name for name, _, _ in noted]

    def _note(self, name: str, dtype: DType, dims: Dims, block: Block, node: Node) -> None:
        self.dims[name] = dims
        self._first[name] = (block, node)
        # A step starts with nothing in what it reads from memory.
        lookup = self.scope.sizes.__getitem__
        extents = tuple(0 if dim is None else symbolic.evaluate(dim, lookup) for dim in dims)
        self._visible[name] = ResolvedVar(
            name=name,
            storage=Storage.TEMPORARY,
            type=TensorType(dtype, extents),
            initial=Filled(0),
            dims=tuple(map(Const, extents)),
            span=_output_span(node, name),
            varying=None in dims,
            inferred=True,
        )

    # Statements

    def _results(self, node: Node, scope: Scope) -> Sequence[Result] | None:
        match node.kind:
            case Transfer(src):
                kind = scope.type_of(src.name)
                if kind is None:
                    return None
                dims = self._dims_of(src, scope)
                return [(kind.dtype, tuple(map(Const, kind.shape)) if dims is None else dims)]
            case CacheRead(access):
                return self._read(access.base, node.kind, scope)
            case Op():
                return self._op(node.kind, node, scope)
            case _:
                return None

    def _read(self, base: str, read: CacheRead, scope: Scope) -> Sequence[Result] | None:
        source = scope.variables.get(base)
        if source is None or source.storage is not Storage.PERSISTENT:
            return None
        sizes = {name: size for name, size in scope.sizes.items() if scope.is_size(name)}
        return [(source.type.dtype, symbolic_extents(read.src, source, sizes))]

    def _dims_of(self, ref: Ref, scope: Scope) -> Dims | None:
        """Return the extents of an operand as expressions, None where only the running program knows one.

        None: they are the numbers of its type.
        """
        declared = None if ref.name in scope.indices else next(iter(scope.declared(ref.name)), None)
        if isinstance(declared, ResolvedVar) and declared.varying:
            return self.dims.get(ref.name, (None,) * len(declared.type.shape))
        if declared is None or self.named is None:
            return None
        return self.dims.get(ref.name, declared.dims)

    def _op(self, op: Op, node: Node, scope: Scope) -> Sequence[Result] | None:
        matched = match_signature(op, self.environment, self._unread, lambda ref: scope.type_of(ref.name))
        if matched is None:
            return None
        self.matched[node.index] = matched
        try:
            inputs, settings = supplied(matched, scope)
            types = [None if ref is None else scope.type_of(ref.name) for ref in inputs]
            if not self._type_numbers(matched.schema, inputs, types):
                return None
            if any(kind is None and ref is not None for ref, kind in zip(inputs, types, strict=True)):
                return None
            dims = [None if ref is None else self._dims_of(ref, scope) for ref in inputs]
            if self.named is None and not any(dims) and not any(map(_is_late, settings.values())):
                numbers = cast("Mapping[str, SettingValue]", settings)
                call = self.calls[node.index] = self._call(matched.schema, types, numbers, len(op.outputs))
                return of_numbers(call, matched.schema)
            return results(
                Statement(
                    schema=matched.schema,
                    inputs=inputs,
                    types=types,
                    dims=dims,
                    settings=settings,
                    exprs=integer_settings(matched, settings, named=self.named is not None),
                    count=len(op.outputs),
                    scope=scope,
                    step_sizes=self.named.step_sizes if self.named is not None else frozenset(),
                    ranks=[self.named.rank(name) for name in op.outputs] if self.named is not None else (),
                )
            )
        except (DependsOnDeclarationError, NeedsNumberError, OpTypeError, PluginError) as error:
            self.uninferred |= dict.fromkeys(op.outputs, error)
        except SettingError:
            pass
        return None

    def _type_numbers(self, schema: OpSchema, inputs: Sequence[Ref | None], types: list[TensorType | None]) -> bool:
        """Fill in the types of numbers and keep the constants that hold them; False where an input has no type yet."""
        missing = [position for position, ref in enumerate(inputs) if ref is not None and types[position] is None]
        for position in missing:
            number = inputs[position]
            if not isinstance(number, Number) or not all(isinstance(inputs[other], Number) for other in missing):
                return False
            try:
                dtype, element = number_element(position, schema, inputs, types)
            except NumberTypeError:
                return False
            constant = self._visible[number.name] = number_constant(number, dtype, element)
            types[position] = constant.type
        return True

    def _call(
        self,
        schema: OpSchema,
        types: Sequence[TensorType | None],
        settings: Mapping[str, SettingValue],
        count: int,
    ) -> OpCall:
        """Return the call of an operator; those without settings on equal types share one."""
        if settings:
            return inferred_call(schema, types, settings, count)
        key = (schema.name, count, *types)
        call = self._plain_calls.get(key)
        if call is None:
            call = self._plain_calls[key] = inferred_call(schema, types, settings, count)
        return call


def _is_late(value: SettingValue | UnresolvedSetting) -> bool:
    """Whether only the running program knows a setting."""
    return isinstance(value, RuntimeInts | RuntimeScalar)


def _output_span(node: Node, name: str) -> Span | None:
    if node.span is None or node.places is None:
        return node.span
    return span_of(node.span, part(node.places.writes, outputs(node).index(name)))
