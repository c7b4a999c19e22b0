"""Handles of device vulkan: other Vulkan code writes inputs and reads results in the same queue."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import DeviceError, DTypeError, ExecutionError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.simulate import Executor

PAGE = Path(__file__).parents[2] / "docs" / "vulkan-interop.md"
ONE, THREE = 0x3F800000, 0x40400000
"""1.0 and 3.0 as words of f32."""

SQUARES = "dynamic { x: f32[64]; } volatile { y: f32[64]; } block entry { op mul(x, x) >> y; return y; }"
LARGE = SQUARES.replace("64", str(1 << 19))
TOTALS = """
dynamic { x: f32[64]; }
volatile { y: f32[64]; }
persistent { s: f32[64] @init(0.0); }
block entry {
  assign t: f32[64];
  cache.read s >> t;
  op add(t, x) >> t;
  cache.write t >> s;
  op neg(t) >> y;
  return y;
}
"""


def executor(text: str, device: str = "vulkan", **options: Any) -> Executor:
    return oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), device=device, **options).make_executor()


class Recorder:
    """Commands of another program on the device of an executor."""

    def __init__(self, ex: Executor) -> None:
        self.vk = vk = pytest.importorskip("vulkan", reason="the Python package vulkan is not installed")
        self.shared = ex.native_device()
        self.device = vk.ffi.cast("VkDevice", self.shared.device)
        self.queue = vk.ffi.cast("VkQueue", self.shared.queue)
        info = vk.VkCommandPoolCreateInfo(queueFamilyIndex=self.shared.queue_family)
        self.pool = vk.vkCreateCommandPool(self.device, info, None)

    def fill(self, buffer: Any, word: int) -> None:
        handle = self.vk.ffi.cast("VkBuffer", buffer.buffer)
        self._submit(lambda c: self.vk.vkCmdFillBuffer(c, handle, buffer.offset, buffer.nbytes, word))

    def copy(self, source: Any, target: Any) -> None:
        vk = self.vk
        region = vk.VkBufferCopy(srcOffset=source.offset, dstOffset=target.offset, size=source.nbytes)
        handles = [vk.ffi.cast("VkBuffer", each.buffer) for each in (source, target)]
        self._submit(lambda c: vk.vkCmdCopyBuffer(c, *handles, 1, [region]))

    def _submit(self, record: Callable[[Any], None]) -> None:
        vk = self.vk
        level = vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY
        info = vk.VkCommandBufferAllocateInfo(commandPool=self.pool, commandBufferCount=1, level=level)
        commands = vk.vkAllocateCommandBuffers(self.device, info)[0]
        access = vk.VK_ACCESS_MEMORY_READ_BIT | vk.VK_ACCESS_MEMORY_WRITE_BIT
        between = [vk.VkMemoryBarrier(srcAccessMask=access, dstAccessMask=access)]
        stages = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
        vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo())
        vk.vkCmdPipelineBarrier(commands, stages, stages, 0, 1, between, 0, None, 0, None)
        record(commands)
        vk.vkCmdPipelineBarrier(commands, stages, stages, 0, 1, between, 0, None, 0, None)
        vk.vkEndCommandBuffer(commands)
        with self.shared.lock:
            vk.vkQueueSubmit(self.queue, 1, [vk.VkSubmitInfo(commandBufferCount=1, pCommandBuffers=[commands])], None)

    def close(self) -> None:
        with self.shared.lock:
            self.vk.vkQueueWaitIdle(self.queue)
        self.vk.vkDestroyCommandPool(self.device, self.pool, None)


@pytest.fixture(params=["mapped", "staged"])
def placement(request: pytest.FixtureRequest, vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors that the host sees, and ones that it does not see."""
    if request.param == "staged":
        monkeypatch.setenv("OPENINFER_VULKAN_STAGING", "1")


@pytest.mark.rule("runtime.host.22")
@pytest.mark.usefixtures("placement")
@pytest.mark.parametrize("text", [SQUARES, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("options", [{}, {"trace": True, "echo": False}], ids=["whole", "node by node"])
def test_a_step_reads_what_other_commands_left_in_its_input(text: str, options: dict[str, bool]) -> None:
    with executor(text, **options) as ex:
        others = Recorder(ex)
        x = ex.native_buffer("x")
        for word, expected in ((THREE, 9.0), (ONE, 1.0)):
            others.fill(x, word)
            ex.step(x=x)
            assert set(ex.fetch("y").tolist()) == {expected}
        ex.step(x=np.full(ex.input_type("x").shape, 4.0, np.float32))
        assert set(ex.fetch("y").tolist()) == {16.0}
        others.close()


@pytest.mark.rule("runtime.host.21")
@pytest.mark.usefixtures("placement")
def test_other_commands_read_the_results_of_started_steps() -> None:
    with executor(TOTALS) as ex:
        others = Recorder(ex)
        x = ex.native_buffer("x")
        others.fill(x, ONE)
        for _ in range(5):
            ex.step_async(x=x)
            others.copy(ex.native_buffer("y"), x)
        # Totals: 1, 1 - 1, 0 - 0, ...: each step adds the negated total of the step before.
        assert set(ex.fetch("y").tolist()) == {0.0}
        ex.step(x=np.full(64, 2.5, np.float32))
        others.copy(ex.native_buffer("y"), x)
        ex.step(x=x)
        assert set(ex.fetch("s").tolist()) == {0.0}
        others.close()


@pytest.mark.rule("runtime.host.21")
@pytest.mark.usefixtures("vulkan")
def test_it_says_what_is_switched_on() -> None:
    with executor(SQUARES) as ex:
        shared, buffer = ex.native_device(), ex.native_buffer("y")
    handles = (shared.instance, shared.physical_device, shared.device, shared.queue, buffer.buffer)
    assert all(type(handle) is int and handle for handle in handles)
    assert shared.queue_index == 0
    assert all(name.startswith("VK_") for name in shared.extensions)
    assert (str(buffer.type), buffer.nbytes) == ("f32[64]", 256)


@pytest.mark.usefixtures("vulkan")
def test_steps_wait_for_a_thread_that_holds_the_lock() -> None:
    with executor(SQUARES) as ex:
        lock = ex.native_device().lock
        held, free, stepped = threading.Event(), threading.Event(), threading.Event()

        def hold() -> None:
            with lock:
                held.set()
                free.wait(60)
                assert not stepped.is_set()

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(60)
        threading.Timer(0.2, free.set).start()
        ex.step(x=np.ones(64, np.float32))
        stepped.set()
        thread.join(60)
        assert free.is_set()


@pytest.mark.rule("runtime.host.21")
@pytest.mark.usefixtures("vulkan")
def test_variables_without_a_buffer_of_one_shape_are_refused() -> None:
    with executor(TOTALS) as ex:
        with pytest.raises(UnsupportedError, match="`s` has no buffer for other code"):
            ex.native_buffer("s")
        with pytest.raises(ExecutionError, match="unknown variable `z`"):
            ex.native_buffer("z")


@pytest.mark.usefixtures("vulkan")
def test_a_handle_is_the_value_of_its_own_variable_alone() -> None:
    text = "dynamic { x: f32[2]; z: f32[2]; } volatile { y: f32[2]; } block entry { op add(x, z) >> y; return y; }"
    with executor(text) as ex, pytest.raises(DTypeError, match="found SharedBuffer"):
        ex.insert(x=ex.native_buffer("z"))


@pytest.mark.rule("runtime.host.22")
@pytest.mark.usefixtures("vulkan")
def test_the_handle_of_a_volatile_variable_is_not_a_value() -> None:
    with executor(SQUARES) as ex:
        ex.step(x=np.full(64, 3.0, np.float32))
        with pytest.raises(ExecutionError, match="`y` is volatile: only dynamic variables take values") as refused:
            ex.insert(x=ex.native_buffer("x"), y=ex.native_buffer("y"))
        assert refused.value.code == "not-dynamic"
        assert set(ex.fetch("y").tolist()) == {9.0}


@pytest.mark.usefixtures("vulkan")
def test_a_closed_executor_hands_out_nothing() -> None:
    ex = executor(SQUARES)
    ex.close()
    for request in (ex.native_device, lambda: ex.native_buffer("y")):
        with pytest.raises(DeviceError, match="closed"):
            request()


@pytest.mark.rule("runtime.host.21")
def test_devices_without_handles_say_so() -> None:
    with executor(SQUARES, "cpu") as ex:
        for request in (ex.native_device, lambda: ex.native_buffer("y")):
            with pytest.raises(UnsupportedError, match="device cpu has no handles"):
                request()


@pytest.mark.usefixtures("vulkan")
def test_the_page_runs_and_prints_what_it_shows() -> None:
    blocks = re.findall(r"^```(\w[^\n]*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    source = "".join(body for info, body in blocks if info == "python")
    (shown,) = [body for info, body in blocks if info == "text printed"]
    ran = subprocess.run([sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == shown
