"""What tests of whole programs share. The modules of `support` are importable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.insert(0, str(Path(__file__).with_name("support")))


@pytest.fixture(scope="module")
def vulkan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Vulkan device, with a cache of shaders of its own."""
    probing = pytest.importorskip("openinfer_backend_vulkan.api.probe", reason="the device vulkan is not installed")
    probed = probing.probe()
    if not probed.available:
        pytest.skip(f"no Vulkan device: {probed.detail}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def needs_device(device: str, request: pytest.FixtureRequest) -> None:
    """Skip a test with a parameter ``device`` where that device is not installed."""
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    if device == "c":
        pytest.importorskip("openinfer_synth_c", reason="device c is not installed: openinfer-synth-c")
