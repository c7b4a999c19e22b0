"""An operator with its values, as translators see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dims import Dim
from openinfer.dtypes import F32, I64, DType
from openinfer.importers.onnx_files.families import elementwise
from openinfer.importers.onnx_files.node import Node as OnnxNode
from openinfer.importers.onnx_files.node import UnsupportedNodeError
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.source import SourceNode
from openinfer.importers.onnx_files.translators import translators as onnx_translators
from openinfer.importers.onnx_files.values import Value, known, of_elements
from openinfer.importers.torch_files.promotion import Operand, promoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.emitter import Emitter
    from openinfer.importers.onnx_files.source import Array, TensorInfo
    from openinfer.importers.onnx_files.values import Setting
    from openinfer.importers.torch_files.source import Operator

Resolved: TypeAlias = "Value | Size | float | str | DType | tuple[Resolved, ...] | None"
"""An argument whose references are values."""

ONNX_OPSET = 22
"""Version of the operators of ONNX that some operators are translated by."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operator: arguments by the names of its schema, and the emitter that its translation is written with."""

    source: Operator
    arguments: Mapping[str, Resolved]
    emit: Emitter

    @property
    def op(self) -> str:
        """The name without library and overload, such as ``add``."""
        return self.source.op.split(".")[1]

    @property
    def overload(self) -> str:
        return self.source.op.rpartition(".")[2]

    def refuse(self, reason: str) -> NoReturn:
        """Raise `UnsupportedNodeError` for a reason."""
        raise UnsupportedNodeError(reason)

    # Arguments

    def get(self, name: str) -> Any:
        """Return an argument; None where it is left out."""
        return self.arguments.get(name)

    def tensor(self, name: str = "self") -> Value:
        """Return a tensor."""
        value = self.get(name)
        if not isinstance(value, Value):
            self.refuse(f"{name} is {value!r}, expected a tensor")
        return value

    def optional(self, name: str) -> Value | None:
        """Return a tensor, or None where it is left out."""
        return None if self.get(name) is None else self.tensor(name)

    def tensors(self, name: str) -> tuple[Value, ...]:
        """Return a list of tensors."""
        values = self.get(name)
        if not isinstance(values, tuple) or not all(isinstance(value, Value) for value in cast("Any", values)):
            self.refuse(f"{name} is not a list of tensors")
        return cast("tuple[Value, ...]", values)

    def operand(self, name: str) -> Operand:
        """Return a tensor or a number."""
        value = self.get(name)
        if not isinstance(value, Value | int | float):
            self.refuse(f"{name} is {value!r}, expected a tensor or a number")
        return value

    def size(self, name: str) -> Size:
        """Return an integer that may depend on sizes."""
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(f"{name} is {value!r}, expected an integer that is known at import")
        return value

    def sizes(self, name: str) -> tuple[Size, ...]:
        """Return integers that may depend on sizes; one integer counts as a list of it."""
        values = self.get(name)
        listed = cast("tuple[Any, ...]", values) if isinstance(values, tuple) else (values,)
        if not all(isinstance(value, int) for value in listed):
            self.refuse(f"{name} has integers that are not known at import")
        return listed

    def integer(self, name: str) -> int:
        """Return an integer that has to be a number."""
        value = self.size(name)
        if not is_number(value):
            self.refuse(f"{name} depends on sizes: fix them with --set")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """Return integers that have to be numbers."""
        values = self.sizes(name)
        numbers = tuple(value for value in values if is_number(value))
        if len(numbers) < len(values):
            self.refuse(f"{name} depends on sizes: fix them with --set")
        return numbers

    def pair(self, name: str, count: int) -> tuple[int, ...]:
        """Return an integer for each of so many dims; one stands for all."""
        values = self.integers(name)
        return values * count if len(values) == 1 else values

    def real(self, name: str) -> float:
        """Return a number."""
        value = self.get(name)
        if isinstance(value, Dim) or not isinstance(value, int | float):
            self.refuse(f"{name} is {value!r}, expected a number that is known at import")
        return value

    def flag(self, name: str) -> bool:
        return bool(self.get(name))

    def axis(self, name: str = "dim", rank: int | None = None) -> int:
        """Return a dim of the first tensor, or of so many dims, counted from the beginning."""
        whole = self.tensor("self").rank if rank is None else rank
        axis = self.integer(name)
        if not -max(whole, 1) <= axis < max(whole, 1):
            self.refuse(f"{name}={axis} of {whole} dims")
        return axis % max(whole, 1)

    def axes(self, name: str = "dim") -> tuple[int, ...]:
        """Return dims of the first tensor, counted from the beginning; all of them where none is named."""
        rank, value = self.tensor("self").rank, self.get(name)
        if value is None or value == ():
            return tuple(range(rank))
        return tuple(sorted(axis % rank for axis in self.integers(name))) if rank else ()

    # Types

    def result(self, position: int = 0) -> TensorInfo:
        """Return what the program says of a result."""
        return self.source.results[position]

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        dtype = self.result().dtype if self.source.results else None
        if dtype is None:
            self.refuse("its result is not a tensor")
        return dtype

    def of_type(self, operand: Operand, dtype: DType) -> Value:
        """Return an operand as a value of an element type."""
        if isinstance(operand, Value):
            return self.converted(operand, dtype)
        if isinstance(operand, Dim):
            return self.converted(of_elements([operand], (), I64), dtype)
        return self.number(operand, dtype)

    def converted(self, value: Value, dtype: DType) -> Value:
        """Return a value with another element type: integers wrap, floats truncate."""
        if value.dtype is dtype:
            return value
        return elementwise.cast(self.as_onnx("Cast", (value,)), value, dtype)

    def promoted(self, *names: str) -> list[Value]:
        """Return operands in their common element type."""
        operands = [self.operand(name) for name in names]
        dtype = promoted(operands)
        return [self.of_type(operand, dtype) for operand in operands]

    def in_result_type(self, *names: str) -> list[Value]:
        """Return operands in the element type of the result."""
        return [self.of_type(self.operand(name), self.dtype) for name in names]

    # Results

    def call(self, op: str, *inputs: Value | None, **settings: Setting) -> Value:
        """Write a call and return its first result."""
        return self.emit.op(op, *inputs, **settings)

    def number(self, value: float | bool, dtype: DType) -> Value:
        """Return a constant scalar."""
        return known(np.asarray(value, storage_dtype(dtype)), dtype)

    def constant(self, array: Array, dtype: DType = F32) -> Value:
        """Return a constant."""
        return known(array.astype(storage_dtype(dtype)), dtype)

    def reshaped(self, value: Value, shape: tuple[Size, ...]) -> Value:
        """Return a value under another shape."""
        return self.onnx("Reshape", value, of_elements(shape, (len(shape),)), allowzero=int(0 in shape))

    def transposed(self, value: Value, perm: tuple[int, ...]) -> Value:
        """Return a value with its dims in another order."""
        return value if perm == tuple(range(value.rank)) else self.call("transpose", value, perm=perm)

    # Operators of ONNX

    def as_onnx(
        self, op: str, inputs: tuple[Value | None, ...], outputs: int = 1, attributes: Mapping[str, Any] | None = None
    ) -> OnnxNode:
        """Return a node of ONNX that stands for this one."""
        names = tuple("" if value is None else value.name or "x" for value in inputs)
        made = tuple(f"{self.source.name}_{position}" for position in range(outputs))
        source = SourceNode(op, "", self.source.name, ONNX_OPSET, names, made, attributes or {}, None)
        return OnnxNode(source, inputs, self.emit)

    def onnx(self, op: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Return the first result of an operator of ONNX, by its translation."""
        return self.onnx_results(op, inputs, 1, attributes)[0]

    def onnx_results(
        self, op: str, inputs: tuple[Value | None, ...], count: int, attributes: Mapping[str, Any]
    ) -> list[Value]:
        """Return the first results of an operator of ONNX, by its translation."""
        made = onnx_translators()["", op](self.as_onnx(op, inputs, count, attributes))
        results = [made] if isinstance(made, Value) else list(made)
        return [value for value in results[:count] if value is not None]
