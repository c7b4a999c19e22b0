"""Convolutions, pools and images of other sizes: past blocks of kernels and columns, and past the taps that are
gathered at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I32, I64
from openinfer.testing.large_examples import example

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import OpExample

_FLOATS = frozenset({"f32", "bf16", "f8"})
_ACCUMULATORS: dict[str, DType] = {"i8": I32, "i32": I64}


def _convolution(*shapes: tuple[int, ...], **settings: SettingValue) -> tuple[OpExample, ...]:
    """Return an example for floats, and one for each integer type that accumulates in another."""
    integers = [
        example(*shapes[:2], dtypes=frozenset({name}), acc=wide, **settings) for name, wide in _ACCUMULATORS.items()
    ]
    return (example(*shapes, dtypes=_FLOATS, **settings), *integers)


_IMAGES = (
    example((1, 3, 67, 61), kernel=3, stride=2),
    # Rows and columns of which the last window would begin past the image, and is left out.
    example((1, 3, 65, 68), kernel=(2, 3), stride=3, padding=1, ceil_mode=True),
    example((1, 3, 64, 66), kernel=(2, 3), stride=4, ceil_mode=True),
    example((1, 2, 61, 67), kernel=5, padding="same_lower", stride=(1, 2)),
)
_ROWS = (
    example((2, 3, 2053), kernel=5),
    example((2, 3, 2049), kernel=4, stride=4, ceil_mode=True),
    example((2, 3, 2048), kernel=2, stride=3, padding=1, ceil_mode=True),
)
_CHANNELS = (example((2, 5, 41, 43)), example((3, 3, 1111)))

LARGE: dict[str, tuple[OpExample, ...]] = {
    "conv2d": (
        *_convolution((1, 8, 66, 65), (33, 8, 3, 3), (33,), padding=1),
        *_convolution((1, 6, 67, 71), (6, 1, 5, 5), groups=6, stride=(1, 2), padding="same_upper"),
        *_convolution((1, 12, 33, 35), (18, 4, 1, 1), groups=3),
    ),
    "conv1d": (
        *_convolution((2, 5, 1031), (19, 5, 7), (19,), padding=3, dilation=2),
        *_convolution((1, 6, 2053), (6, 1, 4), groups=6, stride=2),
    ),
    "conv_transpose2d": (
        example((1, 6, 29, 31), (6, 5, 4, 3), (5,), stride=2, output_padding=1),
        example((2, 6, 23, 19), (6, 7, 3, 3), groups=2, stride=(3, 2), padding=(1, 0, 0, 1), dilation=(2, 1)),
    ),
    "conv_integer": (
        example((1, 8, 66, 65), (33, 8, 3, 3), (), (33,), padding=1),
        example((1, 6, 67, 71), (6, 1, 5, 5), groups=6, stride=(1, 2), padding="same_lower"),
    ),
    "max_pool2d": (*_IMAGES, example((1, 3, 67, 61), kernel=3, dilation=(2, 5))),
    "avg_pool2d": (*_IMAGES, example((1, 3, 67, 61), kernel=4, stride=3, padding=2, count_include_pad=True)),
    "max_pool1d": _ROWS,
    "avg_pool1d": _ROWS,
    "global_avg_pool": _CHANNELS,
    "global_max_pool": _CHANNELS,
    "resize2d": (
        example((1, 3, 61, 47), scale=(1.25, 0.75)),
        example((1, 2, 37, 41), size=(83, 97)),
        example((1, 3, 61, 47), scale=(0.75, 1.25), mode="linear", dtypes=_FLOATS),
    ),
}
