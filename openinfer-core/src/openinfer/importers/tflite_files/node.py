"""An operator with its values, as translators see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.importers.onnx_files.elements import array_type
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Value, known, renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from openinfer.dims import Size
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.emitter import Emitter
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Call, Setting
    from openinfer.importers.tflite_files.image_order import ImageOrder
    from openinfer.importers.tflite_files.source import Operator, Quantisation, Subgraph, Tensor
    from openinfer.importers.tflite_files.variables import Variable, Variables


Translator: TypeAlias = "Callable[[Node], Value | Sequence[Value]]"
"""From an operator to its outputs: the first alone, or each in order."""


class Graph(Protocol):
    """The subgraph that is being translated, as operators with subgraphs or variables see it."""

    @property
    def variables(self) -> Variables: ...

    def subgraph(self, number: int) -> Subgraph:
        """Return a subgraph that operators run."""
        ...

    def run(self, number: int, inputs: Sequence[Value]) -> list[Value]:
        """Return the outputs of a subgraph.

        Raises:
            RefusedSubgraphError: operators of it cannot be translated.
        """
        ...

    def side(self) -> AbstractContextManager[list[Call]]:
        """Put calls into a list of their own, for one side of a branch."""
        ...

    def loop(self) -> AbstractContextManager[None]:
        """Translate the body of a loop."""
        ...

    def kept(self, position: int) -> Variable:
        """Return the variable that a tensor is."""
        ...

    def keep(self, node: Node, variable: Variable, value: Value) -> None:
        """Let a variable have another value from here on."""
        ...

    def initialise(self, number: int) -> None:
        """Run a subgraph that gives variables their first values."""
        ...


class RefusedSubgraphError(Exception):
    """A subgraph whose operators cannot all be translated; what they are has been noted."""


class UnsupportedNodeError(Exception):
    """An operator that cannot be translated, for a reason that its kind, types or options give."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operator.

    Attributes:
        tensors: what the file says of each input; None for one left out.
        results: what it says of each output.
        inputs: a value for each input.
        requantize: how totals become codes, as `ImportOptions` has it.
        graph: the subgraph that it is part of.
    """

    source: Operator
    tensors: tuple[Tensor | None, ...]
    results: tuple[Tensor, ...]
    inputs: tuple[Value | None, ...]
    emit: Emitter
    order: ImageOrder
    requantize: str
    graph: Graph

    @property
    def title(self) -> str:
        """What comments call it."""
        return f"{self.op} {self.results[0].name}" if self.results else self.op

    @property
    def op(self) -> str:
        return self.source.op

    def refuse(self, reason: str) -> NoReturn:
        """Raise `UnsupportedNodeError` for a reason."""
        raise UnsupportedNodeError(reason)

    # Options

    def option(self, name: str, default: Any = 0) -> Any:
        """Return an option by its name in the schema, with a capital letter."""
        return self.source.options.get(name, default)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return an option of an enumeration by its name."""
        number = int(self.option(name))
        if not 0 <= number < len(choices):
            self.refuse(f"{name} is {number}, expected less than {len(choices)}")
        return choices[number]

    # Inputs

    def input(self, position: int) -> Value | None:
        """Return an input, or None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def given(self, position: int) -> Value:
        """Return an input that has to be there."""
        value = self.input(position)
        if value is None:
            self.refuse(f"input {position} is left out")
        return value

    def planes(self, position: int) -> Value:
        """Return an image with channels first."""
        value = self.given(position)
        if value.rank != 4:
            self.refuse(f"input {position} has {value.rank} dims, expected 4")
        return self.order.planes(value)

    def tensor(self, position: int) -> Tensor:
        """Return what the file says of an input that has to be there."""
        tensor = self.tensors[position] if position < len(self.tensors) else None
        if tensor is None:
            self.refuse(f"input {position} is left out")
        return tensor

    def integers(self, position: int) -> tuple[Size, ...]:
        """Return integers that have to be known at import, up to sizes."""
        elements = self.given(position).integers()
        if elements is None:
            self.refuse(f"input {self.tensor(position).name!r} has to be known at import")
        return elements

    def numbers(self, position: int) -> list[int]:
        """Return integers that have to be numbers at import."""
        elements = self.integers(position)
        numbers = [element for element in elements if is_number(element)]
        if len(numbers) != len(elements):
            self.refuse(f"input {self.tensor(position).name!r} depends on sizes: fix them with --set")
        return numbers

    def known_array(self, position: int) -> Array:
        """Return numbers that have to be known at import."""
        value = self.given(position)
        if value.payload is None:
            self.refuse(f"input {self.tensor(position).name!r} has to be known at import")
        return value.array()

    def axis(self, axis: int, rank: int) -> int:
        """Return a dim counted from the beginning."""
        if not -rank <= axis < rank:
            self.refuse(f"dim {axis} of {rank}")
        return axis % rank

    def part(self, value: Value, part: str) -> Value:
        """Return a constant that belongs to this layer named after it, such as ``dense.weight``."""
        stage = self.emit.stage
        return renamed(value, f"{stage}.{part}") if stage and value.payload is not None else value

    # Quantisation

    @property
    def is_quantised(self) -> bool:
        """Whether the first input is integers that stand for reals."""
        return is_quantised(self.tensor(0))

    @property
    def rounding(self) -> str:
        """How totals become codes of the result: "f32", "fixed" or "tflite"; of 16 bits TFLite has fixed point only."""
        tensors = [tensor for tensor in (*self.tensors[:1], *self.results) if tensor is not None]
        is_wide = any(tensor.dtype.bits > 8 for tensor in tensors if is_quantised(tensor))
        return "tflite" if is_wide and self.requantize == "f32" else self.requantize

    def parameters(self, tensor: Tensor) -> Quantisation:
        """Return the scale and zero point of a tensor, one for all of it."""
        parameters = tensor.quantisation
        if parameters is None:
            self.refuse(f"{tensor.name!r} has no scale")
        if parameters.is_per_channel:
            self.refuse(f"{tensor.name!r} has a scale for each channel, expected one")
        return parameters

    # Results

    def call(self, op: str, *inputs: Value | None, **settings: Setting) -> Value:
        """Call an operator and return its first result."""
        return self.emit.op(op, *inputs, **settings)

    def elementwise(self, function: Callable[[Value], Value]) -> Value:
        """Return a function of single elements of the first input, with channels first where it is there so."""
        x = self.given(0)
        return self.order.image(function(self.order.planes(x))) if self.order.has_planes(x) else function(x)

    def pairwise(self, function: Callable[[Value, Value], Value]) -> Value:
        """Return a function of pairs of elements of the first two inputs, which broadcast against one another."""
        a, b = self.given(0), self.given(1)
        if not (self.order.has_planes(a) or self.order.has_planes(b)):
            return function(a, b)
        first, second = self.order.aligned(a), self.order.aligned(b)
        if first is None or second is None:
            return function(a, b)
        return self.order.image(function(first, second))

    def number(self, value: float | bool, dtype: DType) -> Value:
        """Return a constant scalar."""
        return known(np.asarray(value, storage_dtype(dtype)), dtype)

    def constant(self, array: Array, name: str = "") -> Value:
        """Return a constant of an array's type."""
        return known(array, array_type(array), name)


def is_quantised(tensor: Tensor) -> bool:
    """Whether a tensor is integers that stand for reals."""
    return tensor.quantisation is not None and tensor.dtype.is_integer
