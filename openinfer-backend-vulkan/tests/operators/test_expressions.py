"""Every function of expressions on the device, against the NumPy renderer, on special values.

Tolerances are those that the Vulkan specification gives implementations (its appendix on the precision of SPIR-V
operations): division 2.5 units in the last place, sine and cosine an absolute error of 2^-11 between -pi and pi; and
those of the functions that are written out in GLSL. Everything else is exact. Subnormal numbers may be taken for zeros.
"""

from __future__ import annotations

import inspect
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.dtypes import BOOL, F32, I8, I32, U16, U32, DType
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.expr.tree import Expr, ExprError, Input
from openinfer.ir.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openinfer_backend_vulkan.backend import VulkanBackend

    Array = np.ndarray[Any, Any]

DTYPES = (F32, I32, U32, I8, U16, BOOL)
INF, NAN = float("inf"), float("nan")
TINY = float(np.finfo(np.float32).tiny)
HUGE = float(np.finfo(np.float32).max)

VALUES: dict[str, list[Any]] = {
    "f32": [
        *(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 0.1, -0.1, 1e-3, 1.25e-7),
        *(TINY, -TINY, HUGE, -HUGE, 16777216.0, 8388607.5, 2147483648.0, 2147483520.0, -2147483648.0, -2147483904.0),
        *(4294967296.0, 4294967040.0, 1e10, -1e10, 88.0, -87.0, 3.1415927),
    ],
    "i32": [
        *(0, 1, -1, 2, 3, -3, 7, 31, 32, 33, -32, 100, -100, 65536, 16777217, 1 << 30),
        *((1 << 31) - 1, -(1 << 31), 1 - (1 << 31)),
    ],
    "u32": [0, 1, 2, 3, 7, 31, 32, 33, 100, 65536, 16777217, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, (1 << 32) - 2],
    "i8": [0, 1, -1, 2, 3, -3, 7, 8, 9, -8, 100, -100, 127, -128, -127],
    "u16": [0, 1, 2, 3, 7, 15, 16, 17, 100, 255, 256, 32767, 32768, 65535],
    "bool": [False, True],
}

RELATIVE = {"div": 2e-7, "exp": 3e-5, "expm1": 3e-5, "log": 1.2e-7, "log1p": 2.4e-7, "sqrt": 3e-7, "power": 2e-3}
RELATIVE |= {"tan": 5e-3, "tanh": 1e-5, "erf": 1e-5}
ABSOLUTE = {"sin": 2.0**-11, "cos": 2.0**-11, "tan": 2.0**-10, "tanh": 1e-6, "erf": 1e-6}
NEAR_THE_ORIGIN = {"sin": 3.2, "cos": 3.2, "tan": 1.5}
"""Functions that the specification bounds between these arguments only."""


def storage(dtype: DType) -> np.dtype[Any]:
    return np.dtype(dtype.storage)


def builders() -> Iterator[tuple[str, tuple[DType, ...]]]:
    """Yield every function of `tree` with every choice of operand types that it takes, casts excepted."""
    for name, build in inspect.getmembers(tree, inspect.isfunction):
        parameters = inspect.signature(build).parameters.values()
        if name.startswith("_") or not parameters or any(p.annotation != "Expr" for p in parameters):
            continue
        for dtypes in itertools.product(DTYPES, repeat=len(parameters)):
            try:
                build(*(Input(n, dtype) for n, dtype in enumerate(dtypes)))
            except ExprError:
                continue
            yield name, dtypes


FUNCTIONS = list(builders())


def named(value: str | tuple[DType, ...]) -> str:
    return value if isinstance(value, str) else "-".join(map(str, value))


def combinations(dtypes: tuple[DType, ...]) -> list[Array]:
    """Return arrays that hold every combination of special values."""
    values = [VALUES[dtype.name] for dtype in dtypes]
    columns = zip(*itertools.product(*values), strict=True)
    return [np.array(column, storage(dtype)) for column, dtype in zip(columns, dtypes, strict=True)]


def on_device(device: VulkanBackend, expr: Expr, inputs: list[Array], dtypes: tuple[DType, ...]) -> Array:
    buffers = [device.upload(TensorType(d, a.shape), a) for d, a in zip(dtypes, inputs, strict=True)]
    output = device.allocate(TensorType(expr.dtype, np.broadcast_shapes(*(a.shape for a in inputs))))
    device.bind_expression(expr, buffers, output)()
    return device.read(output)


def by_numpy(expr: Expr, inputs: list[Array]) -> Array:
    out = np.empty(np.broadcast_shapes(*(a.shape for a in inputs)), storage(expr.dtype))
    with np.errstate(all="ignore"):
        compile_program(linearise(expr))(inputs, out)
    return out


def assert_equal(found: Array, expected: Array, inputs: list[Array], *, flushes: bool = False) -> None:
    """Check equality bit for bit, but that all NaNs are one, and with ``flushes`` that subnormals may be zeros."""
    same = found.view(np.uint8).reshape(found.size, -1) == expected.view(np.uint8).reshape(found.size, -1)
    good = same.all(1)
    if found.dtype == np.float32:
        good |= np.isnan(found) & np.isnan(expected)
        if flushes:
            good |= (found == 0) & (np.abs(expected) < np.finfo(np.float32).tiny)
    wrong = np.flatnonzero(~good)[:5]
    assert wrong.size == 0, [([a[n] for a in inputs], found[n], expected[n]) for n in wrong]


def assert_near(found: Array, expected: Array, inputs: list[Array], relative: float, absolute: float) -> None:
    """Check that values are near, and special values the same."""
    limit = np.maximum(relative * np.abs(expected.astype(np.float64)), absolute)
    with np.errstate(invalid="ignore"):
        near = np.abs(found.astype(np.float64) - expected.astype(np.float64)) <= np.maximum(limit, TINY)
    good = near | (found == expected) | (np.isnan(found) & np.isnan(expected))
    wrong = np.flatnonzero(~good)[:5]
    assert wrong.size == 0, [([a[n] for a in inputs], found[n], expected[n]) for n in wrong]


@pytest.mark.parametrize(
    ("name", "dtypes"), FUNCTIONS, ids=lambda v: v if isinstance(v, str) else "-".join(map(str, v))
)
def test_a_function_is_what_numpy_makes_of_it(device: VulkanBackend, name: str, dtypes: tuple[DType, ...]) -> None:
    expr = getattr(tree, name)(*(Input(n, dtype) for n, dtype in enumerate(dtypes)))
    inputs = combinations(dtypes)
    if name in NEAR_THE_ORIGIN:
        inputs = [inputs[0][np.isnan(inputs[0]) | (np.abs(inputs[0]) <= NEAR_THE_ORIGIN[name])]]
    if name == "scale":
        is_factor = np.isfinite(inputs[0]) & (inputs[0] > 0)
        inputs = [values[is_factor] for values in inputs]
    if name == "requantise":
        m, _, n, z = inputs
        is_exact = (m > 0) & (m.astype(np.float32).astype(np.float64) == m)
        has_meaning = is_exact & (n >= 0) & (n <= 31) & (np.abs(z.astype(np.int64)) <= 256)
        inputs = [values[has_meaning] for values in inputs]

    found, expected = on_device(device, expr, inputs, dtypes), by_numpy(expr, inputs)

    if name == "fma":
        # Vulkan lets a device round the product too.
        a, b, c = (Input(n, dtype) for n, dtype in enumerate(dtypes))
        apart = by_numpy(tree.add(tree.mul(a, b), c), inputs)
        expected = np.where((found == apart) | np.isnan(found), apart, expected)
    if expr.dtype.is_float and (name in RELATIVE or name in ABSOLUTE):
        assert_near(found, expected, inputs, RELATIVE.get(name, 0.0), ABSOLUTE.get(name, 0.0))
    else:
        # Drivers of GPUs may flush subnormal results, and some cannot be asked not to.
        assert_equal(found, expected, inputs, flushes=device._device.physical.kind != "software")


def test_no_function_is_left_out() -> None:
    operators = {name for name, build in inspect.getmembers(tree, inspect.isfunction) if _yields_apply(build)}

    assert {name for name, _ in FUNCTIONS} == operators
    assert {"add", "select", "logical_xor", "round_even", "sign_bit", "shr"} <= operators


def _yields_apply(build: Callable[..., object]) -> bool:
    return not build.__name__.startswith("_") and inspect.signature(build).return_annotation == "Apply"


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_a_cast_is_what_numpy_makes_of_it(device: VulkanBackend, source: DType, target: DType) -> None:
    expr, inputs = tree.cast(Input(0, source), target), combinations((source,))

    assert_equal(on_device(device, expr, inputs, (source,)), by_numpy(expr, inputs), inputs)


@pytest.mark.parametrize("value", VALUES["f32"][1:])
def test_a_literal_keeps_its_bits(device: VulkanBackend, value: float) -> None:
    expr = tree.select(tree.eq(Input(0, I32), tree.literal(0, I32)), tree.literal(value, F32), tree.literal(2.0, F32))

    found = on_device(device, expr, [np.zeros(1, np.int32)], (I32,))

    assert found.view(np.uint32).tolist() == [int(np.float32(value).view(np.uint32))]


@pytest.mark.parametrize(("one", "zero"), list(itertools.product([1.0, -1.0, 2.0], [0.0, -0.0])))
def test_a_choice_of_literals_keeps_the_sign_of_zero(device: VulkanBackend, one: float, zero: float) -> None:
    condition = np.array([True, False, True])
    for first, second in ((one, zero), (zero, one)):
        chosen = tree.select(Input(0, BOOL), tree.literal(first, F32), tree.literal(second, F32))
        target = device.allocate(TensorType(F32, (3,)))

        device.bind_expression(chosen, [device.upload(TensorType(BOOL, (3,)), condition)], target)()

        expected = np.where(condition, np.float32(first), np.float32(second))
        assert device.read(target).tobytes() == expected.tobytes()


def test_subnormal_numbers_are_kept_or_taken_for_zero(device: VulkanBackend) -> None:
    x = np.array([1e-40, -1e-40, TINY], np.float32)
    expr = tree.mul(Input(0, F32), tree.literal(0.5, F32))

    found = on_device(device, expr, [x], (F32,))

    exact = (x.astype(np.float64) * 0.5).astype(np.float32)
    assert all(f in (e, 0.0) for f, e in zip(found.tolist(), exact.tolist(), strict=True))


def test_a_product_and_a_sum_round_twice(device: VulkanBackend) -> None:
    a = np.linspace(1, 2, 999, dtype=np.float32)
    expr = tree.sub(tree.mul(Input(0, F32), Input(0, F32)), Input(1, F32))
    square = a * a

    found = on_device(device, expr, [a, square], (F32, F32))

    assert not found.any()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((), (3,)),
        ((4, 1), (1, 5)),
        ((2, 3, 4), (3, 1)),
        ((2, 1, 2, 1, 2, 1, 2, 1), (1, 3, 1, 2, 1, 2, 1, 3)),
        ((3, 3, 3, 3, 3, 3, 3, 3), (3,)),
        ((1,), (70000,)),
        ((0, 3), (1, 3)),
    ],
)
def test_inputs_are_broadcast(device: VulkanBackend, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a = np.arange(np.prod(left, dtype=int), dtype=np.int32).reshape(left)
    b = 1000 * np.arange(np.prod(right, dtype=int), dtype=np.int32).reshape(right)

    found = on_device(device, tree.add(Input(0, I32), Input(1, I32)), [a, b], (I32, I32))

    assert found.shape == (a + b).shape
    assert (found == a + b).all()


def test_the_output_may_be_an_input(device: VulkanBackend) -> None:
    x = np.arange(1000, dtype=np.float32)
    buffer = device.upload(TensorType(F32, x.shape), x)
    call = device.bind_expression(tree.add(Input(0, F32), Input(0, F32)), [buffer], buffer)

    call()
    call()

    assert (device.read(buffer) == 4 * x).all()


def test_an_input_that_is_not_read_may_be_left_out(device: VulkanBackend) -> None:
    x = np.arange(3, dtype=np.float32)
    output = device.allocate(TensorType(F32, (3,)))

    device.bind_expression(tree.neg(Input(1, F32)), [None, device.upload(output.type, x)], output)()

    assert device.read(output).tolist() == [-0.0, -1.0, -2.0]


def test_a_chain_of_a_thousand_functions_is_one_kernel(device: VulkanBackend) -> None:
    expr: Expr = Input(0, I32)
    for _ in range(1000):
        expr = tree.bit_xor(tree.add(expr, Input(0, I32)), tree.literal(1, I32))
    x = np.arange(10, dtype=np.int32)

    assert on_device(device, expr, [x], (I32,)).tolist() == by_numpy(expr, [x]).tolist()
