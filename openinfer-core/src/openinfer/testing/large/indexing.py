"""Rows and elements at places that indices name, most of them several times, and walks from place to place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.schema import Operand, OpExample
from openinfer.testing.large_examples import example

if TYPE_CHECKING:
    from openinfer.ir.resolved import SettingValue


def _indices(extent: int, *shape: int, dtype: str = "i64") -> Operand:
    return Operand(shape=shape, dtype=dtype, low=-extent, high=extent - 1)


def _places(extent: int, *shape: int) -> Operand:
    return Operand(shape=shape, dtype="u16", low=0, high=extent - 1)


def _whole(extent: int, *shape: int) -> Operand:
    return Operand(shape=shape, dtype="i32", low=0, high=extent - 1)


def _declared(*shape: int, **settings: SettingValue) -> OpExample:
    return OpExample(inputs=(), settings=settings, outputs=(Operand(shape=shape),))


LARGE: dict[str, tuple[OpExample, ...]] = {
    "gather": (
        example((131, 67), _indices(131, 201)),
        example((67, 131), _indices(131, 13, 11), axis=-1),
        example((5, 131, 3), _places(131, 257), axis=1),
    ),
    "embedding": (example(_places(259, 7, 31), (259, 67)),),
    "gather_elements": (example((131, 67), _indices(131, 151, 67)), example((67, 131), _places(131, 67, 97), axis=1)),
    "gather_nd": (
        example((37, 41, 5), _indices(37, 301, 2)),
        example((7, 67, 11), _indices(67, 7, 131, 1), batch_dims=1),
    ),
    "scatter": (
        example((131, 67), _indices(131, 67, 67), (67, 67)),
        example((67, 131), _indices(131, 67, 67), (67, 67), axis=1, reduction="add"),
    ),
    "scatter_nd": (
        example((259, 33), _indices(259, 151, 1), (151, 33)),
        example((67, 131), _indices(67, 4099, 2), (4099,), reduction="add"),
    ),
    "one_hot": (OpExample(inputs=(_indices(67, 131),), settings={"depth": 67}, outputs=(Operand(shape=(131, 67)),)),),
    "tree_ensemble": (
        example(
            (131, 17),
            _whole(17, 259),
            (259,),
            _whole(390, 259, 2),
            _whole(390, 33),
            (131, 5),
            depth=6,
        ),
    ),
    "range": (_declared(20_011, start=3), _declared(5003, start=7, limit=-15_002, step=-3)),
    "iota": (_declared(131, 67, axis=1), _declared(131, 67)),
}
