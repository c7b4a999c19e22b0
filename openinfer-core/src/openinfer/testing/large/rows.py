"""Rows that are normalised, reduced, summed up and sorted: past vectors and lanes, along the last dim and another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.schema import Operand
from openinfer.testing.large_examples import example

if TYPE_CHECKING:
    from openinfer.ops.schema import OpExample

_LAST, _MIDDLE = (67, 259), (5, 131, 37)
_VARIANCE = Operand(shape=(17,), low=0, high=3)
_ALONG = (example(_LAST), example(_MIDDLE, axis=1))
_REDUCED = (example(_LAST, axes=1), example(_LAST, axes=0, keepdims=True), example(_MIDDLE, axes=(0, 2)))
_BEST = (
    example(_LAST, axis=1),
    example(_LAST, axis=0, select_first=False, keepdims=True),
    example(_MIDDLE, axis=1, nan="propagate"),
)

LARGE: dict[str, tuple[OpExample, ...]] = {
    "softmax": _ALONG,
    "log_softmax": _ALONG,
    "l2_norm": _ALONG,
    "layer_norm": (example(_LAST, (259,), (259,)), example((31, 17, 19), (17, 19), (19,), axis=1)),
    "rms_norm": (example(_LAST, (259,)), example((31, 17, 19), (17, 19), axis=-2)),
    "batch_norm": (example((3, 17, 19, 21), (17,), (17,), (17,), _VARIANCE),),
    "group_norm": (example((3, 12, 19, 23), (12,), (12,), groups=4),),
    "instance_norm": (example((3, 12, 19, 23), (12,), (12,)),),
    **dict.fromkeys(("sum_axis", "mean_axis", "max_axis", "min_axis", "l2_axis", "logsumexp_axis"), _REDUCED),
    **dict.fromkeys(("argmax_axis", "argmin_axis"), _BEST),
    "cumsum": (
        example(_LAST, axis=1),
        example(_LAST, axis=0, reverse=True),
        example(_MIDDLE, axis=1, exclusive=True),
    ),
    "topk": (example(_LAST, k=5), example(_LAST, k=101), example(_MIDDLE, k=3, axis=1, largest=False)),
    "argsort": (example(_LAST), example(_MIDDLE, axis=1, descending=True)),
}
