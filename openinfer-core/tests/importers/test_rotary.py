"""Rotary embeddings that exporters write out become the operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import agrees, info, model, node, saved, weights

from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(4)
WIDTH = 8
CONSTANTS: dict[str, Any] = {
    "start": np.array([0]),
    "middle": np.array([WIDTH // 2]),
    "end": np.array([np.iinfo(np.int64).max]),
    "last": np.array([3]),
    "heads": np.array([1]),
    "rates": (10000.0 ** -(np.arange(WIDTH // 2) / (WIDTH // 2))).astype(np.float32)[None, None, :],
}


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def rotated(name: str, sign: str = "Neg") -> list[Any]:
    """Return the nodes that PyTorch writes for one of queries and keys."""
    return [
        node("Slice", f"{name} start middle last", f"{name}_low"),
        node("Slice", f"{name} middle end last", f"{name}_high"),
        node(sign, f"{name}_high", f"{name}_negated"),
        node("Concat", f"{name}_negated {name}_low", f"{name}_turned", axis=-1),
        node("Mul", f"{name} cos", f"{name}_cos"),
        node("Mul", f"{name}_turned sin", f"{name}_sin"),
        node("Add", f"{name}_cos {name}_sin", f"{name}_placed"),
    ]


def angles(batch: str, second: str = "freqs") -> list[Any]:
    """Return the nodes of cosines and sines from positions [batch, S, 1]."""
    return [
        node("Mul", "at rates", "freqs"),
        node("Neg", "freqs", "other"),
        node("Concat", f"freqs {second}", "both", axis=-1),
        node("Cos", "both", "c"),
        node("Sin", "both", "s"),
        node("Unsqueeze", "c heads", "cos"),
        node("Unsqueeze", "s heads", "sin"),
    ]


def rotary(batch: Any, nodes: list[Any]) -> Any:
    inputs = [info("q", ["B", 3, "S", WIDTH]), info("k", ["B", 2, "S", WIDTH]), info("at", [batch, "S", 1])]
    return model(nodes, inputs, [info("q_placed", None), info("k_placed", None)], weights(**CONSTANTS))


def given(batch: int) -> dict[str, Any]:
    at = np.arange(5, dtype=np.float32)[None, :, None] + np.arange(batch, dtype=np.float32)[:, None, None]
    return {"q": rand(2, 3, 5, WIDTH), "k": rand(2, 2, 5, WIDTH), "at": at}


@pytest.mark.parametrize("batch", ["B", 1])
def test_queries_and_keys_share_the_tables_of_their_positions(batch: Any, tmp_path: Path) -> None:
    proto = rotary(batch, [*angles("B"), *rotated("q"), *rotated("k")])
    imported = load(saved(proto, tmp_path))
    assert imported.text.count("op rope_cached(") == 2
    assert imported.text.count("op slice(") == 2
    agrees(proto, imported, given(2 if batch == "B" else 1))


@pytest.mark.parametrize(
    "nodes",
    [
        [*angles("B", "other"), *rotated("q"), *rotated("k")],
        [*angles("B"), *rotated("q", "Abs"), *rotated("k", "Abs")],
    ],
    ids=["halves of the tables differ", "the sign stays"],
)
def test_what_is_almost_a_rotation_stays_written_out(nodes: list[Any], tmp_path: Path) -> None:
    proto = rotary("B", nodes)
    imported = load(saved(proto, tmp_path))
    assert "rope_cached" not in imported.text
    agrees(proto, imported, given(2))


def test_tables_may_be_known(tmp_path: Path) -> None:
    half = rand(5, WIDTH // 2)
    tables = weights(cos=np.cos([half, half]).swapaxes(0, 1).reshape(5, WIDTH), sin=np.sin(np.hstack([half, half])))
    inputs = [info("q", ["B", 3, 5, WIDTH])]
    constants = {name: value for name, value in CONSTANTS.items() if name in ("start", "middle", "end", "last")}
    proto = model(rotated("q"), inputs, [info("q_placed", None)], [*weights(**constants), *tables])
    imported = load(saved(proto, tmp_path))
    assert "op rope_cached(q, cos, sin) >> q_placed;" in imported.text
    agrees(proto, imported, {"q": rand(2, 3, 5, WIDTH)})
