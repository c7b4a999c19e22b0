"""Values of a plan: what they are, how they lie in memory, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from openinfer.ir.types import TensorType
    from openinfer.scalars import Scalar


class Role(Enum):
    """What a value is to the program."""

    INPUT = "input"
    OUTPUT = "output"
    WEIGHT = "weight"
    CONSTANT = "constant"
    TEMPORARY = "temporary"


class LayoutKind(Enum):
    """Order of a tensor's elements in memory."""

    ROW_MAJOR = "row-major"


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """How the elements of a value lie in memory."""

    kind: LayoutKind = LayoutKind.ROW_MAJOR


@dataclass(frozen=True, slots=True)
class InputMemory:
    """Memory of the caller that is only read: input ``number`` of the program."""

    number: int


@dataclass(frozen=True, slots=True)
class OutputMemory:
    """Memory of the caller that results are written to: output ``number`` of the program."""

    number: int


@dataclass(frozen=True, slots=True)
class WeightMemory:
    """Data that comes with the program and is never written: weight ``number``."""

    number: int


@dataclass(frozen=True, slots=True)
class ArenaMemory:
    """Bytes ``offset`` to ``offset + nbytes`` of the arena; values that are never alive together share bytes."""

    offset: int


@dataclass(frozen=True, slots=True)
class NoMemory:
    """The value is neither read nor written by any step that is left."""


Memory: TypeAlias = InputMemory | OutputMemory | WeightMemory | ArenaMemory | NoMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanValue:
    """A variable of the program, or an intermediate result of a decomposed operator.

    Attributes:
        number: position in `ExecutionPlan.values`.
        name: name in the program; intermediate results are ``result.operator``.
    """

    number: int
    name: str
    type: TensorType
    role: Role
    memory: Memory
    layout: TensorLayout = TensorLayout()


class Packing(Enum):
    """Order in which a weight's elements are stored for the kernels that read it."""

    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedWeight:
    """Data that comes with the program.

    Attributes:
        number: position in `ExecutionPlan.weights`.
        source: name in the model; for a fill the name of the variable.
        data: little-endian elements in row-major order (read-only, maybe a view of the model's file).
    """

    number: int
    source: str
    type: TensorType
    data: memoryview = field(repr=False)
    packing: Packing = Packing.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightTable:
    """A prefix table: weights found by indices.

    Attributes:
        number: position in `ExecutionPlan.tables`.
        name: name in the program.
        type: type of each entry.
        starts, extents: index ``i`` of dimension ``d`` is entry ``i - starts[d]``, below ``extents[d]``.
        entries: numbers of weights in row-major order; None where the model has none.
        fixed: entries that are read by indices written as numbers, with their weights; they need not be in ``entries``.
    """

    number: int
    name: str
    type: TensorType
    starts: tuple[int, ...]
    extents: tuple[int, ...]
    entries: tuple[int | None, ...]
    fixed: tuple[tuple[tuple[int, ...], int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInput:
    """An input of the program: the value that holds it, and what it is when the caller gives none."""

    name: str
    type: TensorType
    value: int
    default: Scalar | None
    needed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutput:
    """A result of the program and the value that holds it."""

    name: str
    type: TensorType
    value: int
