"""A Vulkan device to test on, if there is one, and a private place for its compiled shaders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BITSET, BUILTIN
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.calls import OpCall
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import Computed, DerivedExpression, DerivedFold, HandWritten, kernel_table, select
from openinfer_backend_vulkan.api.physical import PhysicalDevice, physical_devices, shared_instance
from openinfer_backend_vulkan.api.probe import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from openinfer.simulate.devices.backend import Buffer
    from openinfer_backend_vulkan.backend import VulkanBackend

    Array = npt.NDArray[Any]

_DTYPES = {storage_dtype(dtype).name: dtype for dtype in BUILTIN if not dtype.is_packed and dtype is not BITSET}


class CarryOut(Protocol):
    """Runs one operator on the device, on new buffers, and returns its first output."""

    def __call__(self, op: str, *inputs: Array | None, **settings: Any) -> Array: ...


@pytest.fixture(scope="session")
def shader_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compiled shaders go to a directory of this test run."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(directory))
        yield directory


@pytest.fixture(scope="session")
def device(shader_cache: Path) -> Iterator[VulkanBackend]:
    """The first Vulkan device, opened."""
    found = probe()
    if not found.available:
        pytest.skip(f"no Vulkan device: {found.detail}")
    from openinfer_backend_vulkan.backend import VulkanBackend

    backend = VulkanBackend()
    yield backend
    backend.close()


@pytest.fixture
def few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device ends loops after 7 iterations, and kernels are made for that: they divide longer ones among
    dispatches."""
    monkeypatch.setattr(PhysicalDevice, "most_turns", 7)


@pytest.fixture
def many_cores(device: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are made as for a GPU, whatever the device is; what it cannot do they do not use."""
    target = next(iter(physical_devices(shared_instance()))).shader_target
    monkeypatch.setattr(PhysicalDevice, "shader_target", replace(target, is_software=False, busy=1 << 13))
    assert device


@pytest.fixture
def carry_out(device: VulkanBackend) -> CarryOut:
    """Runs an operator as the simulator would, with what the environment selects for it."""
    environment = Environment.default()
    spec = environment.device("vulkan")
    table = kernel_table(environment, spec)

    def run(op: str, *inputs: Array | None, **settings: Any) -> Array:
        types = [None if a is None else TensorType(_DTYPES[a.dtype.name], a.shape) for a in inputs]
        call = call_of(environment.op(op), types, settings)
        buffers = [None if a is None or t is None else device.upload(t, a) for a, t in zip(inputs, types, strict=True)]
        outputs = [device.allocate(kind) for kind in call.outputs]
        _bound(device, call, select(environment, table, call), buffers, outputs)()
        return device.read(outputs[0])

    return run


def _bound(
    device: VulkanBackend,
    call: OpCall,
    chosen: object,
    inputs: Sequence[Buffer | None],
    outputs: Sequence[Buffer],
) -> Callable[[], None]:
    if isinstance(chosen, HandWritten):
        return device.bind_kernel(chosen.kernel, call, inputs, outputs)
    if isinstance(chosen, DerivedExpression):
        return device.bind_expression(chosen.expr, inputs, outputs[0])
    if isinstance(chosen, Computed):
        return device.bind_computation(chosen.computation, [b for b in inputs if b is not None], outputs)
    assert isinstance(chosen, DerivedFold), chosen
    assert inputs[0] is not None
    return device.bind_fold(chosen.axes, chosen.fold, inputs[0], outputs[0])
