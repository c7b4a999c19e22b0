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
    found = probing.probe()
    if not found.available:
        pytest.skip(f"no Vulkan device: {found.detail}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
