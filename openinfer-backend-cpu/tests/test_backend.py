"""The device cpu: memory, fills, copies, expressions and folds on the storage forms of the element types."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.dtypes import BOOL, BUILTIN, F32, F64, I4, I8, I32, I64, T1, U2, DType
from openinfer.errors import DeviceError
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.schema import Fold, Loops
from openinfer.packing import pack, unpack
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.scalars import decode_bits, encode_bits
from openinfer_backend_cpu import plugin
from openinfer_backend_cpu.backend import CpuBackend
from openinfer_backend_cpu.folding import EmptySliceError
from openinfer_backend_cpu.probe import probe
from openinfer_backend_cpu.workspace import Workspace

PACKED = [dtype for dtype in BUILTIN if dtype.is_packed]


@pytest.fixture
def backend() -> CpuBackend:
    return CpuBackend()


@pytest.mark.rule("runtime.devices.3")
def test_the_device_is_always_there() -> None:
    (spec,) = plugin.openinfer_devices()
    assert spec.name == CpuBackend().name == "cpu"
    assert probe().available


def test_kernels_are_offered_to_no_other_device() -> None:
    assert list(plugin.openinfer_kernels("vulkan")) == []
    assert {spec.op for spec in plugin.openinfer_kernels("cpu")} >= {"matmul", "linear", "conv2d", "reshape"}


def test_there_is_one_device_only() -> None:
    with pytest.raises(DeviceError, match="number 1"):
        CpuBackend(1)


@pytest.mark.rule("dtypes.packing.1", "dtypes.packing.2")
@given(data=st.data(), dtype=st.sampled_from(PACKED), count=st.integers(0, 20))
def test_packing_is_the_bit_stream_of_the_specification(data: st.DataObject, dtype: DType, count: int) -> None:
    codes = st.integers(0, (1 << dtype.bits) - 1).filter(lambda code: not (dtype.name == "t2" and code == 2))
    drawn = data.draw(st.lists(codes, min_size=count, max_size=count))
    stream = sum(code << (index * dtype.bits) for index, code in enumerate(drawn))
    stored = np.frombuffer(stream.to_bytes(dtype.storage_nbytes(count), "little"), np.uint8)
    values = unpack(stored, dtype, (count,))
    assert values.tolist() == [decode_bits(dtype, code) for code in drawn]
    assert pack(values, dtype).tobytes() == stored.tobytes()


@pytest.mark.parametrize(("dtype", "stored"), [(I4, "d870f639"), (U2, "e41b"), (T1, "0a")], ids=["i4", "u2", "t1"])
def test_packing_of_the_specifications_examples(dtype: DType, stored: str) -> None:
    examples = {"i4": [-8, -3, 0, 7, 6, -1, -7, 3], "u2": [0, 1, 2, 3, 3, 2, 1, 0], "t1": [-1, 1, -1, 1]}
    values = np.array(examples[dtype.name], np.int8)
    assert pack(values, dtype).tobytes().hex() == stored


@pytest.mark.parametrize("dtype", BUILTIN, ids=str)
def test_a_fill_stores_the_bits_of_its_value(backend: CpuBackend, dtype: DType) -> None:
    value = 1.0 if dtype.is_float else 1 if dtype.maximum else -1
    buffer = backend.allocate(TensorType(dtype, (9,)))
    backend.bind_fill(buffer, value)()
    code = encode_bits(dtype, value)
    stream = sum(code << place * dtype.bits for place in range(9))
    assert backend.read(buffer).tobytes() == stream.to_bytes(buffer.type.nbytes, "little")


def test_a_read_is_a_copy_and_a_copy_is_independent(backend: CpuBackend) -> None:
    kind = TensorType(I32, (2,))
    source, target = backend.allocate(kind), backend.allocate(kind)
    backend.write(source, np.array([1, 2], np.int32))
    backend.bind_copy(source, target)()
    seen = backend.read(target)
    backend.write(source, np.array([3, 4], np.int32))
    seen[0] = 9
    assert backend.read(target).tolist() == [1, 2]


def test_a_write_of_another_type_is_refused(backend: CpuBackend) -> None:
    buffer = backend.allocate(TensorType(I32, (2,)))
    with pytest.raises(TypeError):
        backend.write(buffer, np.array([1, 2], np.int64))


def test_an_uploaded_array_is_not_copied(backend: CpuBackend) -> None:
    array = np.zeros(3, np.float32)
    assert backend.upload(TensorType(F32, (3,)), array).array is array


def test_an_expression_broadcasts_and_may_write_its_input(backend: CpuBackend) -> None:
    row, scalar = TensorType(F32, (3,)), TensorType(F32)
    x = backend.allocate(row)
    backend.write(x, np.array([1, 2, 3], np.float32))
    two = backend.upload(scalar, np.array(2, np.float32))
    left, right = tree.Input(0, F32), tree.Input(2, F32)
    backend.bind_expression(tree.sub(tree.mul(left, right), left), [x, None, two], x)()
    assert backend.read(x).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.rule("dtypes.computing.2")
def test_an_expression_on_packed_elements_wraps_at_their_width(backend: CpuBackend) -> None:
    kind = TensorType(I4, (3,))
    x, y = backend.upload(kind, pack(np.array([7, -8, 3], np.int8), I4)), backend.allocate(kind)
    element = tree.cast(tree.Input(0, I4), I8)
    backend.bind_expression(tree.cast(tree.add(element, element), I4), [x], y)()
    assert unpack(backend.read(y), I4, (3,)).tolist() == [-2, 0, 6]


def subtraction(start: int | None) -> Fold:
    accumulator, element = tree.Input(0, I64), tree.Input(1, I64)
    first = None if start is None else tree.literal(start, I64)
    return Fold(
        first, tree.cast(tree.Input(0, I32), I64), tree.sub(accumulator, element), tree.mul(accumulator, element)
    )


SOME_AXES = [axes for count in range(4) for axes in itertools.combinations(range(3), count)]


def folded_by_subtraction(x: np.ndarray, axes: tuple[int, ...], start: int | None) -> np.ndarray:
    kept = tuple(axis for axis in range(3) if axis not in axes)
    expected = np.empty(tuple(x.shape[axis] for axis in kept), np.int64)
    for position in np.ndindex(*expected.shape):
        index: list[slice | int] = [slice(None)] * 3
        for axis, place in zip(kept, position, strict=True):
            index[axis] = place
        elements = [int(e) for e in np.ravel(x[tuple(index)])]
        total = elements[0] if start is None else start
        for element in elements[1:] if start is None else elements:
            total -= element
        expected[position] = total * len(elements)
    return expected


@pytest.mark.parametrize("axes", SOME_AXES)
@pytest.mark.parametrize("start", [None, 100])
def test_a_fold_takes_the_elements_of_each_run_in_row_major_order(
    backend: CpuBackend, axes: tuple[int, ...], start: int | None
) -> None:
    shape = (2, 3, 4)
    kept = tuple(shape[axis] for axis in range(3) if axis not in axes)
    kept_with_ones = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    source = backend.allocate(TensorType(I32, shape))
    targets = [backend.allocate(TensorType(I64, out)) for out in (kept, kept_with_ones)]
    bound = [backend.bind_fold(axes, subtraction(start), source, target) for target in targets]
    for run in range(3):
        x = np.arange(run, run + 24, dtype=np.int32).reshape(shape) ** 2
        backend.write(source, x)
        expected = folded_by_subtraction(x, axes, start)
        for call, target in zip(bound, targets, strict=True):
            call()
            assert np.array_equal(backend.read(target).reshape(kept), expected)


def test_a_fold_without_a_start_refuses_an_empty_slice(backend: CpuBackend) -> None:
    source = backend.allocate(TensorType(I32, (2, 0)))
    with pytest.raises(EmptySliceError, match="empty"):
        backend.bind_fold((1,), subtraction(None), source, backend.allocate(TensorType(I64, (2,))))


def test_a_fold_of_no_elements_is_its_start(backend: CpuBackend) -> None:
    source, target = backend.allocate(TensorType(I32, (2, 0))), backend.allocate(TensorType(I64, (2,)))
    fold = Fold(tree.literal(7, I64), tree.cast(tree.Input(0, I32), I64), subtraction(0).combine, tree.Input(0, I64))
    backend.bind_fold((1,), fold, source, target)()
    assert backend.read(target).tolist() == [7, 7]


def test_a_bool_fold_keeps_its_type(backend: CpuBackend) -> None:
    source = backend.upload(TensorType(BOOL, (3,)), np.array([True, False, True]))
    target = backend.allocate(TensorType(BOOL, (1,)))
    so_far, element = tree.Input(0, BOOL), tree.Input(1, BOOL)
    fold = Fold(tree.literal(True, BOOL), so_far, tree.logical_and(so_far, element), so_far)
    backend.bind_fold((0,), fold, source, target)()
    assert backend.read(target).tolist() == [False]


SELECTED = {
    F32: np.array([1.5, -0.0, math.nan, -math.inf], np.float32),
    F64: np.array([1.5, -0.0, math.nan, -math.inf], np.float64),
    I8: np.array([-128, 127, 0, -1], np.int8),
    I64: np.array([-(2**63), 2**63 - 1, 0, -1], np.int64),
    BOOL: np.array([True, False, True, False]),
}


@pytest.mark.parametrize("target", ["new", "first", "second"])
@pytest.mark.parametrize("dtype", SELECTED, ids=str)
def test_a_selection_takes_bits_as_they_are(backend: CpuBackend, dtype: DType, target: str) -> None:
    kind = TensorType(dtype, (4,))
    a, b, new = (backend.allocate(kind) for _ in range(3))
    values = SELECTED[dtype]
    backend.write(a, values)
    backend.write(b, values[::-1].copy())
    condition = backend.upload(TensorType(BOOL, (4,)), np.array([True, False, False, True]))
    out = {"new": new, "first": a, "second": b}[target]
    backend.bind_expression(
        tree.select(tree.Input(0, BOOL), tree.Input(1, dtype), tree.Input(2, dtype)), [condition, a, b], out
    )()
    expected = [values[0], values[2], values[1], values[3]]
    assert backend.read(out).tobytes() == np.array(expected).tobytes()


@pytest.mark.parametrize("dtype", [F32, F64, I8, I64], ids=str)
def test_a_selection_of_zero_leaves_the_other_value_whole(backend: CpuBackend, dtype: DType) -> None:
    kind = TensorType(dtype, (4,))
    x = backend.allocate(kind)
    values = SELECTED[dtype]
    backend.write(x, values)
    element, zero = tree.Input(0, dtype), tree.literal(0, dtype)
    backend.bind_expression(tree.select(tree.lt(element, zero), zero, element), [x], x)()
    expected = [v if not v < 0 else v * 0 for v in values[:3]] + [0]
    assert backend.read(x).tobytes() == np.array(expected, values.dtype).tobytes()


def test_an_expression_in_steps_reuses_its_temporaries_in_the_right_order(backend: CpuBackend) -> None:
    kind = TensorType(F32, (3,))
    x, y = backend.allocate(kind), backend.allocate(kind)
    given = np.array([0.5, -2.0, 3.0], np.float32)
    backend.write(x, given)
    a = tree.Input(0, F32)
    square = tree.mul(a, a)
    total = tree.add(tree.sub(square, a), tree.mul(tree.add(square, a), tree.maximum(square, a)))
    bound = backend.bind_expression(tree.sub(total, square), [x], y)
    bound()
    bound()
    exact = [(v * v - v) + (v * v + v) * max(v * v, v) - v * v for v in given.tolist()]
    assert backend.read(y).tolist() == pytest.approx(exact)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["i1", "f4", "f8"])), max_size=6), min_size=1, max_size=5
    )
)
def test_scratch_arrays_of_one_call_never_overlap(calls: list[list[tuple[int, str]]]) -> None:
    workspace = Workspace()
    for wanted in calls:
        workspace.begin()
        taken = [workspace.take((count,), np.dtype(kind)) for count, kind in wanted]
        for number, array in enumerate(taken):
            array.fill(number)
        for number, array in enumerate(taken):
            assert array.tolist() == [number] * array.size
            assert array.ctypes.data % array.itemsize == 0


def test_calls_share_their_scratch_memory() -> None:
    workspace = Workspace()
    for size in (10, 1000, 100, 1000):
        workspace.begin()
        workspace.take((size,), np.dtype(np.float32))
        workspace.take((size,), np.dtype(np.float64))
    assert workspace.nbytes <= 2 * 1000 * (4 + 8)


def test_calls_bound_one_after_the_other_do_not_disturb_each_other(backend: CpuBackend) -> None:
    kinds = [TensorType(I4, (count,)) for count in (5, 300, 7)]
    buffers = [backend.upload(kind, pack(np.arange(kind.count, dtype=np.int8) % 8, I4)) for kind in kinds]
    element = tree.cast(tree.Input(0, I4), I8)
    square = tree.cast(tree.mul(element, element), I4)
    targets = [backend.allocate(kind) for kind in kinds]
    bound = [backend.bind_expression(square, [b], t) for b, t in zip(buffers, targets, strict=True)]
    for call in (*bound, *reversed(bound)):
        call()
    for kind, target in zip(kinds, targets, strict=True):
        found = unpack(backend.read(target), I4, kind.shape).tolist()
        assert found == [((v % 8) ** 2 + 8) % 16 - 8 for v in range(kind.count)]


def test_no_operator_of_the_catalogue_is_interpreted_element_by_element() -> None:
    environment = Environment.default()
    kernels = kernel_table(environment, environment.devices["cpu"]).kernels
    looped = [schema for schema in environment.ops.values() if isinstance(schema.definition, Loops)]
    covered = {
        schema.name: frozenset[str]().union(*(spec.dtypes or schema.dtypes for spec in kernels.get(schema.name, ())))
        for schema in looped
    }
    assert looped
    assert not [schema.name for schema in looped if not schema.dtypes <= covered[schema.name]]
