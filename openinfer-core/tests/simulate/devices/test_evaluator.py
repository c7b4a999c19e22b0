"""The evaluator for devices: definitions of every kind and element type, from the device's memory and back to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from openinfer.bound_calls import BoundCall
from openinfer.builtin import openinfer_ops
from openinfer.compute import Computation
from openinfer.compute.elementwise import array_expression
from openinfer.dtypes import BUILTIN, F16, F32, I32, I64, DType, Kind
from openinfer.errors import OpenInferError, ShapeError
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.expr.tree import ExprError
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, fold_expression, scalar_expression
from openinfer.ops.calls import OpCall
from openinfer.ops.computations import computation_of
from openinfer.ops.loop_programs import loop_program_of
from openinfer.ops.schema import OpSchema
from openinfer.packing import pack, unpack
from openinfer.simulate.devices.derived import bind_expression_computation, bind_fold_computation
from openinfer.simulate.devices.evaluator import bind_evaluator
from openinfer.simulate.devices.storage import filled

OPS = {schema.name: schema for schema in openinfer_ops()}
I4 = next(dtype for dtype in BUILTIN if dtype.name == "i4")


@dataclass(eq=False)
class Memory:
    type: TensorType
    array: Any


class Device:
    """A device without a kernel."""

    def read(self, buffer: Memory) -> Any:
        return buffer.array.copy()

    def write(self, buffer: Memory, array: Any) -> None:
        assert array.dtype == buffer.array.dtype
        assert array.shape == buffer.array.shape
        buffer.array = array

    def bind_computation(
        self, computation: Computation, inputs: Sequence[Memory], outputs: Sequence[Memory]
    ) -> BoundCall:
        return bind_evaluator(self, computation, inputs, outputs)


def memory(values: Any, dtype: DType) -> Memory:
    type_ = TensorType(dtype, np.shape(values))
    array = np.array(values).astype(np.int8 if dtype.is_packed else filled(type_).dtype)
    return Memory(type_, pack(array, dtype) if dtype.is_packed else array)


def called(op: str, *inputs: Memory, **settings: Any) -> tuple[OpSchema, OpCall, list[Memory]]:
    """Return a schema, a call of it and memory of its results."""
    call = call_of(OPS[op], [each.type for each in inputs], settings)
    return OPS[op], call, [Memory(type_, filled(type_)) for type_ in call.outputs]


def test_stages_are_evaluated_from_and_to_the_memory_of_the_device() -> None:
    a, b = memory([[1, 2], [3, 4]], F32), memory([[5], [6]], F32)
    schema, call, (y,) = called("matmul", a, b)

    bound = bind_evaluator(Device(), computation_of(schema, call), [a, b], [y])

    bound()
    assert y.array.tolist() == [[17], [39]]
    a.array = np.array([[0, 1], [1, 0]], np.float32)
    bound()
    assert y.array.tolist() == [[6], [5]]


def test_loop_programs_are_interpreted() -> None:
    x = memory([[3, 1, 2], [0, 5, 4]], F16)
    schema, call, (y,) = called("argsort", x)

    bind_evaluator(Device(), loop_program_of(schema, call), [x], [y])()

    assert y.array.tolist() == [[1, 2, 0], [0, 2, 1]]


def test_packed_elements_are_unpacked_and_packed_again() -> None:
    a, b = memory([[1, -2, 3]], I4), memory([[1], [-4]], I4)
    schema, call, (y,) = called("add", a, b)

    bind_expression_computation(Device(), scalar_expression(schema, call), [a, b], y)()

    assert unpack(y.array, I4, (2, 3)).tolist() == [[2, -1, 4], [-3, -6, -1]]


def test_an_output_may_be_an_input() -> None:
    x = memory([1, 2, 3], I32)
    schema, call, _ = called("add", x, x)

    bind_expression_computation(Device(), scalar_expression(schema, call), [x, x], x)()

    assert x.array.tolist() == [2, 4, 6]


def test_a_refused_element_is_out_of_range_and_nothing_is_written() -> None:
    x, indices = memory([1, 2, 3], F32), memory([0, 3], I64)
    schema, call, (y,) = called("gather", x, indices)

    with pytest.raises(OpenInferError) as raised:
        bind_evaluator(Device(), computation_of(schema, call), [x, indices], [y])()

    assert raised.value.code == "out-of-range"
    assert y.array.tolist() == [0, 0]


def test_the_first_elements_of_a_tensor_are_no_expression_on_arrays() -> None:
    x = memory([[1, 2, 3], [4, 5, 6]], F32)
    schema, call, (y,) = called("slice", x, axes=(1,), starts=(0,), ends=(2,))
    computation = computation_of(schema, call)

    bind_evaluator(Device(), computation, [x], [y])()

    assert array_expression(computation) is None
    assert y.array.tolist() == [[1, 2], [4, 5]]


def test_inputs_that_an_expression_does_not_read_are_left_out() -> None:
    class Noting(Device):
        def bind_computation(
            self, computation: Computation, inputs: Sequence[Memory], outputs: Sequence[Memory]
        ) -> BoundCall:
            expr = array_expression(computation)
            assert expr is not None
            assert linearise(expr).inputs == (0, 1)
            assert list(inputs) == [x, z]
            return super().bind_computation(computation, inputs, outputs)

    x, z, y = memory([5, 7], I32), memory(2, I32), memory([0, 0], I32)

    bind_expression_computation(Noting(), tree.sub(tree.Input(0, I32), tree.Input(2, I32)), [x, None, z], y)()

    assert y.array.tolist() == [3, 5]


def test_an_expression_that_reads_what_was_left_out_is_refused() -> None:
    y = memory([0, 0], I32)

    with pytest.raises(ExprError, match="the expression reads input 1, which was left out"):
        bind_expression_computation(Device(), tree.Input(1, I32), [y, None], y)


@pytest.mark.parametrize("keepdims", [False, True])
def test_folds_are_evaluated(keepdims: bool) -> None:
    x = memory([[1, 2, 3], [4, 5, 6]], F32)
    schema, call, (y,) = called("sum_axis", x, axes=(1,), keepdims=keepdims)
    axes, fold = fold_expression(schema, call)

    bind_fold_computation(Device(), axes, fold, x, y)()

    assert y.array.reshape(-1).tolist() == [6, 15]


def test_a_fold_of_nothing_that_starts_with_its_first_element_is_refused() -> None:
    few = memory([[1.0], [2.0]], F32)
    schema, call, (y,) = called("max_axis", few, axes=(1,))
    axes, fold = fold_expression(schema, call)

    with pytest.raises(ShapeError, match=r"a slice over axes \[1\] of f32\[2,0\] is empty"):
        bind_fold_computation(Device(), axes, fold, memory(np.zeros((2, 0)), F32), y)


@pytest.mark.parametrize("dtype", BUILTIN, ids=str)
def test_a_filled_array_is_in_storage_form(dtype: DType) -> None:
    type_, value = TensorType(dtype, (3, 5)), -1 if dtype.kind is Kind.SIGNED else 1

    array = filled(type_, value)

    if dtype.is_packed:
        assert (array.dtype, array.shape) == (np.uint8, (type_.nbytes,))
        array = unpack(array, dtype, type_.shape)
    assert array.shape == (3, 5)
    assert (array.astype(np.float64) == value).all()
