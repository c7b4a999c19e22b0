"""Work is timed by the clock of the device, and only when somebody asks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

import openinfer as oi
from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.simulate.devices.backend import TimedBackend
from openinfer_backend_vulkan.api import physical
from openinfer_backend_vulkan.queue.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from openinfer_backend_vulkan.backend import VulkanBackend


@pytest.fixture
def timed(device: VulkanBackend) -> Iterator[VulkanBackend]:
    """A device of its own, since one that was timed goes on to be."""
    backend = type(device)()
    if not backend._device.physical.clock_bits:
        pytest.skip("this device has no clock")
    yield backend
    backend.close()


def sines(backend: VulkanBackend, count: int) -> Callable[[], None]:
    kind = TensorType(F32, (count,))
    source, target = backend.upload(kind, np.ones(count, np.float32)), backend.allocate(kind)
    return backend.bind_expression(tree.sin(tree.Input(0, F32)), [source], target)


def test_time_on_the_device_is_part_of_the_time_of_the_host(timed: VulkanBackend) -> None:
    assert isinstance(timed, TimedBackend)
    run = sines(timed, 1_000_000)
    run()
    timed.synchronize()

    start = time.perf_counter_ns()
    run()
    worked = timed.timed_synchronize()

    assert worked is not None
    assert 0 < worked <= time.perf_counter_ns() - start


def test_more_work_takes_longer_and_is_counted_once(timed: VulkanBackend) -> None:
    short, long = sines(timed, 1000), sines(timed, 3_000_000)
    found: list[int | None] = []

    for run in (short, long, short, long):
        run()
        found.append(timed.timed_synchronize())

    assert None not in found
    assert max(found[2] or 0, 1) < (found[3] or 0)
    assert timed.timed_synchronize() is None


def test_several_submissions_are_added_up(timed: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "worked_ns", lambda _: 5)
    run = sines(timed, 100)
    timed.timed_synchronize()

    for _ in range(3):
        run()
        timed.synchronize()

    assert timed.timed_synchronize() == 15


def test_nothing_is_timed_that_nobody_asks_for(device: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "record_begin", lambda *_: pytest.fail("a timestamp was recorded"))
    other = type(device)()

    sines(other, 100)()
    other.synchronize()
    other.close()


def test_a_device_without_a_clock_says_so(device: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(physical, "_clock_bits", lambda *_: 0)
    other = type(device)()

    sines(other, 100)()

    assert other.timed_synchronize() is None
    other.close()


def test_operators_of_a_trace_have_times_of_the_device(shader_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "worked_ns", lambda _: 4321)
    graph = oi.graph("dynamic { x: f32[4]; } volatile { y: f32[4]; } block entry { op exp(x) >> y; return y; }")
    simulator = oi.Simulator(oi.Model.from_arrays({}), device="vulkan", trace=True, timer=True, echo=False)
    if not physical.physical_devices(physical.shared_instance())[0].clock_bits:
        pytest.skip("this device has no clock")

    executor = simulator.make_executor(graph)
    executor.step(x=np.zeros(4, np.float32))

    (event,) = [event for event in executor.trace() if event.op_name]
    assert event.duration_ns == 4321
    assert event.device_start_ns is not None
    assert event.start_ns <= event.device_start_ns
    names = [each["args"]["name"] for each in oi.trace_to_perfetto([event])["traceEvents"] if each["ph"] == "M"]
    assert names == ["openinfer", "entry", "entry: device"]
