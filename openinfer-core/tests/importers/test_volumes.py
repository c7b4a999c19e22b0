"""Windows over volumes, which become windows over images, compute what ONNX Runtime does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_models import agrees, model, node

from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(34)
VOLUME = RNG.standard_normal((2, 4, 5, 7, 6)).astype(np.float32)

WINDOWS: list[dict[str, Any]] = [
    {},
    {"strides": [2, 1, 3], "pads": [1, 0, 1, 0, 1, 1]},
    {"pads": [1, 1, 1, 1, 1, 1], "strides": [2, 2, 2]},
    {"dilations": [2, 1, 2], "pads": [1, 0, 1, 1, 1, 0]},
]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("kernel", [(3, 2, 3), (1, 3, 1)])
def test_convolutions(kernel: tuple[int, ...], windows: dict[str, Any], group: int, tmp_path: Path) -> None:
    constants = {"w": RNG.standard_normal((6, 4 // group, *kernel)).astype(np.float32)}
    constants["b"] = RNG.standard_normal(6).astype(np.float32)
    conv = node("Conv", "x w b", "y", domain="", group=group, **windows)
    text = agrees(model([conv], {"x": VOLUME}, ["y"], constants), {"x": VOLUME}, tmp_path)
    assert text.count("op conv2d(") == 1


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("MaxPool", {}),
        ("MaxPool", {"ceil_mode": 1, "dilations": [1, 2, 1]}),
        ("AveragePool", {}),
        ("AveragePool", {"count_include_pad": 1}),
        ("AveragePool", {"auto_pad": "SAME_UPPER"}),
        ("LpPool", {"p": 3}),
        ("LpPool", {"p": 2}),
    ],
)
def test_pools(op: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    windows = {"kernel_shape": [3, 2, 3], "strides": [2, 1, 2]} | attributes
    windows |= {} if "auto_pad" in attributes else {"pads": [1, 0, 1, 0, 1, 1]}
    proto = model([node(op, "x", "y", domain="", **windows)], {"x": VOLUME}, ["y"], {})
    agrees(proto, {"x": VOLUME}, tmp_path)
