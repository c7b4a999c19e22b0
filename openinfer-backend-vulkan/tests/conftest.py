"""A Vulkan device to test on, if there is one, and a private place for its compiled shaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from openinfer_backend_vulkan.probe import probe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from openinfer_backend_vulkan.backend import VulkanBackend


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
