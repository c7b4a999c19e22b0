"""The graph with every size, element type and operator known: what simulator and planner read.

A `ResolvedGraph` keeps the `Graph` as written and adds tables, keyed by variable name and node index. It is
plain frozen data: an operator is its canonical name, to be looked up in the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.diagnostics import Diagnostic, Span
    from openinfer.dtypes import DType
    from openinfer.ir.graph import Graph, VarDecl
    from openinfer.ir.types import TensorType
    from openinfer.ir.values import Ref
    from openinfer.scalars import Scalar
    from openinfer.symbolic import IntExpr


class Storage(Enum):
    """Where a variable lives; for the life cycle of each see ``specification: runtime.memory``."""

    DYNAMIC = "dynamic"
    VOLATILE = "volatile"
    CONSTANT = "constant"
    PERSISTENT = "persistent"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class FromTensor:
    """Initial value: the model tensor of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class FromMetadata:
    """Initial value: the model's metadata of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Filled:
    """Initial value: one scalar everywhere (``@init``, or zero)."""

    value: Scalar


Initial: TypeAlias = FromTensor | FromMetadata | Filled


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedVar:
    """A variable or temporary with its sizes known.

    Attributes:
        type: element type and declared shape.
        initial: value at the start of a step (persistent: of the first); None for a dynamic without ``@init``.
        decl: the declaration; None for a temporary.
        dims: extents as written.
        span: place of the declaration or ``assign`` in the text.
        varying: whether ``cache.read``, or an operator on what it read, may give it another shape while a step runs.
        inferred: whether it is a temporary without a declaration; ``span`` is where it is first an output.
    """

    name: str
    storage: Storage
    type: TensorType
    initial: Initial | None
    decl: VarDecl | None = None
    dims: tuple[IntExpr, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    varying: bool = False
    inferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTable:
    """A family of model tensors: ``W(l): f32[D, D] @pattern("W.{l}")``.

    ``initial`` is the value of a listed tensor without data.
    """

    name: str
    storage: Storage
    type: TensorType
    formals: tuple[str, ...]
    pattern: str
    initial: Filled
    decl: VarDecl

    @property
    def dims(self) -> tuple[IntExpr, ...]:
        """Extents of an entry as written."""
        return self.decl.dims

    @property
    def span(self) -> Span | None:
        """Place of the declaration in the text."""
        return self.decl.span

    @property
    def inferred(self) -> bool:
        """False: a family has a declaration."""
        return False

    def tensor_name(self, indices: tuple[int, ...]) -> str:
        """Return the model name of one entry."""
        text = self.pattern
        for formal, index in zip(self.formals, indices, strict=True):
            text = text.replace(f"{{{formal}}}", str(index))
        return text


@dataclass(frozen=True, slots=True)
class RuntimeScalar:
    """A setting whose value is read from a scalar variable when the operator runs."""

    name: str


@dataclass(frozen=True, slots=True)
class RuntimeInts:
    """An integer setting (``exprs`` of length one, ``is_list`` false) or list, evaluated when the operator runs."""

    exprs: tuple[IntExpr, ...]
    is_list: bool


class Computed(int):
    """An integer of a list that a program computes: `reshape` copies a dim where a 0 is written, and not where one is
    computed."""

    __slots__ = ()


def integers_of(exprs: Sequence[IntExpr], numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the values of the expressions of a list, in which a 0 that is computed is `Computed`."""
    return tuple(
        Computed(number) if type(number) is int and number == 0 and not isinstance(expr, Const) else number
        for expr, number in zip(exprs, numbers, strict=True)
    )


SettingValue: TypeAlias = (
    "int | float | bool | str | DType | tuple[int, ...] | tuple[float, ...] | tuple[DType, ...] | None"
)
"""A setting whose value is known."""

UnresolvedSetting: TypeAlias = RuntimeScalar | RuntimeInts


class Mode(Enum):
    """How an operator is executed (``specification: runtime.operators``)."""

    NORMAL = "normal"
    IN_PLACE = "inplace"
    ACCUMULATE = "accumulate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedOp:
    """An ``op`` node with schema rules applied.

    Attributes:
        op: canonical name.
        inputs: one entry per input of the schema, in its order; None for an optional input that was not given.
            Variadic inputs follow in the order written.
        outputs: variables written, in order; trailing ones may be missing.
        input_types, output_types: declared types; for a varying variable the type may differ at run time.
        settings: every setting of the schema with its value, defaults filled in.
        runtime_settings: settings whose values are only known when the node runs; absent from ``settings``.
    """

    op: str
    inputs: tuple[Ref | None, ...]
    outputs: tuple[str, ...]
    input_types: tuple[TensorType | None, ...]
    output_types: tuple[TensorType, ...]
    settings: Mapping[str, SettingValue]
    runtime_settings: Mapping[str, UnresolvedSetting]
    mode: Mode = Mode.NORMAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedGraph:
    """A graph that fits a model, with everything known that can be known before it runs.

    Attributes:
        graph: the program as written.
        sizes: value of every size variable.
        variables: plain variables and temporaries by name (no prefix tables).
        tables: prefix tables by name.
        ops: resolved operators by node index.
        placed: names of devices by node index, for operators that run on another device than the program: where a hint
            says so, or because the program's device does not support them.
        warnings: findings that are not errors.
        refused: why statements do not fit the sizes of a step, by node index: it is refused where it reaches one.
    """

    graph: Graph
    sizes: Mapping[str, int]
    variables: Mapping[str, ResolvedVar]
    tables: Mapping[str, PrefixTable]
    ops: Mapping[int, ResolvedOp]
    placed: Mapping[int, str] = field(default_factory=dict[int, str])
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    refused: Mapping[int, Diagnostic] = field(default_factory=dict[int, "Diagnostic"], compare=False)

    @property
    def integer_scalars(self) -> frozenset[str]:
        """The variables that integer expressions may name: there they come before sizes of the same name."""
        variables = self.variables.values()
        return frozenset(v.name for v in variables if not v.type.shape and not v.type.dtype.is_float)

    def __repr__(self) -> str:
        return f"<ResolvedGraph: {self.graph.counts()}>"
