"""Parts of expressions that are known become literals of the same value."""

from __future__ import annotations

import pytest

from openinfer.dtypes import F32, I32, U32
from openinfer.expr import tree
from openinfer.expr.constants import folded
from openinfer.expr.linear import linearise

X = tree.Input(0, U32)


def u32(value: int) -> tree.Expr:
    return tree.literal(value, U32)


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (tree.shl(u32(15), u32(28)), (15 << 28) & 0xFFFFFFFF),
        (tree.sub(u32(3), u32(5)), 2**32 - 2),
        (tree.cast(tree.literal(-1, I32), U32), 2**32 - 1),
        (tree.shr(tree.literal(-8, I32), tree.literal(2, I32)), -2),
        (tree.from_bits(tree.bit_or(u32(0x4B000000), u32(8))), 2.0**23 + 8),
    ],
)
def test_integers_without_inputs_are_literals(expr: tree.Expr, value: float) -> None:
    assert linearise(folded(expr)) == linearise(tree.literal(value, expr.dtype))


def test_a_shift_by_nothing_goes() -> None:
    assert folded(tree.shr(X, tree.sub(u32(7), u32(7)))) is X


def test_what_has_inputs_stays_around_literals() -> None:
    found = folded(tree.bit_and(X, tree.shl(u32(3), u32(4))))

    assert linearise(found) == linearise(tree.bit_and(X, u32(48)))


def test_arithmetic_of_floats_is_left_to_where_it_is_computed() -> None:
    expr = tree.add(tree.literal(0.1, F32), tree.literal(0.2, F32))

    assert [i.function for i in linearise(folded(expr)).instructions] == ["literal", "literal", "add"]
