"""Where tensors live, how they get there where the host does not see them, and what happens when memory runs out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dtypes import F32, I32
from openinfer.errors import DeviceError
from openinfer.ir.types import TensorType
from openinfer_backend_vulkan.api import heaps, native
from openinfer_backend_vulkan.api.heaps import Heap, MemoryType, memory_types
from openinfer_backend_vulkan.api.physical import PhysicalDevice, physical_devices, shared_instance
from openinfer_backend_vulkan.memory import blocks, staging
from openinfer_backend_vulkan.memory.blocks import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from openinfer_backend_vulkan.backend import VulkanBackend
    from openinfer_backend_vulkan.memory.blocks import StorageBuffer

NEAR, VISIBLE, COHERENT, CACHED = "DEVICE_LOCAL", "HOST_VISIBLE", "HOST_COHERENT", "HOST_CACHED"


@dataclass(frozen=True)
class Offered:
    """A device whose memory types are those of a test."""

    name: str = "GPU"
    handle: native.Handle = None


@pytest.fixture
def staged(device: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[VulkanBackend]:
    """The same device with tensors that the host does not see, and a small ring of slots."""
    monkeypatch.setenv(heaps.STAGING_VARIABLE, "1")
    monkeypatch.setattr(staging, "SLOT_BYTES", 4096)
    backend = type(device)()
    yield backend
    backend.close()


def types_of(monkeypatch: pytest.MonkeyPatch, *offered: tuple[int, tuple[str, ...]]) -> heaps.MemoryTypes:
    """Return what is chosen of memory types, each with its heap and properties."""
    lib = native.library()
    bits = [(heap, sum(getattr(lib, f"VK_MEMORY_PROPERTY_{name}_BIT") for name in names)) for heap, names in offered]
    found = [SimpleNamespace(heapIndex=heap, propertyFlags=flags) for heap, flags in bits]
    monkeypatch.setattr(heaps, "_types", lambda *_: found)
    monkeypatch.delenv(heaps.STAGING_VARIABLE, raising=False)
    return memory_types(Offered(), (1 << len(offered)) - 1)


@pytest.mark.usefixtures("device")
def test_tensors_of_a_discrete_gpu_live_in_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    found = types_of(
        monkeypatch,
        (1, ()),
        (0, (NEAR, VISIBLE, COHERENT)),
        (0, (NEAR,)),
        (1, (VISIBLE, COHERENT)),
        (1, (VISIBLE, COHERENT, CACHED)),
    )

    assert found.tensors == MemoryType(2, 0, is_mapped=False)
    assert found.host == MemoryType(4, 1, is_mapped=True)


@pytest.mark.usefixtures("device")
def test_a_unified_device_has_one_memory_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = types_of(monkeypatch, (0, (NEAR,)), (0, (NEAR, VISIBLE, COHERENT, CACHED)))

    assert found.tensors == found.host == MemoryType(1, 0, is_mapped=True)


@pytest.mark.usefixtures("device")
def test_a_device_whose_memory_the_host_never_sees_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="GPU has no memory that the host can see"):
        types_of(monkeypatch, (0, (NEAR,)))


@pytest.mark.parametrize("count", [1, 3, 1023, 1024, 1025, 4096, 5000, 20_000])
def test_arrays_of_any_size_pass_the_ring(staged: VulkanBackend, count: int) -> None:
    values = np.random.default_rng(count).normal(size=count).astype(np.float32)
    kind = TensorType(F32, (count,))

    buffer = staged.upload(kind, values)

    assert not buffer.storage.is_mapped
    assert staged.read(buffer).tobytes() == values.tobytes()


def test_many_uploads_share_slots_and_keep_apart(staged: VulkanBackend) -> None:
    arrays = [np.full(7 * number % 1500 + 1, number, np.int32) for number in range(60)]

    buffers = [staged.upload(TensorType(I32, array.shape), array) for array in arrays]

    assert [staged.read(b).tolist() for b in buffers] == [a.tolist() for a in arrays]


def test_an_array_is_free_once_it_is_uploaded(staged: VulkanBackend) -> None:
    values = np.ones(50, np.float32)
    buffer = staged.upload(TensorType(F32, (50,)), values)

    values[:] = 2.0

    assert staged.read(buffer).tolist() == [1.0] * 50


def test_writes_and_calls_run_in_order(staged: VulkanBackend) -> None:
    kind = TensorType(I32, (3000,))
    source, first, second = (staged.allocate(kind) for _ in range(3))
    to_first, to_second = staged.bind_copy(source, first), staged.bind_copy(source, second)

    for number in range(6):
        staged.write(source, np.full(3000, 2 * number, np.int32))
        to_first()
        staged.write(source, np.full(3000, 2 * number + 1, np.int32))
        to_second()
        staged.write(source, np.full(3000, -1, np.int32))

        assert (staged.read(first) == 2 * number).all()
        assert (staged.read(second) == 2 * number + 1).all()


def test_new_tensors_are_zeros_and_small_ones_stay_with_the_host(staged: VulkanBackend) -> None:
    for _ in range(3):
        dirty = staged.upload(TensorType(F32, (999,)), np.ones(999, np.float32))
        staged.synchronize()
        del dirty
        large, small = staged.allocate(TensorType(F32, (999,))), staged.allocate(TensorType(F32))

        assert (large.storage.is_mapped, small.storage.is_mapped) == (False, True)
        assert not staged.read(large).any()
        assert staged.read(small).tolist() == 0.0


def test_a_view_of_what_the_host_does_not_see_is_refused(staged: VulkanBackend) -> None:
    buffer = staged.allocate(TensorType(F32, (999,)))

    with pytest.raises(TypeError, match="the host does not see"):
        buffer.storage.view(np.dtype(np.uint8))


def test_blocks_grow_so_that_they_stay_few(device: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(blocks, "MOST_BLOCK_BYTES", 1 << 16)
    other = type(device)()

    kept = [other.upload(TensorType(F32, (256,)), np.full(256, n, np.float32)) for n in range(256)]

    assert len(other._memory._tensors._blocks) <= 10
    assert [other.read(buffer)[0] for buffer in kept] == list(range(256))
    other.close()


def budget(monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    """Let the driver say that so many bytes are left of its heap."""
    monkeypatch.setattr(blocks, "heaps", lambda *_: [Heap(1 << 31, is_device_local=True, left=left)])


def test_memory_that_runs_out_names_the_tensor_the_need_and_what_is_left(
    device: VulkanBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget(monkeypatch, 1_000_000)
    expected = (
        r"no memory for a tensor f32\[5000,5000\]: 100,000,000 bytes are needed, "
        r"and 1,000,000 of the 2,147,483,648 bytes of .* are left"
    )

    with pytest.raises(DeviceError, match=expected) as caught:
        device.allocate(TensorType(F32, (5000, 5000)))

    assert caught.value.code == "too-large"


def test_where_a_whole_block_is_too_much_the_tensor_alone_may_fit(
    device: VulkanBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = type(device)()
    budget(monkeypatch, 40_000)

    buffer = other.upload(TensorType(F32, (5000,)), np.ones(5000, np.float32))

    assert other.read(buffer).sum() == 5000.0
    other.close()


def test_an_executor_that_ran_out_of_memory_goes_on(shader_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "dynamic { x: f32[N]; } volatile { y: f32[N]; } block entry { op exp(x) >> y; return y; }"
    simulator = oi.Simulator(oi.Model.from_arrays({}, sizevars={"N": 4}), device="vulkan")
    executor = simulator.make_executor(oi.graph(text))
    long: np.ndarray[Any, Any] = np.zeros(30_000_000, np.float32)

    with monkeypatch.context() as patch:
        budget(patch, 1_000_000)
        with pytest.raises(DeviceError, match=r"`[xy]`: no memory for a tensor f32\[30000000\]: 120,000,000 bytes"):
            executor.step(x=long)

    executor.step(x=np.zeros(4, np.float32))
    assert executor.fetch("y").tolist() == [1.0] * 4


ROWS = """
dynamic { x: f32[N, 2]; w: f32[2, 2]; }
volatile { y: f32; }
block entry {
  op matmul(x, w) >> a;
  op matmul(a, w) >> b;
  op matmul(b, w) >> c;
  op sum(a) >> y;
  op sum(b) >> t;
  op add(y, t) >> y;
  op sum(c) >> t;
  op add(y, t) >> y;
  return y;
}
"""


@pytest.mark.parametrize("left", [None, 1 << 17])
def test_intermediate_results_may_be_more_than_a_storage_buffer_has(
    device: VulkanBackend, monkeypatch: pytest.MonkeyPatch, left: int | None
) -> None:
    found = [replace(each, max_storage_bytes=1 << 16) for each in physical_devices(shared_instance())]
    monkeypatch.setattr("openinfer_backend_vulkan.api.device.physical_devices", lambda _: found)
    asked: list[int] = []
    arena = Memory.arena

    def made(self: Memory, nbytes: int) -> StorageBuffer:
        asked.append(nbytes)
        if left is not None and nbytes > left:
            raise DeviceError("there is no memory", code="too-large")
        return arena(self, nbytes)

    monkeypatch.setattr(Memory, "arena", made)
    simulator = oi.Simulator(oi.Model.from_arrays({}, sizevars={"N": 7000}), device="vulkan")
    with simulator.make_executor(oi.graph(ROWS)) as executor:
        assert executor.runs_whole
        executor.step(x=np.ones((7000, 2), np.float32), w=np.eye(2, dtype=np.float32) / 2)
        assert executor.fetch("y") == 14000 * (0.5 + 0.25 + 0.125)
    assert max(asked) > 1 << 17


def test_what_is_left_is_none_where_the_driver_does_not_say(device: VulkanBackend) -> None:
    physical = device._device.physical
    assert isinstance(physical, PhysicalDevice)

    for heap in heaps.heaps(physical):
        assert heap.nbytes > 0
        assert (heap.left is not None) == (heaps.BUDGET_EXTENSION in physical.extensions)
