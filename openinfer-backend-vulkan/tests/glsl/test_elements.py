"""Elements in storage buffers: bytes of the host's form, in shaders natively or packed in words, with equal results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.compute.reading import parse_computation
from openinfer.dtypes import BF16, BOOL, BUILTIN, F8, F16, F32, I4, I8, I16, T1, T2, U4, U8, U16, DType
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.packing import pack, unpack
from openinfer_backend_vulkan.api import physical
from openinfer_backend_vulkan.glsl.computations import shaders_of
from openinfer_backend_vulkan.glsl.elements import Elements
from openinfer_backend_vulkan.glsl.shaders import ShaderTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer_backend_vulkan.backend import VulkanBackend

    Array = np.ndarray[Any, Any]

NARROW = [dtype for dtype in BUILTIN if dtype.bits < 32]


@pytest.fixture(params=[True, False], ids=["native", "packed"])
def either(device: VulkanBackend, request: pytest.FixtureRequest) -> Iterator[VulkanBackend]:
    """The device as it is, and one whose storage buffers hold no elements of 8 and 16 bits."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.param:
            patch.setattr(physical, "_narrow", lambda *_: frozenset[int]())
        elif device._device.physical.narrow != {8, 16}:
            pytest.skip("this device has no storage of 8 and 16 bits")
        backend = type(device)()
    yield backend
    backend.close()


def codes(dtype: DType, count: int) -> Array:
    """Return elements of all kinds of bits in storage form."""
    generator = np.random.default_rng(dtype.bits)
    if dtype.is_packed:
        return pack(generator.integers(0, 1 << dtype.bits, count, dtype=np.uint8), dtype)
    if dtype is BOOL:
        return generator.integers(0, 2, count).astype(np.bool_)
    return generator.integers(0, 256, count * dtype.bits // 8, dtype=np.uint8)


def moved(dtype: DType, count: int) -> str:
    return f"""
def reversed(x: {dtype}[{count}], /, y: {dtype}[{count}]):
    for i in grid({count}):
        y[i] = x[{count - 1} - i]
"""


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_moved_elements_keep_their_bits(either: VulkanBackend, dtype: DType) -> None:
    kind = TensorType(dtype, (1001,))
    given = codes(dtype, 1001)
    source = either.upload(kind, given if dtype.is_packed or dtype is BOOL else given.view(storage_dtype(dtype)))
    target = either.upload(kind, _all_ones(kind))

    either.bind_computation(parse_computation(moved(dtype, 1001)), [source], [target])()

    found = either.read(target)
    if dtype.is_packed:
        assert unpack(found, dtype, (1001,)).tolist() == unpack(given, dtype, (1001,)).tolist()[::-1]
        assert found[-1] >> (1001 * dtype.bits % 8 or 8) == 0
    else:
        assert found.view(given.dtype).tobytes() == given.reshape(1001, -1)[::-1].tobytes()


@pytest.mark.parametrize("dtype", [I4, U4, I8, U8, I16, U16, T1, T2, BOOL], ids=str)
def test_whole_numbers_are_read_and_stored_exactly(either: VulkanBackend, dtype: DType) -> None:
    least, most = (0, 1) if dtype is BOOL else (dtype.minimum or 0, dtype.maximum or 0)
    values = np.array([number for number in (least, most) * 100 if not (dtype is T1 and not number)])
    source = either.upload(TensorType(F32, values.shape), values.astype(np.float32))
    held, back = either.allocate(TensorType(dtype, values.shape)), either.allocate(TensorType(F32, values.shape))

    either.bind_expression(tree.cast(tree.Input(0, F32), dtype), [source], held)()
    either.bind_expression(tree.cast(tree.Input(0, dtype), F32), [held], back)()

    assert either.read(back).tolist() == values.tolist()


@pytest.mark.parametrize("dtype", [F8, F16, BF16], ids=str)
def test_low_floats_are_computed_in(either: VulkanBackend, dtype: DType) -> None:
    values = np.array([0.0, -0.0, 1.0, -2.5, np.inf] * 13, np.float32)
    kind = TensorType(dtype, values.shape)
    source = either.upload(kind, values.astype(storage_dtype(dtype)))
    doubled = either.allocate(kind)
    x = tree.cast(tree.Input(0, dtype), F32)

    either.bind_expression(tree.cast(tree.add(x, x), dtype), [source], doubled)()

    assert either.read(doubled).astype(np.float32).tobytes() == (values * 2).tobytes()


def test_elements_that_share_a_word_are_stored_apart(either: VulkanBackend) -> None:
    """Each of 4,096 invocations stores one half of a byte; none may undo another."""
    kind = TensorType(I4, (4096,))
    held = either.allocate(kind)
    numbers = either.upload(TensorType(I8, (4096,)), (np.arange(4096) % 16 - 8).astype(np.int8))

    for _ in range(4):
        either.bind_expression(tree.cast(tree.Input(0, I8), I4), [numbers], held)()

        assert (unpack(either.read(held), I4, (4096,)) == np.arange(4096) % 16 - 8).all()


def test_tensors_take_the_bytes_of_their_elements(either: VulkanBackend) -> None:
    for dtype, nbytes in ((F16, 2000), (I8, 1000), (BOOL, 1000), (I4, 500), (T2, 252), (T1, 128)):
        assert either.allocate(TensorType(dtype, (1000,))).storage.nbytes == nbytes


def test_a_shader_declares_what_its_device_can_hold() -> None:
    computation = parse_computation(moved(I16, 8))

    (words,), (native,) = (
        [shader.source for stage in shaders_of(computation, ShaderTarget(narrow=narrow)) for shader in stage.shaders]
        for narrow in (frozenset[int](), frozenset({8, 16}))
    )

    assert "uint b_x[];" in words
    assert "atomicOr(" in words
    assert "16bit_storage" not in words
    assert "#extension GL_EXT_shader_16bit_storage : require" in native
    assert "uint16_t b_x[];" in native
    assert "atomic" not in native


def test_signs_are_extended_where_numbers_are_computed_with() -> None:
    assert Elements(I4, is_computed=True).load("x", "e") == ("bitfieldExtract(int(x[e >> 3]), int((e & 7u) << 2), 4)")
    assert Elements(I8, is_computed=True, narrow=frozenset({8})).load("x", "3") == "int(x[3])"
    assert Elements(I8, is_computed=False, narrow=frozenset({8})).declared == "uint8_t"


def _all_ones(kind: TensorType) -> Array:
    ones = np.full(kind.nbytes, 0xFF, np.uint8)
    if kind.dtype.is_packed:
        return ones
    return np.ones(kind.shape, np.bool_) if kind.dtype is BOOL else ones.view(storage_dtype(kind.dtype))


def test_no_bits_of_a_word_change_before_the_value_is_there() -> None:
    """What is stored may be computed from the element that it replaces; a driver moves loads after other atomics."""
    (statements,) = Elements(U4, is_computed=True).store("y", "i", "x_i + 1")
    named, *atomics = (part for part in statements.strip("{} ").split(";") if part.strip())

    assert "x_i + 1" in named
    assert len(atomics) == 2
    assert all("stored_bits" in each and "x_i" not in each for each in atomics)


def test_running_sums_of_nothing_are_nothing(carry_out: Any) -> None:
    assert carry_out("cumsum", np.zeros((9, 1, 0, 1), np.float16), axis=-2).shape == (9, 1, 0, 1)
