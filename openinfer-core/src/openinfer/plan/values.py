"""Values of a plan: what they are, how they lie in memory, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from openinfer.ir.types import TensorType

if TYPE_CHECKING:
    from openinfer.affine import Index
    from openinfer.layout import Layout
    from openinfer.plan.steps import Register
    from openinfer.scalars import Scalar


class Role(Enum):
    """What a value is to the program."""

    INPUT = "input"
    OUTPUT = "output"
    WEIGHT = "weight"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    STATE = "state"


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
    """Bytes ``offset`` to ``offset + nbytes`` of the arena; values that are never alive together share bytes.

    Attributes:
        bank: number of the memory (`ExecutionPlan.banks`) that holds this part of the arena.
    """

    offset: int
    bank: int = 0


@dataclass(frozen=True, slots=True)
class StateMemory:
    """Memory that keeps its contents between steps: state ``number`` of the program.

    Attributes:
        bank: number of the memory (`ExecutionPlan.banks`) that it lies in; None where the device names none.
        offset: bytes from the start of the states in that memory.
    """

    number: int
    bank: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ViewMemory:
    """Memory of a state, from the element on whose place is in a register."""

    state: int
    register: int


@dataclass(frozen=True, slots=True)
class NoMemory:
    """The value is neither read nor written by any step that is left."""


Memory: TypeAlias = InputMemory | OutputMemory | WeightMemory | ArenaMemory | StateMemory | ViewMemory | NoMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanValue:
    """A variable of the program, or an intermediate result of a decomposed operator.

    Attributes:
        number: position in `ExecutionPlan.values`.
        name: name in the program; intermediate results are ``result.operator``.
        layout: where its elements lie; None: row-major order.
    """

    number: int
    name: str
    type: TensorType
    role: Role
    memory: Memory
    layout: Layout | None = None

    @property
    def stored(self) -> TensorType:
        """The type of its memory: of a value with a layout a row of elements, halo and padding included."""
        return stored_type(self.type, self.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedWeight:
    """Data that comes with the program.

    Attributes:
        number: position in `ExecutionPlan.weights`.
        source: name in the model; for a fill, and for what operators computed, the name of the variable.
        data: little-endian elements in the order of the layout (read-only, maybe a view of the model's file).
        layout: where elements lie in it; None: row-major order.
        ops: operators that computed it when the plan was made; () for data of the model.
    """

    number: int
    source: str
    type: TensorType
    data: memoryview = field(repr=False)
    layout: Layout | None = field(default=None, repr=False)
    ops: tuple[str, ...] = ()

    @property
    def stored(self) -> TensorType:
        """The type of its data."""
        return stored_type(self.type, self.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightTable:
    """A prefix table: weights found by indices.

    Attributes:
        number: position in `ExecutionPlan.tables`.
        name: name in the program.
        type: type of each entry.
        layout: where the elements of each entry lie; None: row-major order.
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
    layout: Layout | None = None

    @property
    def stored(self) -> TensorType:
        """The type of each entry's data."""
        return stored_type(self.type, self.layout)


def stored_type(type: TensorType, layout: Layout | None) -> TensorType:
    """Return the type of the memory of a tensor: with a layout a row of elements, halo and padding included."""
    if layout is None:
        return type
    return TensorType(type.dtype, (layout.size.evaluate({}),))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInput:
    """An input of the program: the value that holds it, and what it is when the caller gives none.

    Attributes:
        type: with the largest shape where sizes differ from step to step.
        extents: numbers and registers that have the shape of a step; None: that of ``type``.
    """

    name: str
    type: TensorType
    value: int
    default: Scalar | None
    needed: bool
    extents: tuple[int | Register, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutput:
    """A result of the program and the value that holds it.

    Attributes:
        type: with the largest shape where the shape is known at run time only.
        extents: numbers and registers that have the shape after a step; None: that of ``type``.
    """

    name: str
    type: TensorType
    value: int
    extents: tuple[int | Register, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRegister:
    """An integer that steps set: an extent of a value, a place in a cache, or how far a cache has grown.

    Attributes:
        number: position in `ExecutionPlan.registers`.
        initial: its value when a step starts, or, if ``is_kept``, before the first one.
        is_kept: whether it keeps its value between steps.
        most: no value is larger.
        size: the size that it is, which the caller gives in every step; None for others.
        extent: what it is of such sizes, a polynomial over their parameters (`openinfer.plan.given_sizes`).
    """

    number: int
    name: str
    initial: int
    is_kept: bool
    most: int
    size: str | None = None
    extent: Index | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """A value that is kept between steps.

    Attributes:
        number: position in `ExecutionPlan.states`.
        name: name in the program.
        value: the value that holds it.
    """

    number: int
    name: str
    type: TensorType
    value: int
