"""What a model keeps from one inference to the next: resource variables, and tensors that are variable."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.diagnostics import shortened
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from openinfer.dims import Size
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.values import Program
    from openinfer.importers.tflite_files.source import Tensor, TfliteModel


MOST_ELEMENTS = 1 << 26
"""Elements of the largest variable."""


@dataclass(slots=True, eq=False)
class Variable:
    """A value that is kept.

    Attributes:
        initial: what it holds before the first inference.
        before: what it holds before an inference, as statements read it.
        now: what it holds at this place of the program.
        is_read: whether `before` is read.
    """

    name: str
    initial: Payload
    before: Value
    now: Value
    is_read: bool = False


@dataclass(slots=True, eq=False)
class Variables:
    """The variables of a model.

    Attributes:
        titles: what they are called, as `variable_names` has it.
    """

    titles: dict[Hashable, str]
    _held: dict[Hashable, Variable] = field(default_factory=dict["Hashable", Variable])
    _names: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def handle(self, container: str, name: str) -> int:
        """Return the number of a resource variable."""
        if (container, name) not in self._names:
            self._names.append((container, name))
        return self._names.index((container, name))

    def resource(self, handle: int, dtype: DType, dims: Sequence[Size]) -> Variable:
        """Return a resource variable by its number; it holds zeros before the first inference.

        Raises:
            ModelImportError: it has another type, or the number is that of none.
        """
        if not 0 <= handle < len(self._names):
            raise _unsupported(f"variable {handle} does not exist")
        return self._variable(self._names[handle], self._names[handle][1], dtype, dims, 0)

    def tensor(self, number: int, position: int, tensor: Tensor) -> Variable:
        """Return the variable that a tensor of a subgraph is; codes of 8 bits stand for zeros first.

        Raises:
            ModelImportError: extents depend on sizes.
        """
        if None in tensor.dims:
            raise _unsupported(f"the variable {shortened(tensor.name)!r} has an open dimension")
        dims = tuple(extent for extent in tensor.dims if extent is not None)
        zero = 0 if tensor.quantisation is None or tensor.dtype.bits != 8 else int(tensor.quantisation.zero[0])
        return self._variable((number, position), tensor.name, tensor.dtype, dims, zero)

    def read(self, variable: Variable) -> Value:
        """Return what a variable holds at this place."""
        variable.is_read |= variable.now is variable.before
        return variable.now

    def finish(self, program: Program) -> dict[str, str]:
        """Add the variables that inferences change to a program, others become constants; return the pairs to feed."""
        feeds: dict[str, str] = {}
        for variable in self._held.values():
            if variable.now is variable.before:
                variable.before.payload = variable.initial
            elif variable.is_read:
                following = next_name(variable.before.name)
                feeds[following] = variable.before.name
                program.inputs.append(variable.before)
                program.outputs.append((following, variable.now))
                program.internal.add(following)
                if variable.initial.load().any():
                    program.initial[variable.before.name] = variable.initial
        return feeds

    def _variable(self, key: Hashable, name: str, dtype: DType, dims: Sequence[Size], fill: int) -> Variable:
        held, title = self._held.get(key), f"the variable {shortened(name)!r}"
        if held is None:
            shape = tuple(int(dim) for dim in dims if isinstance(dim, int))
            if len(shape) != len(dims):
                raise _unsupported(f"{title} has an extent that depends on sizes")
            count = math.prod(shape)
            if count > MOST_ELEMENTS:
                raise _unsupported(f"{title} has {count} elements, expected at most {MOST_ELEMENTS}")
            initial = Payload(dtype, shape, lambda: np.full(shape, fill, storage_dtype(dtype)))
            before = Value(self.titles[key], dtype, shape)
            held = self._held[key] = Variable(name, initial, before, before)
        if (held.before.dtype, held.before.dims) != (dtype, tuple(dims)):
            wanted = f"{held.before.dtype}{list(held.before.dims)}"
            raise _unsupported(f"{title} is {wanted} elsewhere, found {dtype}{list(dims)}")
        return held


def _unsupported(message: str) -> ModelImportError:
    return ModelImportError(message, code="import-unsupported")


def next_name(name: str) -> str:
    """Return what the value of a variable after an inference is called."""
    return f"{name}.next"


def variable_names(model: TfliteModel) -> dict[Hashable, str]:
    """Return what all variables of a model are called, none like another, nor like an input or an output.

    Resources are there by container and name, variable tensors by subgraph and position.
    """
    main = model.main
    names: dict[Hashable, str] = {}
    taken = {main.tensors[position].name for position in (*main.inputs, *main.outputs)}
    for key, stem in _variables_of(model):
        if key in names:
            continue
        own, number = stem, 2
        while not taken.isdisjoint((own, next_name(own))):
            own, number = f"{stem}_{number}", number + 1
        names[key] = own
        taken |= {own, next_name(own)}
    return names


def _variables_of(model: TfliteModel) -> Iterator[tuple[Hashable, str]]:
    for number, graph in model.subgraphs.items():
        for operator in graph.operators:
            if operator.op == "VAR_HANDLE":
                name = str(operator.options.get("SharedName", ""))
                yield (str(operator.options.get("Container", "")), name), name
        for position, tensor in enumerate(graph.tensors):
            if tensor.is_variable:
                yield (number, position), tensor.name
