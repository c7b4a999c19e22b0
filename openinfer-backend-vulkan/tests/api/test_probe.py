"""What `openinfer devices` says where something is missing: a reason and what to do, never an exception."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openinfer.testing.waiting import limit_s
from openinfer_backend_vulkan.api import probe as probing
from openinfer_backend_vulkan.api.physical import PhysicalDevice
from openinfer_backend_vulkan.api.probe import probe
from openinfer_backend_vulkan.spirv.float_modes import KEEPS_SUBNORMALS, MODES, FloatMode

PROGRAM = "from openinfer_backend_vulkan.api.probe import probe; found = probe(); print(found.available, found.detail)"


def probed_with(**variables: str) -> str:
    """Return what a new process finds under these environment variables."""
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=limit_s(60),
        check=True,
    )
    assert finished.stderr == ""
    return finished.stdout


def physical(**changes: object) -> PhysicalDevice:
    """Return a device description that is usable but for the changes."""
    usual: dict[str, object] = {
        "handle": None,
        "name": "Test GPU",
        "kind": "discrete GPU",
        "api_version": (1, 3, 5),
        "queue_family": 0,
        "features": frozenset[str](),
        "max_storage_bytes": 1 << 30,
        "max_storage_buffers": 16,
        "max_groups": (65535, 65535),
    }
    return PhysicalDevice(**{**usual, **changes})  # type: ignore[arg-type]


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[PhysicalDevice]:
    """The devices that drivers seem to offer."""
    offered: list[PhysicalDevice] = []
    monkeypatch.setattr(probing, "shared_instance", lambda: None)
    monkeypatch.setattr(probing, "physical_devices", lambda _instance: offered)
    monkeypatch.setattr(probing, "facts", lambda device: {"name": device.name})
    return offered


def test_no_driver_is_a_reason_with_advice() -> None:
    said = probed_with(VK_DRIVER_FILES="/nonexistent", VK_ICD_FILENAMES="/nonexistent")

    assert said.startswith("False ")
    assert "no Vulkan driver" in said or "no driver offers" in said or "libvulkan.so.1" in said
    assert "install" in said


def test_no_loader_library_is_a_reason_with_advice(tmp_path: Path) -> None:
    package = tmp_path / "vulkan"
    package.mkdir()
    (package / "__init__.py").write_text("raise OSError('cannot find the library')\n")

    said = probed_with(PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    assert said.startswith("False the Vulkan loader library (libvulkan.so.1) is not there: install it")


def test_no_binding_is_a_reason_with_advice(tmp_path: Path) -> None:
    package = tmp_path / "vulkan"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('broken')\n")

    said = probed_with(PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    assert said.startswith("False the Python package 'vulkan' cannot be imported (broken): pip install vulkan")


def test_no_shader_compiler_is_a_reason_with_advice(
    devices: list[PhysicalDevice], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices.append(physical())
    monkeypatch.setenv("PATH", str(tmp_path))

    found = probe()

    assert not found.available
    assert found.detail.startswith("no GLSL compiler (glslangValidator or glslang) on PATH: install it")
    assert "Test GPU" in found.detail


def test_no_device_is_a_reason_with_advice(devices: list[PhysicalDevice]) -> None:
    found = probe()

    assert not found.available
    assert "install the graphics driver" in found.detail


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"queue_family": None}, "it has no queue for compute work"),
        ({"api_version": (1, 0, 3)}, "Vulkan 1.0.3, and 1.1 is needed"),
    ],
)
def test_a_device_that_cannot_compute_says_why(
    devices: list[PhysicalDevice], changes: dict[str, object], reason: str
) -> None:
    devices.append(physical(**changes))

    found = probe()

    assert not found.available
    assert reason in found.detail


def test_one_usable_device_among_several_is_enough(
    devices: list[PhysicalDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    from openinfer_backend_vulkan.spirv.compiler import ShaderCompiler

    devices += [physical(queue_family=None, name="Display"), physical()]
    monkeypatch.setattr(probing, "find_compiler", lambda: ShaderCompiler("glslang", "15"))

    found = probe()

    assert found.available
    assert "vulkan Display" in found.detail
    assert "vulkan:1 Test GPU (discrete GPU, Vulkan 1.3.5)" in found.detail


@pytest.mark.parametrize("modes", [(), (KEEPS_SUBNORMALS,), MODES])
def test_a_device_keeps_subnormals_if_its_shaders_can_ask_for_it(modes: tuple[FloatMode, ...]) -> None:
    assert physical(float_modes=modes).keeps_subnormals == bool(modes)


def test_usable_devices_have_facts_under_the_names_that_programs_use(
    devices: list[PhysicalDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    from openinfer_backend_vulkan.spirv.compiler import ShaderCompiler

    devices += [physical(queue_family=None, name="Display"), physical()]
    monkeypatch.setattr(probing, "find_compiler", lambda: ShaderCompiler("glslang", "15"))

    assert probe().hardware == {"vulkan:1": {"name": "Test GPU"}}


def test_the_facts_of_a_device_are_features_limits_and_memory() -> None:
    found = probe()
    if not found.available:
        pytest.skip(f"no Vulkan device: {found.detail}")

    facts = found.hardware["vulkan"]

    assert {"shaderInt64", "storage of 8 bits", "invocations of a workgroup", "tensors"} <= facts.keys()
    assert isinstance(largest := facts["largest storage buffer, bytes"], int)
    assert largest >= 1 << 27  # what every Vulkan device has
    assert any(name.startswith("heap 0") for name in facts)
