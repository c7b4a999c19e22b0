"""A node with its values, as translators see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from openinfer.dtypes import F64, I64
from openinfer.importers.onnx_files.elements import array_type, scalar_of
from openinfer.importers.onnx_files.sizes import is_number, names_of
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.onnx_files.values import known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Size
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.emitter import Emitter
    from openinfer.importers.onnx_files.source import Array, SourceNode
    from openinfer.importers.onnx_files.values import Setting, Value


class UnsupportedNodeError(Exception):
    """A node that cannot be translated, for a reason that its operator, types or attributes give."""


class NeedsValueError(Exception):
    """A node of which inputs have to be known at import. ``positions`` are those of the inputs."""

    def __init__(self, node: SourceNode, *positions: int) -> None:
        super().__init__(node.title, *positions)
        self.node = node
        self.positions = positions


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node: attributes, inputs, and the emitter that its translation is written with."""

    source: SourceNode
    inputs: tuple[Value | None, ...]
    emit: Emitter

    @property
    def op(self) -> str:
        return self.source.op

    @property
    def opset(self) -> int:
        return self.source.opset

    # Attributes

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or a default where it is absent."""
        return self.source.attributes.get(name, default)

    def has(self, name: str) -> bool:
        return name in self.source.attributes

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.get(name, int(default)))

    def real(self, name: str, default: float = 0.0) -> float:
        """Return an attribute that is an f32: exactly that where the first input is f64, else the shortest double that
        rounds to it."""
        number, first = np.float32(self.get(name, default)), self.input(0)
        return float(number) if first is not None and first.dtype is F64 else float(str(number))

    def require(self, name: str, *values: Any) -> None:
        """Raise `UnsupportedNodeError` if an attribute is given and has none of these values."""
        if self.has(name) and self.get(name) not in values:
            self.refuse(f"{name}={self.get(name)}, expected {' or '.join(map(str, values))}")

    def refuse_inputs(self, **positions: int) -> None:
        """Raise `UnsupportedNodeError` if one of these inputs is given."""
        for name, position in positions.items():
            if self.input(position) is not None:
                self.refuse(f"the input {name} is not supported")

    def refuse_outputs(self, **positions: int) -> None:
        """Raise `UnsupportedNodeError` if one of these results is read or returned."""
        for name, position in positions.items():
            if self.writes(position):
                self.refuse(f"the output {name} is not supported")

    def writes(self, position: int) -> bool:
        """Whether a result has a name, by which others may read it."""
        return position < len(self.source.outputs) and bool(self.source.outputs[position])

    def refuse(self, reason: str) -> NoReturn:
        """Raise `UnsupportedNodeError` for a reason."""
        raise UnsupportedNodeError(reason)

    def refuse_training(self, what: str) -> NoReturn:
        """Raise `UnsupportedNodeError` for what a node computes in training alone."""
        self.refuse(f"{what}: export the model for inference (in PyTorch, after model.eval())")

    def refuse_sizes(self, what: str, *dims: Size) -> NoReturn:
        """Raise `UnsupportedNodeError` for what has to be a number, with the options that fix its sizes."""
        self.refuse(f"{what} depends on sizes: fix them with {self.emit.dimensions.options(names_of(*dims))}")

    # Inputs

    def input(self, position: int) -> Value | None:
        """Return an input, or None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def given(self, position: int) -> Value:
        """Return an input that has to be there."""
        found = self.input(position)
        if found is None:
            self.refuse(f"input {position} is left out")
        return found

    def known_array(self, position: int) -> Array | None:
        """Return the numbers of an input that has to be known at import; None where it is left out.

        Raises:
            NeedsValueError: they are not known.
        """
        value = self.input(position)
        if value is None:
            return None
        if value.payload is None:
            raise NeedsValueError(self.source, position)
        return value.array()

    def known_scalar(self, position: int) -> int | float | bool | None:
        """Return the one element of an input that has to be known at import; None where it is left out."""
        value, array = self.input(position), self.known_array(position)
        return None if array is None or value is None else scalar_of(array, value.dtype)

    def integers(self, position: int) -> tuple[Size, ...] | None:
        """Return integers that have to be known at import up to sizes; None where the input is left out.

        Raises:
            NeedsValueError: they are not known.
        """
        value = self.input(position)
        if value is None:
            return None
        found = value.integers()
        if found is None:
            raise NeedsValueError(self.source, position)
        return found

    def plain_integers(self, position: int) -> list[int] | None:
        """Return integers that have to be numbers at import; None where the input is left out."""
        found = self.integers(position)
        if found is None:
            return None
        numbers = [element for element in found if is_number(element)]
        if len(numbers) != len(found):
            self.refuse_sizes(f"input {position}", *found)
        return numbers

    def shape(self, position: int) -> tuple[int, ...]:
        """Return the extents of an input, which have to be numbers."""
        found = self.given(position).shape
        if found is None:
            self.refuse_sizes(f"the shape of input {position}", *self.given(position).dims)
        return found

    def tensor_attribute(self, name: str) -> Payload | None:
        """Return a tensor that is an attribute."""
        found = self.get(name)
        return found if isinstance(found, Payload) else None

    # Results

    def call(self, op: str, *inputs: Value | None, **settings: Setting) -> Value:
        """Write a call and return its first result."""
        return self.emit.op(op, *inputs, **settings)

    def number(self, value: float | bool, dtype: DType) -> Value:
        """Return a constant scalar."""
        from openinfer.array_types import storage_dtype

        return known(np.asarray(value, storage_dtype(dtype)), dtype)

    def numbers(self, array: Array) -> Value:
        """Return a constant of an array's type."""
        return known(array, array_type(array))

    def list(self, integers: Sequence[int]) -> Value:
        """Return a constant of 64-bit integers."""
        return known(np.array(integers, np.int64), I64)

    def reshaped(self, value: Value, shape: Sequence[Size]) -> Value:
        """Return a value under another shape."""
        if value.dims == tuple(shape):
            return value
        return self.call("reshape", value, shape=tuple(shape))
