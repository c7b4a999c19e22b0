"""Operators applied to arrays, as programs that run on the device cpu."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from onnx_translation import Array, Call, UntranslatableError

from openinfer.array_types import storage_dtype
from openinfer.dsl.builder import GraphBuilder
from openinfer.dtypes import BY_NAME, DType
from openinfer.ir.types import TensorType
from openinfer.ir.values import Ref
from openinfer.model import Model
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator

Results: TypeAlias = list[tuple[str, TensorType]]

TYPES = {
    "bfloat16": "bf16",
    "bool": "bool",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "float8_e5m2": "f8",
    **{f"{sign}int{bits}": f"{'u' if sign else 'i'}{bits}" for bits in (2, 4, 8, 16, 32, 64) for sign in ("", "u")},
}
"""Element types by the names that NumPy and ml_dtypes have for them."""


def dtype_of(dtype: np.dtype[Any]) -> DType:
    """Return the element type that a NumPy type stands for.

    Raises:
        UntranslatableError: there is none.
    """
    if dtype.name not in TYPES:
        raise UntranslatableError(f"element type {dtype.name}")
    return BY_NAME[TYPES[dtype.name]]


def tensor_type(array: Array) -> TensorType:
    """Return the type of an array.

    Raises:
        UntranslatableError: it is not an array, or of an unknown element type.
    """
    if not isinstance(array, np.ndarray):
        raise UntranslatableError(f"data of kind {type(array).__name__}")
    return TensorType(dtype_of(array.dtype), array.shape)


@dataclass(slots=True)
class Writer:
    """Writes calls into a program, the innermost first."""

    environment: Environment
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    inserted: dict[str, Array] = field(default_factory=dict)
    calls: list[tuple[str, list[str], list[str], dict[str, Any]]] = field(default_factory=list)

    def result(self, call: Call) -> Results:
        """Declare what a call needs, and return its outputs."""
        schema = self.environment.op(call.op)
        settings = {n: dtype_of(v) if isinstance(v, np.dtype) else v for n, v in call.settings.items()}
        inputs = [self._input(given) for given in call.inputs]
        inputs += [None] * (len(schema.inputs) - len(inputs))
        types = [None if given is None else given[1] for given in inputs]
        for dtype in {t.dtype for t, spec in zip(types, schema.inputs, strict=False) if t and spec.dtypes is None}:
            if dtype.name not in schema.dtypes:
                raise UntranslatableError(f"{call.op} of {dtype}")
        frozen = {n: tuple(v) if isinstance(v, list) else v for n, v in settings.items()}
        made = call_of(schema, types, frozen, [tensor_type(array) for array in call.declared]).outputs
        positional: list[str] = []
        for number, given in enumerate(inputs):
            spec = schema.inputs[min(number, len(schema.inputs) - 1)]
            if given is not None and spec.optional:
                settings[spec.name] = Ref(given[0])
            elif given is not None:
                positional.append(given[0])
        names = [f"t{len(self.calls)}_{number}" for number in range(len(made))]
        for name, kind in zip(names, made, strict=True):
            self.builder.volatile(name, kind.dtype, kind.shape)
        self.calls.append((call.op, positional, names, settings))
        return list(zip(names, made, strict=True))

    def _input(self, given: Any) -> tuple[str, TensorType] | None:
        if given is None:
            return None
        if isinstance(given, Call):
            return self.result(given)[0]
        kind = tensor_type(given)
        name = f"x{len(self.inserted)}"
        self.inserted[name] = np.ascontiguousarray(given).astype(storage_dtype(kind.dtype)).reshape(given.shape)
        self.builder.dynamic(name, kind.dtype, kind.shape)
        return name, kind


def written(call: Call, environment: Environment) -> tuple[Writer, Results]:
    """Return the program of a call, and its results.

    Raises:
        UntranslatableError: an element type or kind of data is unknown here, or to the operator.
    """
    writer = Writer(environment)
    results = writer.result(call)
    with writer.builder.block("entry"):
        for op, inputs, outputs, settings in writer.calls:
            writer.builder.op(op, *inputs, outputs=outputs, settings=settings)
        writer.builder.return_()
    return writer, results


def run(writer: Writer, results: Results) -> list[Array]:
    """Run a program on the device cpu and return its results."""
    simulator = Simulator(Model.from_arrays({}), writer.builder.build(), environment=writer.environment)
    executor = simulator.make_executor()
    executor.insert(writer.inserted)
    executor.step()
    return [np.asarray(executor.fetch(name)) for name, _ in results]
