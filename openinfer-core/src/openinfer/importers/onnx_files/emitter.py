"""Appends calls to a program: types of results come from the rules of the operators."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from openinfer.dtypes import U64
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.branches import branch_call
from openinfer.importers.onnx_files.loops import loop_call
from openinfer.importers.onnx_files.shape_rules import ShapeRules
from openinfer.importers.onnx_files.sizes import is_number, largest_number, names_of, size_text
from openinfer.importers.onnx_files.values import Call, Program, Value, index_of, known, of_elements
from openinfer.ir.types import TensorType
from openinfer.ops.counting import COUNT, counted_places
from openinfer.symbolic import INT64

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from openinfer.dims import Dim, Size
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.branches import Side
    from openinfer.importers.onnx_files.dimensions import Dimensions
    from openinfer.importers.onnx_files.loops import Loop
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Setting
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment


LARGEST_WRITTEN = INT64[-1]
"""Largest integer of a setting in a text: greater ones are constants of u64."""


class Emitter:
    """Makes calls.

    Attributes:
        calls: those made so far, in order.
        dimensions: the size variables.
        stage: what the calls being made belong to.
        notes: what a reader should know about results, one sentence each.
        counts: numbers of rows that operators count, and other integers of run time, by the name of the size.
    """

    def __init__(self, environment: Environment, dimensions: Dimensions) -> None:
        self.environment = environment
        self.dimensions = dimensions
        self._rules = ShapeRules(dimensions)
        self.calls: list[Call] = []
        self.stage = ""
        self.indices: list[str] = []
        self.notes: list[str] = []
        self.counts: dict[str, Value] = {}
        self._branches = 0
        self._written: dict[int, tuple[Value, Value]] = {}
        self._read: dict[int, tuple[Value, tuple[Size, ...]]] = {}

    def op(self, op: str, *inputs: Value | None, **settings: Setting) -> Value:
        """Call an operator and return its first result."""
        return self.ops(op, inputs, settings)[0]

    def typed(self, op: str, dtype: DType, dims: Sequence[Size], *inputs: Value | None, **settings: Setting) -> Value:
        """Call an operator whose result has the type of its declaration."""
        return self.ops(op, inputs, settings, [(dtype, tuple(dims))])[0]

    def ops(
        self,
        op: str,
        inputs: Sequence[Value | None],
        settings: Mapping[str, Setting],
        declared: Sequence[tuple[DType, tuple[Size, ...]]] = (),
    ) -> tuple[Value, ...]:
        """Call an operator and return all of its results.

        Raises:
            ModelImportError: the operator cannot take these inputs or settings.
        """
        schema = self.environment.op(op)
        given = [None if value is None else self.materialised(value) for value in inputs]
        given += [None] * (len(schema.inputs) - len(given))
        plain = {name: self._plain(v) for name, v in settings.items() if not _is_default(schema, name, v)}
        outputs = self._results(schema, given, plain, declared)
        if schema.counted:
            outputs = self._counted(schema, outputs)
        elif declared and names_of(*(dim for _, dims in declared for dim in dims)) & self.counts.keys():
            message = f"{schema.name}: an extent of the result is a number that the model counts when it runs"
            raise ModelImportError(message, code="import-unsupported")
        self.calls.append(Call(schema.name, tuple(given), plain, outputs, bool(declared), self.stage))
        return outputs

    def _counted(self, schema: OpSchema, outputs: Sequence[Value]) -> tuple[Value, ...]:
        """Return the results of an operator that counts, with the number of rows as a size of their own."""
        places = counted_places(schema)
        rows = self.dimensions.count(outputs[min(places)].dims[0])
        number = replace(outputs[COUNT], elements=(rows,))
        self.counts[str(rows)] = number
        made = [replace(v, dims=(rows, *v.dims[1:])) if place in places else v for place, v in enumerate(outputs)]
        made[COUNT] = number
        return tuple(made)

    def _plain(self, value: Setting) -> Setting:
        if isinstance(value, Value):
            return self.materialised(value)
        if is_number(value) and value > LARGEST_WRITTEN:
            return known(np.array(value, np.uint64), U64)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, int) and largest_number(part) > LARGEST_WRITTEN:
                message = f"{size_text(part)} has an integer that does not fit 64 bits"
                raise ModelImportError(message, code="import-unsupported")
        return value

    def _results(
        self,
        schema: OpSchema,
        inputs: Sequence[Value | None],
        settings: Mapping[str, Setting],
        declared: Sequence[tuple[DType, tuple[Size, ...]]],
    ) -> tuple[Value, ...]:
        types = [None if value is None else _type(value.dtype, value.dims) for value in inputs]
        numbers = {name: _for_types(value) for name, value in settings.items()}
        made = self._rules.types(schema, types, numbers, [_type(dtype, dims) for dtype, dims in declared])
        return tuple(Value("", kind.dtype, kind.shape) for kind in made)

    def program(self, name: str, inputs: Sequence[Value], outputs: list[tuple[str, Value]]) -> Program:
        """Return the calls made as a program, whose inputs are those that are not fixed.

        Raises:
            ModelImportError: no sizes are legal, see `Dimensions.least`.
        """
        return Program(
            name,
            [value for value in inputs if value.payload is None],
            outputs,
            self.calls,
            self.dimensions.least(),
            self.dimensions.space,
            dict(self.dimensions.origins),
            self.indices,
            counts=self.counts,
            notes=self.notes,
        )

    # Loops

    @contextmanager
    def body(self, count: Size | None = None) -> Generator[tuple[Dim, list[Call]]]:
        """Put the calls made inside of ``with`` into a list of their own; yield the index, and the list."""
        index = self.dimensions.index(count)
        self.indices.append(str(index))
        with self._inner() as calls:
            yield index, calls

    @contextmanager
    def side(self) -> Generator[list[Call]]:
        """Put the calls made inside of ``with`` into a list of their own, for one side of a branch; yield the list."""
        with self._inner() as calls:
            yield calls

    @contextmanager
    def _inner(self) -> Generator[list[Call]]:
        outer, written, read = self.calls, self._written, self._read
        self.calls, self._written, self._read = [], dict(written), dict(read)
        try:
            yield self.calls
        finally:
            self.calls, self._written, self._read = outer, written, read

    def branch(self, condition: Value, then: Side, otherwise: Side) -> tuple[Value, ...]:
        """Append a branch and return its results."""
        self._branches += 1
        call = branch_call(condition, then, otherwise, self._branches, self.stage)
        self.calls.append(call)
        return call.outputs

    def with_row(self, rows: Value, place: Size, row: Value) -> Value:
        """Return rows of which the one at a place is another; the index of a loop is read by its name."""
        shape = () if str(place) in self.indices else (1,)
        return self.op("scatter_nd", rows, of_elements((place,), shape), row)

    def loop(self, loop: Loop) -> None:
        """Append a loop."""
        self.calls.append(loop_call(loop, len(self.indices), self.stage))

    # Values that calls read

    def constant(self, array: Array, dtype: DType, name: str = "") -> Value:
        """Return a value of known numbers."""
        return known(array, dtype, name)

    def materialised(self, value: Value) -> Value:
        """Return a value that a statement may read: integers that depend on sizes are written by statements."""
        is_count = any(value is count for count in self.counts.values())
        if value.elements is None or value.payload is not None or is_count or self._is_index(value):
            return value
        if id(value) in self._written:
            return self._written[id(value)][1]
        scalars = [self._scalar(element, value.dtype) for element in value.elements]
        joined = scalars[0] if len(scalars) == 1 else self.ops("concat", scalars, {"axis": 0})[0]
        if len(value.dims) != 1:
            joined = self.op("reshape", joined, shape=value.dims)
        # The value is kept too, so that its identity stays its own.
        self._written[id(value)] = (value, joined)
        return joined

    def integers(self, value: Value, stem: str) -> tuple[Size, ...]:
        """Return the integers of a list; those that only the running program knows become sizes, called by a stem."""
        elements = value.integers()
        if elements is not None:
            return elements
        if id(value) not in self._read:
            # The value is kept too, so that its identity stays its own.
            self._read[id(value)] = (value, self._integers_of_run_time(value, stem))
        return self._read[id(value)][1]

    def _integers_of_run_time(self, value: Value, stem: str) -> tuple[Size, ...]:
        writer = next((call for call in reversed(self.calls) if any(value is made for made in call.outputs)), None)
        if writer is not None and writer.op == "concat":
            return tuple(size for part in writer.inputs if part for size in self.integers(part, stem))
        flat = value if value.rank == 1 else self.op("reshape", value, shape=(-1,))
        count = flat.dims[0]
        if not is_number(count):
            message = f"how many integers {value.name!r} has is known at run time only"
            raise ModelImportError(message, code="import-unsupported")
        return tuple(self._integer(self.op("select", flat, axis=0, index=place), stem) for place in range(count))

    def _integer(self, scalar: Value, stem: str) -> Size:
        size = self.dimensions.integer(stem)
        scalar.elements = (size,)
        self.counts[str(size)] = scalar
        return size

    def _is_index(self, value: Value) -> bool:
        """Whether a value is the index of a loop, which statements read by its name."""
        return index_of(value, self.indices) is not None

    def _scalar(self, element: Size, dtype: DType) -> Value:
        """Return an integer that depends on sizes as a tensor of one element."""
        if is_number(element):
            from openinfer.array_types import storage_dtype

            return known(np.array([element], storage_dtype(dtype)), dtype)
        return self.typed("range", dtype, (1,), start=element, limit=element + 1)


def _is_default(schema: OpSchema, name: str, value: Setting) -> bool:
    """Whether a setting says what the operator does anyway."""
    spec = schema.setting(name)
    return spec is not None and type(spec.default) is type(value) and spec.default == value


def _type(dtype: DType, dims: Sequence[Size]) -> TensorType:
    # Sizes have all that a rule asks of the integers that types are declared with.
    return TensorType(dtype, cast("tuple[int, ...]", tuple(dims)))


def _for_types(value: Setting) -> SettingValue:
    if isinstance(value, Value):
        # What shapes do not depend on is read when the operator runs.
        return 0.0 if value.dtype.is_float else 0
    return cast("SettingValue", value)
