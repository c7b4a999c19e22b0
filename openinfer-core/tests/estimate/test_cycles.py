"""Cycles of loop programs where one instruction begins at a time, by what compilers make of each function."""

from __future__ import annotations

import pytest

from openinfer.affine import Index, Var
from openinfer.arch import TargetInfo
from openinfer.dtypes import I32
from openinfer.estimate.cycles import ITERATION, kernel_cycles
from openinfer.expr import tree
from openinfer.loops import Bind, Buffer, For, Kernel, Load, Store, Value

PLACE, COUNT = Var("i0", 12), 12
X, Y = Buffer("x0", I32, Index.of(COUNT)), Buffer("y0", I32, Index.of(COUNT))


def cycles_of(expr, **target):
    store = Store(Y, Index.of(PLACE), Value(expr, (Load(X, Index.of(PLACE)),)))
    kernel = Kernel("k", (X, Y), (For(PLACE, Bind.SERIAL, (store,)),))
    return kernel_cycles(kernel, TargetInfo(**target))


@pytest.mark.parametrize(
    ("has_dot4", "function", "cycles"),
    [(False, "requantise", 20), (True, "requantise", 20), (False, "sdot4", 6), (True, "sdot4", 1), (False, "clip8", 1)],
)
def test_a_function_counts_as_the_instructions_that_it_becomes(has_dot4, function, cycles):
    x, numbers = tree.Input(0, I32), [tree.literal(number, I32) for number in (1 << 30, 3, -128)]
    expr = {
        "requantise": tree.requantise(numbers[0], x, numbers[1], numbers[2]),
        "sdot4": tree.sdot4(x, numbers[0], numbers[1]),
        "clip8": tree.clip8(x),
    }[function]

    # An iteration, the load and the store come on top.
    assert cycles_of(expr, vector_nbytes=4, registers=12, fpu="none", dot4=has_dot4) == COUNT * (cycles + ITERATION + 2)
