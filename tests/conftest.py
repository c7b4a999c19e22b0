"""What tests of whole programs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def vulkan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Vulkan device, with a cache of shaders of its own."""
    probing = pytest.importorskip("openinfer_backend_vulkan.probe")
    found = probing.probe()
    if not found.available:
        pytest.skip(f"no Vulkan device: {found.detail}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
