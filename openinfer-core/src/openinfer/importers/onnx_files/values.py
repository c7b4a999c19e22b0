"""Values and statements of a program that is being made: names come last, shapes may be symbolic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from openinfer.dims import Size
from openinfer.dtypes import I64, DType
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.source import Payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from openinfer.dims import Space
    from openinfer.importers.onnx_files.source import Array

MOST_ELEMENTS = 4096
"""Elements of the largest tensor of integers that takes part in shape arithmetic."""


@dataclass(slots=True, eq=False)
class Value:
    """A tensor.

    Attributes:
        name: what the model calls it; a hint where several values have one.
        payload: its numbers, where they are known at import.
        elements: its integers in row-major order, where they are known up to sizes.
    """

    name: str
    dtype: DType
    dims: tuple[Size, ...]
    payload: Payload | None = None
    elements: tuple[Size, ...] | None = None

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Its extents where all are numbers."""
        numbers = tuple(dim for dim in self.dims if is_number(dim))
        return numbers if len(numbers) == len(self.dims) else None

    @property
    def is_known(self) -> bool:
        """Whether its numbers are known at import."""
        return self.payload is not None

    def array(self) -> Array:
        """Return its numbers, which have to be known."""
        return self.known.load()

    @property
    def known(self) -> Payload:
        """Its numbers, which have to be known at import."""
        if self.payload is None:
            raise ValueError(f"the numbers of {self.name!r} are not known")
        return self.payload

    def integers(self) -> tuple[Size, ...] | None:
        """Return its integers in row-major order, where they are known up to sizes and few."""
        if self.elements is not None:
            return self.elements
        if self.payload is None or self.payload.count > MOST_ELEMENTS or self.dtype.is_float:
            return None
        return tuple(int(element) for element in self.array().reshape(-1))


Setting: TypeAlias = "bool | float | str | DType | Size | Value | tuple[float | Size, ...]"
"""A setting of an operator; a `Value` is a scalar that is read when the operator runs."""


@dataclass(slots=True, eq=False)
class Call:
    """An operator applied to values.

    Attributes:
        inputs: by position of the schema; None for an optional one left out.
        declared: whether types of the outputs come from their declaration.
        stage: what the model calls the part that this belongs to.
    """

    op: str
    inputs: tuple[Value | None, ...]
    settings: dict[str, Setting]
    outputs: tuple[Value, ...]
    declared: bool = False
    stage: str = ""

    def reads(self) -> Iterator[Value]:
        """Yield every value that it reads."""
        yield from (value for value in self.inputs if value is not None)
        yield from (value for value in self.settings.values() if isinstance(value, Value))

    def remap(self, of: Callable[[Value], Value]) -> None:
        """Replace values that it reads."""
        self.inputs = tuple(None if value is None else of(value) for value in self.inputs)
        self.settings = {name: of(v) if isinstance(v, Value) else v for name, v in self.settings.items()}


@dataclass(slots=True, eq=False)
class Cache(Value):
    """What a cache holds before a step.

    Attributes:
        axis: the dim that grows.
        length: the size that is its length.
    """

    axis: int = 0
    length: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """How much the caches of one size hold.

    Attributes:
        value: that number as a value that calls may read.
        step: how much a step adds.
    """

    value: Value
    step: Size


@dataclass(slots=True, eq=False)
class Program:
    """Everything that is printed.

    Attributes:
        inputs: with the names that the model gives them.
        outputs: likewise; the value may be an input or known.
        sizes: size variables with the least values at which the program is legal.
        space: what is known of them.
        origins: size variables that represent symbolic dimensions, with what the model calls these.
        indices: names of the indices of loops.
        states: inputs that keep their values, with what the model calls the output and the value that they have next.
        caches: inputs that a step appends to, with what the model calls the output.
        counters: how much caches hold, by the size that says it.
        counts: numbers of rows that operators count, by the size that they are.
        own_extents: sizes of inputs that have to fit what caches hold.
        recognised: calls that patterns of others became, by operator.
        notes: what a reader should know about results, one sentence each.
        initial: what states hold before the first step, by their names, of those that do not start with zeros.
        internal: names of outputs that are the next values of states only, and no results.
    """

    name: str
    inputs: list[Value]
    outputs: list[tuple[str, Value]]
    calls: list[Call]
    sizes: dict[str, int]
    space: Space
    origins: dict[str, str] = field(default_factory=dict[str, str])
    indices: list[str] = field(default_factory=list[str])
    states: list[tuple[Value, str, Value]] = field(default_factory=list[tuple[Value, str, Value]])
    caches: list[tuple[Cache, str]] = field(default_factory=list[tuple[Cache, str]])
    counters: dict[str, Counter] = field(default_factory=dict[str, Counter])
    counts: dict[str, Value] = field(default_factory=dict[str, Value])
    own_extents: list[str] = field(default_factory=list[str])
    recognised: dict[str, int] = field(default_factory=dict[str, int])
    notes: list[str] = field(default_factory=list[str])
    initial: dict[str, Payload] = field(default_factory=dict[str, Payload])
    internal: set[str] = field(default_factory=set[str])


def known(array: Array, dtype: DType, name: str = "") -> Value:
    """Return a value whose numbers are known."""
    held = np.ascontiguousarray(array).reshape(array.shape)
    return Value(name, dtype, held.shape, Payload(dtype, held.shape, lambda: held))


def of_elements(elements: Sequence[Size], shape: tuple[int, ...], dtype: DType = I64) -> Value:
    """Return a value of integers that are known up to sizes, as numbers where all are."""
    if not all(map(is_number, elements)):
        return Value("", dtype, shape, elements=tuple(elements))
    from openinfer.array_types import storage_dtype

    return known(np.array(elements, np.int64).astype(storage_dtype(dtype)).reshape(shape), dtype)


def index_of(value: Value, indices: Sequence[str]) -> str | None:
    """Return the index of a loop that a value is, of those given; None where it is another value."""
    if value.dims or value.dtype is not I64 or value.elements is None or len(value.elements) != 1:
        return None
    name = str(value.elements[0])
    return name if name in indices else None


def renamed(value: Value, name: str) -> Value:
    """Return a known value under another name."""
    return replace(value, name=name)
