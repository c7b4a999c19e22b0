"""Elements that are moved: matrices of odd rows and columns, several thousand elements and more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.testing.large_examples import example

if TYPE_CHECKING:
    from openinfer.ops.schema import OpExample

_MATRIX, _MIDDLE = (67, 131), (5, 37, 67)
_TRIANGLES = (example((3, 67, 83), k=-2), example((67, 131), k=33))

LARGE: dict[str, tuple[OpExample, ...]] = {
    "identity": (example((20_011,)),),
    "reshape": (example(_MATRIX, shape=(131, -1)),),
    "flatten": (example(_MIDDLE, axis=2),),
    "squeeze": (example((67, 1, 131)),),
    "unsqueeze": (example(_MATRIX, axes=(1,)),),
    "expand": (example((67, 1), shape=(3, 67, 41)), example((131,), shape=(67, 131))),
    "transpose": (
        example(_MATRIX),
        example(_MIDDLE, perm=(2, 0, 1)),
        example(_MIDDLE, perm=(1, 0, 2)),
        example((3, 17, 13, 19), perm=(0, 2, 3, 1)),
    ),
    "slice": (
        example((131, 97), starts=(3, -2), ends=(129, -99), steps=(1, -1)),
        example((131, 97), starts=(1,), ends=(97,), axes=(1,), steps=(3,)),
    ),
    "narrow": (example((131, 97), axis=1, start=5, length=67), example((131, 97), axis=0, start=-67, length=64)),
    "select": (example((67, 3, 131), axis=1, index=-1), example((67, 131, 3), axis=2, index=1)),
    "split": (example((67, 131), axis=1, sizes=(1, 63, 67)), example((131, 67), parts=3)),
    "flip": (example(_MATRIX, axes=(1,)), example(_MIDDLE, axes=(0, 2))),
    "tile": (example((41, 29), repeats=(3, 5)),),
    "repeat": (example((67, 41), axis=0, count=3), example((67, 41), axis=1, count=5)),
    "depth_to_space": (example((1, 36, 21, 23), block=3), example((1, 20, 21, 23), block=2, mode="CRD")),
    "space_to_depth": (example((1, 3, 66, 69), block=3),),
    "concat": (
        example((67, 31), (67, 1), (67, 97), axis=1),
        example((31, 131), (1, 131), (35, 131), axis=0),
    ),
    "stack": (example(_MATRIX, _MATRIX, axis=1), example(_MATRIX, _MATRIX, _MATRIX, axis=-1)),
    "pad": (
        example(_MATRIX, pads=(3, 5, 2, 9), value=1),
        example(_MATRIX, pads=(70, -3, 2, 140), mode="reflect"),
        example(_MATRIX, pads=(3, 135, 2, -9), mode="wrap"),
        example(_MIDDLE, pads=(0, 3, 5, 1, 0, 9), mode="edge"),
    ),
    "triu": _TRIANGLES,
    "tril": _TRIANGLES,
}
