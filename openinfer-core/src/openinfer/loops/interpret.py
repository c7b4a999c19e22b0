"""The meaning of a loop program on NumPy arrays, one element at a time: what printers are compared with.

Every loop runs in order, whatever it is bound to; `verify` makes sure that no order matters to a parallel one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openinfer.array_types import storage_dtype
from openinfer.errors import OpenInferError
from openinfer.expr import tree
from openinfer.expr.elementary import spelled_out
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.loops.nodes import Across, Alloc, Barrier, Fail, For, If, Let, Load, Lookup, Number, Set, Store, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.affine import Index, Within
    from openinfer.loops.nodes import Buffer, Kernel, Leaf, Statement

Array: TypeAlias = npt.NDArray[Any]


class StepFailedError(OpenInferError):
    """A `Fail` was reached whose test holds; the message is its rule."""

    default_code = "out-of-range"


def interpret(kernel: Kernel, arrays: Mapping[str, Array], parameters: Mapping[str, int] | None = None) -> None:
    """Run a loop program on flat arrays, by name of buffer; packed types have one element a byte.

    Raises:
        StepFailedError: an element is refused.
        IndexError: an access lies outside of its array, which `verify` rules out.
    """
    _Run(dict(arrays), dict(parameters or {})).block(kernel.body)


class _Run:
    def __init__(self, arrays: dict[str, Array], variables: dict[str, int]) -> None:
        self._arrays = arrays
        self._variables = variables
        self._registers: dict[str, Array] = {}
        self._compiled: dict[int, tuple[Value, Callable[..., None]]] = {}

    def block(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case For(var, _, body):
                extent = var.extent if isinstance(var.extent, int) else self._index(var.extent)
                for place in range(extent):
                    self._variables[var.name] = place
                    self.block(body)
            case If(tests, body):
                if self._hold(tests):
                    self.block(body)
            case Alloc(buffer):
                self._arrays[buffer.name] = np.zeros(self._index(buffer.size), storage_dtype(buffer.dtype))
            case Let(name, value) | Set(name, value):
                self._registers[name] = self._value(value)
            case Lookup(var, value):
                self._variables[var.name] = int(self._value(value))
            case Fail(refused, rule):
                if self._value(refused):
                    raise StepFailedError(rule)
            case Store(buffer, address, value):
                self._arrays[buffer.name][self._place(buffer, address)] = self._value(value)
            case Barrier():
                pass

    def _index(self, index: Index | None) -> int:
        return 0 if index is None else index.evaluate(self._variables)

    def _place(self, buffer: Buffer, address: Index) -> int:
        place = self._index(address)
        if not 0 <= place < len(self._arrays[buffer.name]):
            raise IndexError(f"{buffer.name}[{address}] is element {place} of {len(self._arrays[buffer.name])}")
        return place

    def _hold(self, tests: Sequence[Within]) -> bool:
        return all(0 <= self._index(test.index) < self._index(test.extent) for test in tests)

    def _value(self, value: Value) -> Array:
        out = np.empty((), storage_dtype(value.dtype))
        self._program(value)([self._leaf(leaf) for leaf in value.leaves], out)
        return out

    def _program(self, value: Value) -> Callable[..., None]:
        known = self._compiled.get(id(value))
        if known is None:
            known = self._compiled[id(value)] = (value, compile_program(linearise(spelled_out(value.expr))))
        return known[1]

    def _leaf(self, leaf: Leaf) -> Array:
        match leaf:
            case Load(buffer, address, guards, fill):
                if fill is not None and not self._hold(guards):
                    return np.asarray(fill.value, storage_dtype(buffer.dtype))
                return np.asarray(self._arrays[buffer.name][self._place(buffer, address)])
            case Number(index, dtype):
                return np.asarray(self._index(index)).astype(storage_dtype(dtype))
            case Across(function, buffer):
                return self._across(function, buffer)
            case _:
                return self._registers[leaf.name]

    def _across(self, function: str, buffer: Buffer) -> Array:
        """Combine neighbours at half the distance again and again, as the lanes of a vector are."""
        parts = [np.asarray(element) for element in self._arrays[buffer.name]]
        inputs = (tree.Input(0, buffer.dtype), tree.Input(1, buffer.dtype))
        combined = Value(tree.Apply(function, inputs, buffer.dtype))
        while len(parts) > 1:
            half = (len(parts) + 1) // 2
            out = [np.empty((), storage_dtype(buffer.dtype)) for _ in parts[half:]]
            for place, other in enumerate(parts[half:]):
                self._program(combined)([parts[place], other], out[place])
            parts = [*out, *parts[len(out) : half]]
        return parts[0]
