"""Appends calls to a program: types of results come from the rules of the operators, shapes may be symbolic."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.dtypes import DType
from openinfer.errors import ModelImportError, OpenInferError
from openinfer.importers.onnx_files.branches import branch_call
from openinfer.importers.onnx_files.loops import loop_call
from openinfer.importers.onnx_files.values import (
    Call,
    Value,
    constant_of,
    elements_of,
    expression,
    index_of,
    known,
)
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.polynomials import simplified
from openinfer.symbolic import BinOp, Const, IntExpr, Name
from openinfer.validate.symbolic_shapes import symbolic_shapes

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from openinfer.importers.onnx_files.branches import Side
    from openinfer.importers.onnx_files.loops import Loop
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Setting
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.validate.symbolic_shapes import Rule


class Emitter:
    """Makes calls.

    Attributes:
        calls: those made so far, in order.
        sizes: a value for each size variable, at which shapes are tried.
        stage: what the calls being made belong to.
        notes: what a reader should know about results, one sentence each.
    """

    def __init__(self, environment: Environment, sizes: dict[str, int]) -> None:
        self.environment = environment
        self.sizes = sizes
        self.calls: list[Call] = []
        self.stage = ""
        self.indices: list[str] = []
        self.notes: list[str] = []
        self._branches = 0
        self._written: dict[int, tuple[Value, Value]] = {}

    def op(self, op: str, *inputs: Value | None, **settings: Setting) -> Value:
        """Call an operator and return its first result."""
        return self.ops(op, inputs, settings)[0]

    def typed(
        self, op: str, dtype: DType, dims: Sequence[IntExpr], *inputs: Value | None, **settings: Setting
    ) -> Value:
        """Call an operator whose result has the type of its declaration."""
        return self.ops(op, inputs, settings, [(dtype, tuple(dims))])[0]

    def ops(
        self,
        op: str,
        inputs: Sequence[Value | None],
        settings: Mapping[str, Setting],
        declared: Sequence[tuple[DType, tuple[IntExpr, ...]]] = (),
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
        self.calls.append(Call(schema.name, tuple(given), plain, outputs, bool(declared), self.stage))
        return outputs

    def _plain(self, value: Setting) -> Setting:
        if isinstance(value, Value):
            return self.materialised(value)
        if isinstance(value, tuple):
            return tuple(_number(part) for part in value)
        return _number(value) if isinstance(value, Const | Name | BinOp) else value

    def _results(
        self,
        schema: OpSchema,
        inputs: Sequence[Value | None],
        settings: Mapping[str, Setting],
        declared: Sequence[tuple[DType, tuple[IntExpr, ...]]],
    ) -> tuple[Value, ...]:
        def types_at(sizes: Mapping[str, int]) -> tuple[TensorType, ...]:
            types = [None if value is None else _type_at(value.dtype, value.dims, sizes) for value in inputs]
            numbers = {name: _setting_at(value, sizes) for name, value in settings.items()}
            of_outputs = [_type_at(dtype, dims, sizes) for dtype, dims in declared]
            return call_of(schema, types, numbers, of_outputs).outputs

        def shapes_at(sizes: Mapping[str, int]) -> Sequence[tuple[int, ...]] | None:
            try:
                return [made.shape for made in types_at(sizes)]
            except (OpenInferError, symbolic.DivisionError):
                return None

        try:
            made = types_at(self.sizes)
        except symbolic.DivisionError as error:
            raise ModelImportError(f"{schema.name}: {error}", code="import-unsupported") from error
        except OpenInferError as error:
            raise ModelImportError(str(error), code="import-unsupported") from error
        if declared:
            dims_of_outputs = [tuple(map(simplified, dims)) for _, dims in declared]
        else:
            dims_of_outputs = self._dims(shapes_at, made, inputs, settings)
        return tuple(Value("", kind.dtype, dims) for kind, dims in zip(made, dims_of_outputs, strict=True))

    def _dims(
        self,
        rule: Rule,
        made: Sequence[TensorType],
        inputs: Sequence[Value | None],
        settings: Mapping[str, Setting],
    ) -> list[tuple[IntExpr, ...]]:
        groups: list[Sequence[IntExpr]] = [value.dims for value in inputs if value is not None]
        groups += [exprs for exprs in map(_expressions, settings.values()) if exprs]
        found = symbolic_shapes(rule, self.sizes, [kind.shape for kind in made], groups)
        dims: list[tuple[IntExpr, ...]] = []
        for shape in found:
            if any(dim is None for dim in shape):
                names = ", ".join(self.sizes)
                message = f"an extent of the result depends on {names} in a way that no expression here has"
                raise ModelImportError(f"{message}: fix a size with --set NAME=N", code="import-unsupported")
            dims.append(tuple(simplified(dim) for dim in shape if dim is not None))
        return dims

    # Loops

    @contextmanager
    def body(self) -> Generator[tuple[str, list[Call]]]:
        """Put the calls made inside of ``with`` into a list of their own; yield the name of an index, and the list."""
        name = f"t{len(self.indices) + 1}" if self.indices else "t"
        while name in self.sizes:
            name += "_"
        self.indices.append(name)
        outer, self.calls = self.calls, []
        written, self._written = self._written, dict(self._written)
        # Shapes are tried with the first turn; none may depend on it.
        self.sizes[name] = 0
        try:
            yield name, self.calls
        finally:
            del self.sizes[name]
            self.calls, self._written = outer, written

    @contextmanager
    def side(self) -> Generator[list[Call]]:
        """Put the calls made inside of ``with`` into a list of their own, for one side of a branch; yield the list."""
        outer, self.calls = self.calls, []
        written, self._written = self._written, dict(self._written)
        try:
            yield self.calls
        finally:
            self.calls, self._written = outer, written

    def branch(self, condition: Value, then: Side, otherwise: Side) -> tuple[Value, ...]:
        """Append a branch and return its results."""
        self._branches += 1
        call = branch_call(condition, then, otherwise, self._branches, self.stage)
        self.calls.append(call)
        return call.outputs

    def loop(self, loop: Loop) -> None:
        """Append a loop."""
        self.calls.append(loop_call(loop, len(self.indices), self.stage))

    # Values that calls read

    def constant(self, array: Array, dtype: DType, name: str = "") -> Value:
        """Return a value of known numbers."""
        return known(array, dtype, name)

    def materialised(self, value: Value) -> Value:
        """Return a value that a statement may read: integers that depend on sizes are written by statements."""
        if value.elements is None or value.payload is not None or self._is_index(value):
            return value
        if id(value) in self._written:
            return self._written[id(value)][1]
        scalars = [self._scalar(expression(element), value.dtype) for element in value.elements]
        joined = scalars[0] if len(scalars) == 1 else self.ops("concat", scalars, {"axis": 0})[0]
        if len(value.dims) != 1:
            joined = self.op("reshape", joined, shape=tuple(elements_of(value.dims)))
        # The value is kept too, so that its identity stays its own.
        self._written[id(value)] = (value, joined)
        return joined

    def _is_index(self, value: Value) -> bool:
        """Whether a value is the index of a loop, which statements read by its name."""
        return index_of(value, self.indices) is not None

    def _scalar(self, expr: IntExpr, dtype: DType) -> Value:
        """Return an integer that depends on sizes as a tensor of one element."""
        number = constant_of(expr)
        if number is not None:
            import numpy as np

            from openinfer.array_types import storage_dtype

            return known(np.array([number], storage_dtype(dtype)), dtype)
        limit = simplified(BinOp("+", expr, Const(1)))
        return self.typed("range", dtype, (Const(1),), start=expr, limit=limit)


def _is_default(schema: OpSchema, name: str, value: Setting) -> bool:
    """Whether a setting says what the operator does anyway."""
    spec = schema.setting(name)
    return spec is not None and type(spec.default) is type(value) and spec.default == value


def _number(part: int | float | IntExpr) -> int | float | IntExpr:
    if isinstance(part, int | float):
        return part
    short = simplified(part)
    number = constant_of(short)
    return short if number is None else number


def _expressions(value: Setting) -> Sequence[IntExpr]:
    if isinstance(value, Const | Name | BinOp):
        return [value]
    if isinstance(value, tuple):
        return [expression(part) for part in value if not isinstance(part, float)]
    return []


def _type_at(dtype: DType, dims: Sequence[IntExpr], sizes: Mapping[str, int]) -> TensorType:
    shape = tuple(symbolic.evaluate(dim, sizes.__getitem__) for dim in dims)
    if any(extent < 0 for extent in shape):
        raise symbolic.DivisionError(f"an extent is negative: {list(shape)}")
    return TensorType(dtype, shape)


def _setting_at(value: Setting, sizes: Mapping[str, int]) -> SettingValue:
    if isinstance(value, Value):
        # What shapes do not depend on is read when the operator runs.
        return 0.0 if value.dtype.is_float else 0
    if isinstance(value, Const | Name | BinOp):
        return symbolic.evaluate(value, sizes.__getitem__)
    if isinstance(value, tuple):
        return tuple(
            part if isinstance(part, int | float) else symbolic.evaluate(part, sizes.__getitem__) for part in value
        )
    return value
