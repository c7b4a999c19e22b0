"""Where values, weights and numbers lie: buffers of an instance, and offsets in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import SynthesisError
from openinfer.plan.values import (
    ArenaMemory,
    InputMemory,
    NoMemory,
    OutputMemory,
    StateMemory,
    ViewMemory,
    WeightMemory,
)
from openinfer.scalars import converted, repeated_code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import Memory
    from openinfer.scalars import Scalar

ALIGNMENT = 64
"""Bytes that places are multiples of: most that devices ask of what a kernel is given (``OPENINFER_OFFSET``)."""

ARENA, WEIGHTS, STATE, INPUTS, OUTPUTS, GIVEN, RESULTS, SCRATCH, HOST = (
    "arena",
    "weights",
    "state",
    "inputs",
    "outputs",
    "given",
    "results",
    "scratch",
    "host",
)
"""Buffers of an instance: members of the structure. The processor writes ``given`` and reads ``results``."""


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of a buffer, whole words.

    Attributes:
        offset: a number, or C text of one that a table has.
        low, high: the bytes among which they are for certain.
        what: what lies there, for comments.
    """

    buffer: str
    offset: int | str
    nbytes: int
    low: int
    high: int
    what: str

    @property
    def text(self) -> str:
        """The initialiser of a ``struct openinfer_place``."""
        return f"{{&model->{self.buffer}, {self.offset}, {self.nbytes}}}"


def fixed(buffer: str, offset: int, nbytes: int, what: str) -> Place:
    """Return a place whose offset is known, filled up to whole words."""
    size = max(whole(nbytes, 4), 4)
    return Place(buffer, offset, size, offset, offset + size, what)


def whole(nbytes: int, unit: int = ALIGNMENT) -> int:
    """Return a number of bytes rounded up to a multiple of another one."""
    return -(-nbytes // unit) * unit


def _offsets(sizes: Iterable[int]) -> tuple[tuple[int, ...], int]:
    """Return the offset of each part of a buffer, and its size."""
    offsets: list[int] = []
    at = 0
    for size in sizes:
        offsets.append(at)
        at += whole(max(size, 4))
    return tuple(offsets), max(at, ALIGNMENT)


class Places:
    """The places of a plan's memory. Tables that the target computes itself come after the weights.

    Attributes:
        weights, states, inputs, outputs: offsets in their buffers, by number.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self.weights, self._weights_nbytes = _offsets(weight.stored.nbytes for weight in plan.weights)
        self.states, self.state_nbytes = _offsets(state.type.nbytes for state in plan.states)
        self.inputs, self.inputs_nbytes = _offsets(port.type.nbytes for port in plan.inputs)
        self.outputs, self.outputs_nbytes = _offsets(port.type.nbytes for port in plan.outputs)
        self.scratch_nbytes = 0
        self._tables: dict[bytes, int] = {}
        self._known: dict[int, int] = {}

    @property
    def arena_nbytes(self) -> int:
        return whole(max(self._plan.arena_nbytes, 4))

    @property
    def weights_nbytes(self) -> int:
        return self._weights_nbytes + sum(whole(len(data)) for data in self._tables)

    def data(self) -> bytes:
        """Return the contents of the buffer of weights."""
        content = bytearray(self.weights_nbytes)
        for weight, offset in zip(self._plan.weights, self.weights, strict=True):
            content[offset : offset + weight.data.nbytes] = weight.data
        for data, offset in self._tables.items():
            content[offset : offset + len(data)] = data
        return bytes(content)

    def table(self, data: bytes, what: str) -> Place:
        """Return the place of data that comes with the program, once for equal data."""
        if data not in self._tables:
            self._tables[data] = self.weights_nbytes
        return fixed(WEIGHTS, self._tables[data], len(data), what)

    def scratch(self, sizes: Iterable[int]) -> tuple[Place, ...]:
        """Return places that a step works in; other steps have the same ones."""
        wanted = tuple(sizes)
        offsets, nbytes = _offsets(wanted)
        self.scratch_nbytes = max(self.scratch_nbytes, nbytes if wanted else 0)
        pairs = zip(offsets, wanted, strict=True)
        return tuple(fixed(SCRATCH, offset, size, "what a step works in") for offset, size in pairs)

    def weight(self, number: int) -> Place:
        """Return the place of a weight."""
        weight = self._plan.weights[number]
        return fixed(WEIGHTS, self.weights[number], weight.stored.nbytes, f"{weight.source}: {weight.type}")

    def state(self, number: int) -> Place:
        """Return the place of a state."""
        state = self._plan.states[number]
        return fixed(STATE, self.states[number], state.type.nbytes, f"{state.name}: {state.type}")

    def value(self, number: int) -> Place:
        """Return the place of a value; of a view the whole state that it is a part of.

        Raises:
            SynthesisError: it has none.
        """
        value = self._plan.values[number]
        what, nbytes = f"{value.name}: {value.type}", value.stored.nbytes
        match value.memory:
            case ArenaMemory(offset=offset):
                return fixed(ARENA, offset, nbytes, what)
            case WeightMemory(number=of):
                return fixed(WEIGHTS, self.weights[of], nbytes, what)
            case StateMemory(number=of):
                return fixed(STATE, self.states[of], nbytes, what)
            case InputMemory(number=of):
                return fixed(INPUTS, self.inputs[of], nbytes, what)
            case OutputMemory(number=of):
                return fixed(OUTPUTS, self.outputs[of], nbytes, what)
            case ViewMemory(state=of):
                return self.value(of)
            case NoMemory():
                raise SynthesisError(f"value {value.name!r} has no memory in the plan")

    def memory(self, number: int) -> Memory:
        """Return the memory of a value as the plan has it."""
        return self._plan.values[number].memory

    def known(self, number: int) -> int:
        """Return where the host program finds a weight of one element that it reads: an offset in `known_data`."""
        if number not in self._known:
            self._known[number] = ALIGNMENT * len(self._known)
        return self._known[number]

    def known_data(self) -> bytes:
        """Return the weights that the host program reads."""
        content = bytearray(ALIGNMENT * len(self._known))
        for number, offset in self._known.items():
            data = self._plan.weights[number].data
            content[offset : offset + data.nbytes] = data
        return bytes(content)

    def input(self, number: int) -> Place:
        """Return where the host program puts an input."""
        port = self._plan.inputs[number]
        return fixed(GIVEN, self.inputs[number], port.type.nbytes, f"{port.name}: {port.type}")

    def output(self, number: int) -> tuple[Place, Place]:
        """Return where kernels put an output, and where the host program takes it from."""
        port = self._plan.outputs[number]
        what = f"{port.name}: {port.type}"
        made, taken = (fixed(name, self.outputs[number], port.type.nbytes, what) for name in (OUTPUTS, RESULTS))
        return made, taken


def pattern(value: Scalar, kind: TensorType) -> bytes:
    """Return the bytes of an element, or of a byte of packed ones, that fill a tensor."""
    dtype = kind.dtype
    if dtype.is_packed:
        return bytes((repeated_code(dtype, converted(dtype, value)),))
    element = np.array(converted(dtype, value)).astype(storage_dtype(dtype))
    return element.astype(element.dtype.newbyteorder("<")).tobytes()
