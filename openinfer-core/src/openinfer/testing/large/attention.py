"""Attention and rotary embeddings over more queries, keys and depth than vectors have lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.schema import Operand
from openinfer.testing.large_examples import example

if TYPE_CHECKING:
    from openinfer.ops.schema import OpExample

_SEEN = Operand(shape=(35, 67), dtype="bool")


def _positions(*shape: int) -> Operand:
    return Operand(shape=shape, dtype="i64", low=0, high=130)


LARGE: dict[str, tuple[OpExample, ...]] = {
    "sdpa": (
        example((1, 4, 35, 19), (1, 2, 67, 19), (1, 2, 67, 11), causal=True),
        example((2, 35, 19), (2, 67, 19), (2, 67, 19), _SEEN, softcap=3.0),
        # One query for each head, as in decoding, over a cache that is not full.
        example((1, 6, 1, 35), (1, 2, 259, 35), (1, 2, 259, 35), kv_len=251, window=130),
    ),
    "attn": (
        example((35, 30), (67, 2, 19), (67, 2, 11), (30, 76), causal=True),
        example((1, 140), (259, 2, 35), (259, 2, 35)),
    ),
    "rope": (
        example((1, 3, 67, 34), _positions(67)),
        example((67, 3, 34), _positions(67), seq_axis=0, rotary_dim=22, interleaved=True),
    ),
    "rope_cached": (
        example((1, 3, 67, 34), (131, 17), (131, 17), _positions(67)),
        example((67, 3, 34), (67, 11), (67, 11), seq_axis=0, rotary_dim=22, interleaved=True),
    ),
}
