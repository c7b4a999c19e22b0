"""Quick ways through elementwise expressions: tables and blocks yield what the functions yield, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BF16, F8, F16, F32, DType
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.expr.tree import Expr
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, scalar_expression
from openinfer.plugins.environment import Environment
from openinfer_backend_cpu import blocks, tables
from openinfer_backend_cpu.backend import CpuBackend
from openinfer_backend_cpu.elementwise import bind_program
from openinfer_backend_cpu.workspace import Workspace

COUNT = 1 << 16


def every_pair(dtype: DType) -> list[np.ndarray]:
    """Return two arrays with every code: all pairs of codes of 8 bits, some pairs of codes of 16 bits."""
    codes = np.arange(COUNT, dtype=np.uint16)
    if dtype.bits == 16:
        return [codes.view(storage_dtype(dtype)), np.roll(codes, 12345).view(storage_dtype(dtype))]
    return [half.astype(np.uint8).view(storage_dtype(dtype)) for half in (codes & 255, codes >> 8)]


def expression(op: str, dtype: DType, inputs: int, **settings: float) -> tuple[Expr, TensorType]:
    schema = Environment.default().op(op)
    call = call_of(schema, [TensorType(dtype, (COUNT,))] * inputs, settings)
    return scalar_expression(schema, call), call.outputs[0]


def on_the_device(expr: Expr, arrays: list[np.ndarray], dtype: DType, out: TensorType) -> np.ndarray:
    backend = CpuBackend()
    buffers = [backend.upload(TensorType(dtype, array.shape), array) for array in arrays]
    target = backend.allocate(out)
    bound = backend.bind_expression(expr, buffers, target)
    with np.errstate(all="ignore"):
        bound()
        bound()
    return backend.read(target)


def by_functions(expr: Expr, arrays: list[np.ndarray], out: TensorType) -> np.ndarray:
    target = np.empty(out.shape, storage_dtype(out.dtype))
    with np.errstate(all="ignore"):
        compile_program(linearise(expr))(arrays, target)
    return target


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and np.array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


@pytest.mark.parametrize("dtype", [F8, F16, BF16, F32], ids=str)
@pytest.mark.parametrize(("op", "inputs"), [("gelu", 1), ("exp", 1), ("is_nan", 1), ("add", 2), ("max", 2), ("lt", 2)])
def test_quick_ways_yield_what_functions_yield(dtype: DType, op: str, inputs: int) -> None:
    if dtype is F32:
        arrays = [np.random.default_rng(n).standard_normal(COUNT, dtype=np.float32) for n in range(inputs)]
    else:
        arrays = every_pair(dtype)[:inputs]
    expr, out = expression(op, dtype, inputs)

    assert same_bits(on_the_device(expr, arrays, dtype, out), by_functions(expr, arrays, out))


def test_literals_that_are_zeros_of_other_sign_have_tables_of_their_own() -> None:
    arrays = every_pair(F8)[:1]
    found = [
        on_the_device(*(lambda made: (made[0], arrays, F8, made[1]))(expression("fill_nan_like", F8, 1, value=zero)))
        for zero in (0.0, -0.0)
    ]
    nan = np.isnan(arrays[0].astype(np.float32))
    assert [np.signbit(each[nan].astype(np.float32)).all() for each in found] == [False, True]


def test_a_result_may_be_written_over_its_operand() -> None:
    for dtype, count in [(F8, COUNT), (F32, 3 * blocks.BLOCK + 5)]:
        values = np.random.default_rng(1).standard_normal(count).astype(storage_dtype(dtype))
        expr, _ = expression("silu", dtype, 1)
        out = TensorType(dtype, (count,))
        backend = CpuBackend()
        buffer = backend.upload(out, values.copy())
        backend.bind_expression(expr, [buffer], buffer)()
        assert same_bits(backend.read(buffer), by_functions(expr, [values], out))


def test_blocks_take_scalars_along_and_other_broadcasts_are_left_alone() -> None:
    values = np.random.default_rng(1).standard_normal((4, blocks.BLOCK), dtype=np.float32)
    expr, _ = expression("mod", F32, 2)
    for divisor in (np.float32(0.3), values[0] + 3):
        arrays = [values, np.asarray(divisor)]
        out = TensorType(F32, values.shape)
        assert same_bits(on_the_device(expr, arrays, F32, out), by_functions(expr, arrays, out))


def test_blocks_share_their_scratch_memory() -> None:
    count = 64 * blocks.BLOCK
    program = linearise(expression("gelu", F32, 1)[0])
    values, out = np.ones(count, np.float32), np.empty(count, np.float32)
    workspace = Workspace()
    bind_program(program, [values], out, workspace)
    assert workspace.nbytes < values.nbytes


def test_small_arrays_are_computed() -> None:
    expr, _ = expression("gelu", BF16, 1)
    values = np.ones(16, storage_dtype(BF16))
    target = np.empty_like(values)
    assert tables.bind_table(linearise(expr), [values], target, Workspace()) is None
