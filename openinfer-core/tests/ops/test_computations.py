"""Operators that are defined by stages or loop programs compute what their oracles say, for each type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.compute.stage import expressions_of
from openinfer.compute.text import computation_text
from openinfer.dtypes import BOOL, F32, dtype_named
from openinfer.expr.elementary import ELEMENTARY
from openinfer.expr.linear import linearise
from openinfer.ir.types import TensorType
from openinfer.loops import verify
from openinfer.loops.coalesce import coalesced
from openinfer.loops.fusion import fused
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered
from openinfer.ops import Compute, Loops, OpTypeError
from openinfer.ops.applying import call_of
from openinfer.ops.calls import OpCall
from openinfer.ops.computations import computation_of, stages_of
from openinfer.ops.counting import COUNT, counted_places
from openinfer.ops.loop_programs import loop_program_of
from openinfer.plugins.environment import Environment
from openinfer.testing.cases import Case, cases
from openinfer.testing.comparing import mismatch
from openinfer.testing.expectation import expected_of
from openinfer.testing.oracle import known_oracles
from openinfer.testing.precision import tolerance_of
from openinfer.testing.values import exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.compute import Computation
    from openinfer.ops import OpSchema

ENVIRONMENT = Environment.default()
COMPUTED = sorted(name for name, schema in ENVIRONMENT.ops.items() if isinstance(schema.definition, Compute))
LOOPED = sorted(name for name, schema in ENVIRONMENT.ops.items() if isinstance(schema.definition, Loops))
STAGED = sorted(name for name, schema in ENVIRONMENT.ops.items() if stages_of(schema) is not None)
SOME_TYPES = ("f32", "f16", "i64", "u8", "i4", "t2", "bool")
"""One type for each way in which elements are stored."""

LARGEST = 4000
"""Most elements of a case that the interpreter, which goes one by one, is tried with."""


def small_cases(name: str) -> list[Case]:
    schema = ENVIRONMENT.op(name)
    types = [ENVIRONMENT.dtypes[dtype] for dtype in SOME_TYPES if dtype in schema.dtypes]
    found = [case for dtype in types for case in cases(schema, dtype, ENVIRONMENT.dtypes)]
    return [case for case in found if sum(out.count for out in case.call.outputs) <= LARGEST]


def bits(array: npt.NDArray[Any]) -> bytes:
    """Return the bytes of an array, and where it has NaN, whose sign and payload are not defined."""
    is_nan = array != array
    return np.where(is_nan, np.zeros_like(array), array).tobytes() + is_nan.tobytes()


@pytest.mark.parametrize("name", STAGED)
def test_stages_compute_what_the_oracle_says(name: str) -> None:
    schema, oracle = ENVIRONMENT.op(name), known_oracles()[name]
    for case in small_cases(name):
        given = [array for array in case.inputs() if array is not None]
        found = counted_rows(schema, evaluate(computation_of(schema, case.call), given))
        values = [
            None if array is None or type_ is None else exact(array, type_.dtype)
            for array, type_ in zip(case.inputs(), case.call.inputs, strict=True)
        ]
        with np.errstate(all="ignore"):
            expected = expected_of(oracle, values, case.call)
            tolerance = tolerance_of(schema, case.call, values, [output.values for output in expected])
        for want, got, out in zip(expected, found, case.call.outputs, strict=True):
            assert mismatch(want, got, out.dtype, tolerance) is None, str(case)


def counted_rows(schema: OpSchema, results: Sequence[Any]) -> list[Any]:
    """Return results without the rows after those that the operator counts."""
    places = counted_places(schema)
    return [array[: int(results[COUNT])] if place in places else array for place, array in enumerate(results)]


def has_formula(computation: Computation) -> bool:
    """Whether a function occurs that loop programs compute by a formula, which rounds otherwise than NumPy."""
    values = (expr for stage in computation.stages for expr in expressions_of(stage))
    return any(step.function in ELEMENTARY for expr in values for step in linearise(expr).instructions)


@pytest.mark.parametrize("name", COMPUTED)
def test_loop_programs_have_the_bits_of_the_stages(name: str) -> None:
    schema = ENVIRONMENT.op(name)
    for case in small_cases(name)[:4]:
        computation = computation_of(schema, case.call)
        kernel = fused(coalesced(lowered(computation)))
        verify(kernel)
        given = [array for array in case.inputs() if array is not None]
        arrays = {tensor.name: array.reshape(-1) for tensor, array in zip(computation.inputs, given, strict=True)}
        expected = evaluate(computation, given)
        results = {
            tensor.name: np.zeros_like(array) for tensor, array in zip(computation.outputs, expected, strict=True)
        }
        temporaries = {
            t.name: np.zeros([e.constant or 0 for e in t.shape], storage_dtype(t.dtype))
            for t in computation.temporaries
        }
        interpret(kernel, arrays | {n: array.reshape(-1) for n, array in (results | temporaries).items()})
        for tensor, want in zip(computation.outputs, expected, strict=True):
            if has_formula(computation):
                np.testing.assert_allclose(results[tensor.name], want, rtol=1e-5, atol=1e-6, err_msg=str(case))
            else:
                assert bits(results[tensor.name]) == bits(want), str(case)


@pytest.mark.parametrize("name", COMPUTED)
def test_stages_read_back_from_their_text(name: str) -> None:
    for case in small_cases(name):
        computation = computation_of(ENVIRONMENT.op(name), case.call)
        assert parse_computation(computation_text(computation)) == computation


@pytest.mark.parametrize("name", LOOPED)
def test_loop_programs_compute_what_the_oracle_says(name: str) -> None:
    schema, oracle = ENVIRONMENT.op(name), known_oracles()[name]
    for case in small_cases(name):
        kernel = loop_program_of(schema, case.call)
        assert parse_kernel(kernel_text(kernel)) == kernel
        given = [array for array in case.inputs() if array is not None]
        found = [np.zeros(out.shape, storage_dtype(out.dtype)) for out in case.call.outputs]
        arrays = [array.reshape(-1) for array in (*given, *found)]
        interpret(kernel, {buffer.name: array for buffer, array in zip(kernel.buffers, arrays, strict=True)})
        types = [given for given in case.call.inputs if given is not None]
        values = [exact(array, type_.dtype) for array, type_ in zip(given, types, strict=True)]
        expected = expected_of(oracle, values, case.call)
        tolerance = tolerance_of(schema, case.call, values, [output.values for output in expected])
        rows = counted_rows(schema, found)
        for want, got, out in zip(expected, rows, case.call.outputs, strict=True):
            assert mismatch(want, got, out.dtype, tolerance) is None, str(case)


@pytest.mark.parametrize(
    ("op", "shapes", "settings"),
    [
        ("attn", [(0, 8), (3, 2, 4), (3, 2, 4)], {}),
        ("attn", [(2, 8), (0, 2, 4), (0, 2, 4)], {}),
        ("conv_transpose2d", [(0, 2, 3, 3), (2, 2, 3, 3)], {"stride": 2}),
        ("linear", [(2, 0), (0, 3), (3,)], {}),
        ("matmul", [(0, 3), (3, 2)], {}),
    ],
)
def test_stages_of_nothing_yield_what_is_left(op: str, shapes: list[tuple[int, ...]], settings: dict[str, Any]) -> None:
    call = call_of(ENVIRONMENT.op(op), [TensorType(F32, shape) for shape in shapes], settings)
    (y,) = evaluate(computation_of(ENVIRONMENT.op(op), call), [np.zeros(shape, np.float32) for shape in shapes])
    assert y.shape == call.outputs[0].shape
    assert not y.any()


def test_a_batch_of_quantised_matrices_has_a_scale_for_each_row() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (2, 3, 5), np.int8), rng.integers(-9, 9, (1, 5, 4), np.int8)
    scales, columns = rng.random(3, np.float32) + 1, np.float32(0.5)
    zeros, none, one = np.zeros(3, np.int8), np.int8(0), np.float32(2)
    given = [np.asarray(array) for array in (a, scales, zeros, b, columns, none, one, none)]
    types = [TensorType(dtype_named({"int8": "i8", "float32": "f32"}[g.dtype.name]), g.shape) for g in given]
    schema = ENVIRONMENT.op("qlinear_matmul")
    (y,) = evaluate(computation_of(schema, call_of(schema, types, {})), given)
    exactly = np.matmul(a.astype(np.int64), b.astype(np.int64)) * (scales.astype(np.float64) * 0.25)[:, None]
    np.testing.assert_array_equal(y, np.clip(np.rint(exactly), -128, 127).astype(np.int8))


def test_attention_without_depth_has_no_elements() -> None:
    schema = ENVIRONMENT.op("attn")
    types = [TensorType(F32, shape) for shape in ((7, 12), (5, 3, 4), (5, 3, 0))]
    call = call_of(schema, types, {})
    (y,) = evaluate(computation_of(schema, call), [np.ones(type_.shape, np.float32) for type_ in types])
    assert y.shape == (7, 0)


def test_calls_without_all_inputs_and_results_are_no_computations() -> None:
    """So they are of statements whose types do not fit at the sizes that stand for those known at run time only."""
    rows, mask = TensorType(F32, (0, 4)), TensorType(BOOL, (4, 4))
    schema = ENVIRONMENT.op("masked_select")
    for inputs, message in (((rows, mask), "2 results, found 1"), ((rows, None), "input number 2 is missing")):
        call = OpCall(op="masked_select", inputs=inputs, outputs=(TensorType(F32, (0,)),), settings={})
        with pytest.raises(OpTypeError, match=message):
            computation_of(schema, call)
