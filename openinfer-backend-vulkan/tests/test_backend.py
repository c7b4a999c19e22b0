"""Buffers and calls of the device: what is stored comes back, calls run in order, and nothing leaks."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from openinfer.dtypes import BUILTIN, F32, I8, I32, T1, DType
from openinfer.errors import DeviceError
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.packing import pack
from openinfer.testing.waiting import limit_s
from openinfer_backend_vulkan.api import fences, native
from openinfer_backend_vulkan.api.native import VulkanCallError
from openinfer_backend_vulkan.queue import commands

if TYPE_CHECKING:
    from openinfer_backend_vulkan.backend import VulkanBackend

by_dtype = pytest.mark.parametrize("dtype", BUILTIN, ids=str)


def stored(dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return some content in storage form."""
    kind = TensorType(dtype, shape)
    generator = np.random.default_rng(7)
    if dtype.is_packed:
        return pack(generator.integers(0, 1 << dtype.bits, kind.count, dtype=np.uint8), dtype)
    if dtype.name == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    storage = np.dtype(getattr(ml_dtypes, dtype.storage, None) or dtype.storage)
    if dtype.is_float:
        return generator.normal(size=shape).astype(storage)
    limits = np.iinfo(storage)
    values = generator.integers(limits.min, limits.max, shape, dtype=storage, endpoint=True)
    values.reshape(-1)[:1], values.reshape(-1)[1:2] = limits.min, limits.max
    return values


def same(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


@by_dtype
@pytest.mark.parametrize("shape", [(3, 5), (7,), (2, 0, 3)])
def test_what_is_written_is_read(device: VulkanBackend, dtype: DType, shape: tuple[int, ...]) -> None:
    kind = TensorType(dtype, shape)
    content = (
        stored(dtype, shape) if kind.count else stored(dtype, (8,))[:0].reshape((0,) if dtype.is_packed else shape)
    )
    buffer = device.allocate(kind)

    device.write(buffer, content)

    assert same(device.read(buffer), content)


@by_dtype
def test_a_scalar_is_uploaded(device: VulkanBackend, dtype: DType) -> None:
    content = stored(dtype, (1,)) if dtype.is_packed else stored(dtype, (2,))[0].reshape(())

    assert same(device.read(device.upload(TensorType(dtype), content)), content)


@by_dtype
def test_a_new_buffer_is_all_zeros(device: VulkanBackend, dtype: DType) -> None:
    dirty = device.upload(TensorType(dtype, (64,)), stored(dtype, (64,)))
    del dirty
    gc.collect()

    assert not device.read(device.allocate(TensorType(dtype, (64,)))).view(np.uint8).any()


@by_dtype
def test_a_copy_is_equal_and_apart(device: VulkanBackend, dtype: DType) -> None:
    kind, content = TensorType(dtype, (3, 3)), stored(dtype, (3, 3))
    source, target = device.upload(kind, content), device.allocate(kind)

    device.bind_copy(source, target)()
    device.write(source, np.zeros_like(content))

    assert same(device.read(target), content)


def test_a_new_buffer_of_t1_holds_minus_one_in_shaders_too(device: VulkanBackend) -> None:
    zeros = device.allocate(TensorType(T1, (5,)))
    numbers = device.allocate(TensorType(I8, (5,)))

    device.bind_expression(tree.cast(tree.Input(0, T1), I8), [zeros], numbers)()

    assert device.read(numbers).tolist() == [-1] * 5


@by_dtype
def test_a_fill_sets_every_element(device: VulkanBackend, dtype: DType) -> None:
    kind = TensorType(dtype, (16,))
    value: float = 1.5 if dtype.is_float else 1 if dtype.kind.value in ("bool", "ternary") else dtype.minimum or 1
    buffer = device.upload(kind, stored(dtype, (16,)))

    device.bind_fill(buffer, value)()

    found = device.read(buffer)
    if dtype.is_packed:
        code = {"i1": 0xFF, "i2": 0xAA, "i4": 0x88, "u1": 0xFF, "u2": 0x55, "u4": 0x11, "t1": 0xFF, "t2": 0x55}
        assert found.tolist() == [code[dtype.name]] * kind.nbytes
    else:
        assert found.tolist() == [value] * 16


@pytest.mark.parametrize("value", [-0.0, float("inf"), float("nan")])
def test_a_fill_keeps_the_bits_of_special_floats(device: VulkanBackend, value: float) -> None:
    buffer = device.allocate(TensorType(F32, (2,)))

    device.bind_fill(buffer, value)()

    assert device.read(buffer).view(np.uint32).tolist() == [int(np.float32(value).view(np.uint32))] * 2


def test_calls_run_in_the_order_they_were_made(device: VulkanBackend) -> None:
    kind = TensorType(I32, (1000,))
    a, b, c = (device.allocate(kind) for _ in range(3))
    calls = [device.bind_fill(a, 1), device.bind_copy(a, b), device.bind_fill(a, 2), device.bind_copy(b, c)]

    for call in [*calls, device.bind_copy(a, b)]:
        call()

    assert [int(device.read(buffer)[999]) for buffer in (a, b, c)] == [2, 2, 1]


def test_more_calls_than_the_queue_holds_all_run(device: VulkanBackend) -> None:
    kind = TensorType(I32, (4,))
    ring = [device.upload(kind, np.full(4, n, np.int32)) for n in range(3)]
    spare = device.allocate(kind)
    rotate = [
        device.bind_copy(ring[0], spare),
        device.bind_copy(ring[1], ring[0]),
        device.bind_copy(ring[2], ring[1]),
        device.bind_copy(spare, ring[2]),
    ]

    for _ in range(700):
        for call in rotate:
            call()

    assert [int(device.read(buffer)[0]) for buffer in ring] == [1, 2, 0]


def test_a_write_waits_for_calls_that_read_the_buffer(device: VulkanBackend) -> None:
    kind = TensorType(F32, (100_000,))
    source, target = device.upload(kind, np.ones(100_000, np.float32)), device.allocate(kind)

    device.bind_copy(source, target)()
    device.write(source, np.zeros(100_000, np.float32))

    assert device.read(target).min() == 1.0


def test_two_submissions_are_under_way_before_one_is_waited_for(
    device: VulkanBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    wait = fences.Fence.wait
    monkeypatch.setattr(fences.Fence, "wait", lambda fence: (waits.append(fence._is_pending), wait(fence)))
    buffer = device.allocate(TensorType(F32, (4,)))
    fills = [device.bind_fill(buffer, value) for value in (1.0, 2.0, 3.0)]
    device.synchronize()
    waits.clear()

    for fill in fills[:2]:
        fill()
        device._queue.submit()
    assert not any(waits)

    fills[2]()
    device._queue.submit()
    assert sum(waits) == 1
    assert device.read(buffer).tolist() == [3.0] * 4


def test_a_step_that_repeats_is_recorded_once(device: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[int] = []
    record = commands._record
    monkeypatch.setattr(commands, "_record", lambda *args: (recorded.append(len(args[1])), record(*args)))
    kind = TensorType(F32, (4,))
    a, b = device.allocate(kind), device.allocate(kind)
    step = [device.bind_fill(a, 3.0), device.bind_copy(a, b)]
    device.synchronize()

    for _ in range(5):
        for call in step:
            call()
        assert device.read(b).tolist() == [3.0] * 4

    assert recorded == [2]


@pytest.mark.parametrize("function", ["vkResetFences", "vkGetFenceStatus"])
def test_work_goes_on_after_an_interrupt(device: VulkanBackend, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    other = type(device)()
    buffer = other.allocate(TensorType(F32, (2,)))
    fills = [other.bind_fill(buffer, value) for value in (1.0, 2.0)]
    checked = native.check

    def interrupted(called: str, code: int) -> None:
        checked(called, code)
        if called == function:
            raise KeyboardInterrupt

    def in_time(called: str, code: int) -> None:
        checked(called, code)
        assert code != native.library().VK_TIMEOUT

    for number, fill in enumerate(fills):
        fill()
        with monkeypatch.context() as patch:
            patch.setattr(native, "check", interrupted)
            patch.setattr(fences, "check", interrupted)
            with pytest.raises(KeyboardInterrupt):
                other.synchronize()
        with monkeypatch.context() as patch:
            patch.setattr(fences, "_WAIT_NS", 10**10)
            patch.setattr(fences, "check", in_time)
            assert other.read(buffer).tolist() == [1.0 + number] * 2
    other.close()


def test_what_is_read_is_private(device: VulkanBackend) -> None:
    buffer = device.upload(TensorType(F32, (2,)), np.ones(2, np.float32))

    device.read(buffer)[:] = 9.0

    assert device.read(buffer).tolist() == [1.0, 1.0]


def test_dropped_buffers_and_calls_return_their_memory(device: VulkanBackend) -> None:
    kind, owned = TensorType(F32, (5_000_000,)), []

    for _ in range(12):
        a, b = device.allocate(kind), device.allocate(kind)
        device.bind_copy(a, b)()
        device.synchronize()
        del a, b
        gc.collect()
        device.allocate(TensorType(F32))
        owned.append((len(device._memory._tensors._blocks), len(device._device._owned)))

    assert owned[-1] == owned[2]


def test_a_buffer_of_another_device_is_refused(device: VulkanBackend) -> None:
    with pytest.raises(TypeError, match="expected a buffer of the device vulkan, found object"):
        device.read(object())  # type: ignore[arg-type]


def test_a_tensor_larger_than_a_buffer_may_be_is_refused(device: VulkanBackend) -> None:
    with pytest.raises(DeviceError, match="more than a storage buffer may have here") as caught:
        device.allocate(TensorType(F32, (1 << 40,)))
    assert caught.value.code == "too-large"


def test_a_device_number_that_is_not_there_names_those_that_are(device: VulkanBackend) -> None:
    with pytest.raises(DeviceError, match=r"there is no Vulkan device number 99; there are: 0 \("):
        type(device)(99)


def test_devices_can_be_opened_and_closed_hundreds_of_times(device: VulkanBackend) -> None:
    kind = TensorType(F32, (2,))
    for _ in range(200):
        other = type(device)()
        other.write(other.allocate(kind), np.zeros(2, np.float32))
        other.close()


def test_a_closed_device_says_so(device: VulkanBackend) -> None:
    other = type(device)()
    buffer = other.allocate(TensorType(F32, (2,)))
    call = other.bind_fill(buffer, 1.0)
    call()

    other.close()
    other.close()

    for use in (other.synchronize, lambda: other.read(buffer), lambda: other.allocate(TensorType(F32))):
        with pytest.raises(DeviceError, match="the device vulkan was closed"):
            use()


def test_calls_of_a_closed_device_never_reach_the_driver(device: VulkanBackend) -> None:
    other = type(device)()
    call = other.bind_fill(other.allocate(TensorType(F32, (2,))), 1.0)
    other.close()

    def fill_the_queue() -> None:
        for _ in range(commands._QUEUE_LIMIT):
            call()

    with pytest.raises(DeviceError, match="the device vulkan was closed"):
        fill_the_queue()


def test_a_lost_device_can_be_closed(device: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    other = type(device)()
    other.bind_fill(other.allocate(TensorType(F32, (2,))), 1.0)()

    def lost() -> None:
        raise VulkanCallError("vkWaitForFences", "VK_ERROR_DEVICE_LOST")

    monkeypatch.setattr(other._queue, "forget", lost)
    other.close()

    assert other._device.closed
    assert not other._device._owned


def test_the_interpreter_ends_cleanly_with_a_device_left_open(device: VulkanBackend) -> None:
    program = (
        "from openinfer.dtypes import F32; from openinfer.ir.types import TensorType\n"
        "from openinfer_backend_vulkan.backend import VulkanBackend\n"
        "backend = VulkanBackend(); buffer = backend.allocate(TensorType(F32, (9,)))\n"
        "fill = backend.bind_fill(buffer, 1.0); fill(); print(backend.read(buffer).sum()); fill()\n"
    )

    finished = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=limit_s(60), check=False
    )

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "9.0\n", "")
