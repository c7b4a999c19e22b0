"""Products of matrices and sums of products: past tiles of columns, and past what one thread multiplies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.schema import Operand
from openinfer.testing.large_examples import example

if TYPE_CHECKING:
    from openinfer.ops.schema import OpExample

_FLOATS_ONLY = frozenset({"f32", "bf16"})


def _stored(dtype: str, *shape: int) -> Operand:
    return Operand(shape=shape, dtype=dtype)


LARGE: dict[str, tuple[OpExample, ...]] = {
    "matmul": (
        example((67, 129), (129, 83)),
        example((131, 67), (83, 131), trans_a=True, trans_b=True, dtypes=_FLOATS_ONLY),
        example((3, 35, 37), (37, 41)),
        example((67, 67), (67, 67)),  # written over either input, too
        example((1, 611), (611, 67), dtypes=_FLOATS_ONLY),
        # Two pieces of sixteen million products each, cut at a multiple of 64 rows or columns.
        example((2101, 131), (131, 127), dtypes=frozenset({"f32"})),
    ),
    "linear": (
        example((67, 129), (129, 83), (83,)),
        example((2, 9, 131), (93, 131), None, trans_w=True),
    ),
    "einsum": (
        example((5, 33, 37), (5, 37, 41), equation="bij,bjk->bik"),
        example((131, 67), (83, 67), equation="ik,jk->ji"),
        example((67, 131), (131, 67), equation="ij,ji->"),
    ),
    "qmatmul": (
        example((2, 160), _stored("i4", 160, 1111), (5, 1111), _stored("i4", 5, 1111), (1111,), group_size=32),
        example((17, 96), _stored("u8", 131, 96), (131, 3), _stored("u8", 131, 3), group_size=32, trans_w=True),
        example((9, 67), _stored("t2", 67, 129), (129,), None, (129,)),
    ),
    "matmul_integer": (
        example((67, 129), (129, 83), (67,), (83,)),
        example((3, 35, 37), _stored("u4", 37, 41), None, _stored("u4")),
    ),
    "qlinear_matmul": (
        example(
            *((67, 129), _stored("f32"), ()),
            *(_stored("i8", 129, 83), _stored("f32", 83), _stored("i8", 83)),
            *(_stored("f32"), ()),
        ),
    ),
}
