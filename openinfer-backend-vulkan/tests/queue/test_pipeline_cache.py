"""Pipelines of earlier processes: which are read, and that what is damaged or foreign is passed over."""

from __future__ import annotations

from dataclasses import replace
from struct import pack
from typing import TYPE_CHECKING

import numpy as np
import pytest

from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer_backend_vulkan.api.physical import Driver, physical_devices, shared_instance
from openinfer_backend_vulkan.queue import pipeline_cache
from openinfer_backend_vulkan.queue.pipeline_cache import PipelineCache, key_of, known

if TYPE_CHECKING:
    from pathlib import Path

    from openinfer_backend_vulkan.backend import VulkanBackend

DRIVER = Driver(vendor=0x10005, device=7, version=3, cache_uuid=b"0123456789abcdef")
KIND = TensorType(F32, (4,))


def header(driver: Driver, *, size: int = 32, version: int = 1) -> bytes:
    return pack("<IIII16s", size, version, driver.vendor, driver.device, driver.cache_uuid)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: VulkanBackend) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def files(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "openinfer-pipelines"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def doubled(device: VulkanBackend) -> list[float]:
    """Compute on a device, with a pipeline."""
    x, y = device.upload(KIND, np.arange(4, dtype=np.float32)), device.allocate(KIND)
    device.bind_expression(tree.add(tree.Input(0, F32), tree.Input(0, F32)), [x], y)()
    return device.read(y).tolist()


def test_what_was_kept_is_read_again() -> None:
    data = header(DRIVER) + b"pipelines"
    pipeline_cache._KEPT.keep(key_of(DRIVER), data)
    assert known(DRIVER) == data


@pytest.mark.parametrize(
    "other",
    [
        replace(DRIVER, vendor=1),
        replace(DRIVER, device=1),
        replace(DRIVER, version=1),
        replace(DRIVER, cache_uuid=bytes(16)),
    ],
    ids=["vendor", "device", "version", "format"],
)
def test_each_driver_has_a_file_of_its_own(other: Driver) -> None:
    pipeline_cache._KEPT.keep(key_of(DRIVER), header(DRIVER) + b"pipelines")
    assert known(other) == b""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        header(DRIVER)[:-1],
        header(replace(DRIVER, vendor=1)) + b"pipelines",
        header(replace(DRIVER, device=1)) + b"pipelines",
        header(replace(DRIVER, cache_uuid=bytes(16))) + b"pipelines",
        header(DRIVER, version=2) + b"pipelines",
        header(DRIVER, size=99) + b"pipelines",
        header(DRIVER, size=16) + b"pipelines",
    ],
    ids=["empty", "short", "cut", "vendor", "device", "format", "version", "long header", "short header"],
)
def test_a_foreign_header_is_passed_over(data: bytes) -> None:
    pipeline_cache._KEPT.keep(key_of(DRIVER), data)
    assert known(DRIVER) == b""


def test_a_damaged_file_is_passed_over(tmp_path: Path) -> None:
    pipeline_cache._KEPT.keep(key_of(DRIVER), header(DRIVER) + b"pipelines")
    (file,) = files(tmp_path)
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)
    assert known(DRIVER) == b""


def test_a_closed_device_leaves_its_pipelines_and_the_next_one_starts_with_them(
    device: VulkanBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (driver,) = {each.driver for each in physical_devices(shared_instance())[:1]}
    compiled = header(driver) + b"what the driver compiled"
    monkeypatch.setattr(PipelineCache, "_data", lambda _: compiled)
    first = type(device)()
    assert doubled(first) == [0.0, 2.0, 4.0, 6.0]
    assert files(tmp_path) == []
    first.close()
    (file,) = files(tmp_path)
    assert file.stem == key_of(driver)

    given: list[bytes] = []
    made = PipelineCache._made

    def noted(cache: PipelineCache, data: bytes) -> object:
        given.append(data)
        return made(cache, b"")

    monkeypatch.setattr(PipelineCache, "_made", noted)
    second = type(device)()
    second.close()
    assert given == [compiled]


def test_data_that_the_driver_refuses_are_passed_over(device: VulkanBackend) -> None:
    driver = physical_devices(shared_instance())[0].driver
    pipeline_cache._KEPT.keep(key_of(driver), header(driver) + b"rubbish that no driver has written")
    other = type(device)()
    assert doubled(other) == [0.0, 2.0, 4.0, 6.0]
    other.close()


@pytest.mark.parametrize("limit", ["0", "1"])
def test_data_beyond_the_limit_are_not_kept(
    device: VulkanBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_MIB", limit)
    driver = physical_devices(shared_instance())[0].driver
    monkeypatch.setattr(PipelineCache, "_data", lambda _: header(driver) + bytes(1 << 20))
    type(device)().close()
    assert files(tmp_path) == []
