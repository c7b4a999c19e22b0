"""Layers that hand a state on from step to step compute what ONNX Runtime does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import saved
from runtime_models import agrees, model, node

from openinfer.errors import ModelImportError
from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(27)
BATCH, LENGTH, KEY, VALUE = 2, 5, 4, 3


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("attributes", [{}, {"activation": "silu"}, {"dilation": 2, "activation": "swish"}])
@pytest.mark.parametrize(("length", "kernel"), [(5, 3), (1, 4), (3, 1)])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_causal_convolution_keeps_the_end_of_its_input(
    length: int, kernel: int, is_last: bool, attributes: dict[str, Any], tmp_path: Path
) -> None:
    kept = (kernel - 1) * attributes.get("dilation", 1)
    inputs = {"x": rand(BATCH, 6, length), "past": rand(BATCH, 6, kept)}
    if is_last:
        # Channels may lie in several dims.
        inputs = {"x": rand(BATCH, length, 2, 3), "past": rand(BATCH, kept, 2, 3)}
    if kernel == 1:
        del inputs["past"]
    names = "x w b past" if "past" in inputs else "x w"
    made = node("CausalConvWithState", names, "y present", channels_last=int(is_last), **attributes)
    constants = {"w": rand(6, 1, kernel), "b": rand(6)}
    agrees(model([made], inputs, ["y", "present"], constants), inputs, tmp_path)


RULES = {"linear": "", "gated": "g", "delta": "r", "gated_delta": "gr"}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("read", "heads"), [(2, 2), (4, 2), (2, 4)])
@pytest.mark.parametrize("by_head", [False, True])
def test_linear_attention_follows_its_rule(rule: str, read: int, heads: int, by_head: bool, tmp_path: Path) -> None:
    inputs = {"q": rand(BATCH, LENGTH, read * KEY), "k": rand(BATCH, LENGTH, heads * KEY)}
    inputs["v"] = rand(BATCH, LENGTH, heads * VALUE)
    if by_head:
        inputs["p"] = rand(BATCH, heads, KEY, VALUE)
    if "g" in RULES[rule]:
        inputs["g"] = -np.abs(rand(BATCH, LENGTH, heads if by_head else heads * KEY))
    if "r" in RULES[rule]:
        inputs["r"] = rand(BATCH, LENGTH, heads if by_head else 1)
    names = " ".join(name if name in inputs else "-" for name in "qkvpgr")
    attributes = {"update_rule": rule, "scale": 0.3} if by_head else {"update_rule": rule}
    made = node("LinearAttention", names, "y s", q_num_heads=read, kv_num_heads=heads, **attributes)
    agrees(model([made], inputs, ["y", "s"], {}), inputs, tmp_path)


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("CausalConvWithState", {"state_window": 2}, "state_window=2"),
        ("CausalConvWithState", {"ndim": 2}, "ndim=2"),
        ("CausalConvWithState", {"activation": "tanh"}, "activation=tanh"),
        ("LinearAttention", {"q_num_heads": 2, "kv_num_heads": 3}, "neither is a multiple of the other"),
        ("LinearAttention", {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "squared"}, "update_rule=squared"),
        ("LinearAttention", {"q_num_heads": 1, "kv_num_heads": 1, "state_window": 1}, "state_window=1"),
    ],
)
def test_an_error_names_what_is_not_supported(op: str, attributes: dict[str, Any], words: str, tmp_path: Path) -> None:
    inputs = (
        {"x": rand(BATCH, 6, LENGTH)} if op == "CausalConvWithState" else {n: rand(BATCH, LENGTH, 6) for n in "qkv"}
    )
    made = node(op, " ".join([*inputs, "w"] if "x" in inputs else inputs), "y s", **attributes)
    with pytest.raises(ModelImportError, match=words):
        load(saved(model([made], inputs, ["y", "s"], {"w": rand(6, 1, 3)}), tmp_path))
