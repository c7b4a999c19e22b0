"""Cycles of loop programs where one instruction begins at a time, by what compilers make of each function."""

from __future__ import annotations

import pytest

from openinfer.affine import Index, Var
from openinfer.arch import Cycles, TargetInfo
from openinfer.dtypes import F32, F64, I32, I64
from openinfer.estimate.cycles import FLOAT_CALL, iteration_cycles, kernel_cycles
from openinfer.expr import tree
from openinfer.loops import Bind, Buffer, For, Kernel, Load, Store, Value

PLACE, COUNT = Var("i0", 12), 12
X, Y = Buffer("x0", I32, Index.of(COUNT)), Buffer("y0", I32, Index.of(COUNT))

ITERATION = iteration_cycles(Cycles())


def cycles_of(expr, waits=None, **target):
    store = Store(Y, Index.of(PLACE), Value(expr, (Load(X, Index.of(PLACE)),)))
    kernel = Kernel("k", (X, Y), (For(PLACE, Bind.SERIAL, (store,)),))
    return kernel_cycles(kernel, TargetInfo(vector_nbytes=4, registers=12, **target), waits)


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
    assert cycles_of(expr, fpu="none", dot4=has_dot4) == COUNT * (cycles + ITERATION + 2)


X32 = tree.Input(0, I32)
AS_F32, AS_F64 = tree.cast(X32, F32), tree.cast(X32, F64)
PRICES = Cycles(mul=3, mac=5, fma_f32=7, convert=11, div=13, load=17, load_pair=19, branch=23)


@pytest.mark.parametrize(
    ("fpu", "expr", "cycles"),
    [
        ("single", tree.mul(X32, X32), PRICES.mul),
        ("single", tree.add(tree.mul(X32, X32), X32), PRICES.mac),
        ("single", tree.add(tree.mul(X32, X32), tree.mul(X32, tree.literal(5, I32))), PRICES.mul + PRICES.mac),
        ("single", tree.div(X32, tree.literal(3, I32)), PRICES.div),
        ("single", tree.cast(AS_F32, I32), 2 * PRICES.convert),
        ("single", tree.cast(tree.mul(AS_F32, AS_F32), I32), 2 * PRICES.convert + 1),
        ("single", tree.cast(tree.fma(AS_F32, AS_F32, AS_F32), I32), 2 * PRICES.convert + PRICES.fma_f32),
        ("single", tree.cast(tree.mul(AS_F64, AS_F64), I32), 3 * FLOAT_CALL),
        ("double", tree.cast(tree.mul(AS_F64, AS_F64), I32), 2 * PRICES.convert + 1),
        ("none", tree.cast(tree.mul(AS_F32, AS_F32), I32), 3 * FLOAT_CALL),
    ],
)
def test_instructions_take_what_the_device_says(fpu, expr, cycles):
    around = 1 + PRICES.branch + PRICES.load + 1

    assert cycles_of(expr, fpu=fpu, cycles=PRICES) == COUNT * (cycles + around)


def test_a_load_waits_for_its_memory_and_loads_words_in_pairs():
    wide = Buffer("x0", I64, Index.of(COUNT)), Buffer("y0", I64, Index.of(COUNT))
    place = Index.of(PLACE)
    store = Store(wide[1], place, Value(tree.Input(0, I64), (Load(wide[0], place),)))
    copy = Kernel("k", wide, (For(PLACE, Bind.SERIAL, (store,)),))

    assert cycles_of(X32, {"x0": 4}, cycles=PRICES) == cycles_of(X32, cycles=PRICES) + COUNT * 4
    assert kernel_cycles(copy, TargetInfo(cycles=PRICES)) == COUNT * (1 + PRICES.branch + PRICES.load_pair + 1)
