"""Constants of few bits are read as words of 32, with the values that their elements have one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import openinfer as oi
from openinfer.affine import Index
from openinfer.compute import Computation, Read
from openinfer.compute.evaluate import evaluate
from openinfer.compute.factors import factored
from openinfer.compute.reading import parse_computation
from openinfer.compute.words import in_words, words_of
from openinfer.dtypes import I32, dtype_named
from openinfer.expr.linear import linearise
from openinfer.plan.steps import ComputeStep, ValueRef
from openinfer.plan.values import WeightMemory
from openinfer.plan.words import word_array

Array = npt.NDArray[Any]
RANDOM = np.random.default_rng(3)
SMALL = ("i8", "u8", "i4", "u4", "i2", "u2", "t2")

PLAIN = """
def product(x: f32[3, 32], w: {dtype}[32, 5], s: f32[5], /, y: f32[3, 5]):
    for i, j in grid(3, 5):
        for r in unordered(32):
            total0 = start(0.0)
            term0 = x[i, r] * cast(w[r, j], f32)
            total0 = total0 + term0
        y[i, j] = total0 * s[j]
"""
GROUPED = """
def product(x: f32[3, 64], w: {dtype}[5, 64], s: f32[5, 4], /, y: f32[3, 5]):
    for i, j in grid(3, 5):
        for g, r in unordered(4, 16):
            total0 = start(0.0)
            term0 = x[i, 16*g + r] * (cast(w[j, 16*g + r], f32) * s[j, g])
            total0 = total0 + term0
        y[i, j] = total0
"""


def drawn(dtype: str, *shape: int) -> Array:
    kind = dtype_named(dtype)
    low, high = kind.minimum or 0, kind.maximum or 0
    return RANDOM.integers(low, high, shape, endpoint=True).astype(np.uint8 if low == 0 else np.int8)


def worded(computation: Computation) -> tuple[Computation, int, int]:
    """Return a computation whose second operand is words, the dimension that they go along, and parts of it."""
    (stage,) = computation.stages
    number = next(n for n, e in enumerate(stage.elements) if isinstance(e, Read) and e.tensor == "w")
    found = words_of(stage, number)
    assert found is not None
    changed = in_words(stage, found)
    read = changed.elements[number]
    assert isinstance(read, Read)
    shape = tuple(Index.of(next(iter(index.variables())).extent or 0) for index in read.at)
    x, w, s = computation.inputs
    inputs = (x, type(w)("w", I32, shape), s)
    outer = found.outer.extent if found.outer is not None else 0
    assert isinstance(outer, int)
    return Computation("product", inputs, computation.outputs, (changed,)), found.dim, outer


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("text", [PLAIN, GROUPED])
def test_terms_take_elements_out_of_words(text: str, dtype: str) -> None:
    computation = parse_computation(text.format(dtype=dtype))
    x, w, s = (tuple(extent.constant or 0 for extent in tensor.shape) for tensor in computation.inputs)
    codes, row = drawn(dtype, *w), RANDOM.integers(-9, 9, x).astype(np.float32)
    scales = np.ldexp(np.float32(1), RANDOM.integers(-2, 3, s)).astype(np.float32)
    changed, dim, outer = worded(computation)

    (expected,) = evaluate(computation, [row, codes, scales])
    (found,) = evaluate(changed, [row, word_array(codes, dim, outer, dtype_named(dtype).bits), scales])

    assert (found == expected).all()
    assert np.abs(expected).max() > 0


@pytest.mark.parametrize(("factor", "scale"), [(2.0**-10, 2.0**112), (2.0**-120, 2.0**119), (2.0**-126, 1.0)])
def test_elements_are_taken_out_without_numbers_near_the_ends_of_the_range(factor: float, scale: float) -> None:
    computation = parse_computation(GROUPED.format(dtype="i8"))
    x, w, s = (tuple(extent.constant or 0 for extent in tensor.shape) for tensor in computation.inputs)
    codes = drawn("i8", *w)
    row = (RANDOM.integers(-9, 9, x) * factor).astype(np.float32)
    scales = np.full(s, scale, np.float32)
    changed, dim, outer = worded(computation)

    (expected,) = evaluate(computation, [row, codes, scales])
    (found,) = evaluate(changed, [row, word_array(codes, dim, outer, 8), scales])

    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("cast", "function"), [("f32", "from_bits"), ("f64", "from_bits"), ("i32", "shl")])
def test_elements_become_floats_as_bits_of_floats_and_integers_by_shifts(cast: str, function: str) -> None:
    term = {"i32": "cast(cast(w[r, j], i32), f32)"}.get(cast, f"cast(cast(w[r, j], {cast}), f32)")
    text = PLAIN.format(dtype="i4").replace("cast(w[r, j], f32)", term)
    changed, _, _ = worded(parse_computation(text))

    assert changed.stages[0].fold is not None
    assert function in {i.function for i in linearise(changed.stages[0].fold.totals[0].term).instructions}


def test_the_first_element_has_the_lowest_bits() -> None:
    words = word_array(np.array([[1, -1], [2, 0], [3, 0], [-4, 0]], np.int8), 0, 0, 8)

    assert words.tolist() == [[-0x03FCFDFF, 0xFF]]


def test_what_does_not_divide_into_words_stays() -> None:
    computation = parse_computation(PLAIN.replace("32", "30").replace("f30", "f32").format(dtype="i4"))

    assert all(words_of(computation.stages[0], n) is None for n in range(3))


@pytest.mark.parametrize("dtype", ["i8", "u4", "t2"])
def test_a_plan_keeps_the_bytes_of_weights_of_few_bits(dtype: str) -> None:
    program = f"""
    dynamic {{ x: f32[1, 64]; }}
    constant {{ w: {dtype}[64, 48] @init(1); s: f32[2, 48] @init(0.5); z: {dtype}[2, 48] @init(1); }}
    volatile {{ y: f32[1, 48]; }}
    block entry {{ op qmatmul(x, w, s, z, group_size=32) >> y; return y; }}
    """
    plan = oi.Synthesizer("c", arch="x86-64-v3").synthesize(oi.Model.from_arrays({}), oi.graph(program)).plan
    (step,) = (step for step in plan.procedures[-1].steps if isinstance(step, ComputeStep))
    values = [plan.values[operand.value] for operand in step.inputs if isinstance(operand, ValueRef)]
    weights = [plan.weights[v.memory.number] for v in values if isinstance(v.memory, WeightMemory)]
    kind = dtype_named(dtype)

    assert [w.type.dtype for w in weights if w.source == "w"] == [I32]
    assert sum(len(w.data) for w in weights if w.source == "w") == 64 * 48 * kind.bits // 8
    assert not any(w.type.dtype.is_packed for w in weights)


@pytest.mark.parametrize("dtype", ["i4", "u2"])
@pytest.mark.parametrize("arch", [None, "generic", "x86-64-v3"])
def test_products_with_scales_of_groups_have_lanes_where_registers_are_few(arch: str | None, dtype: str) -> None:
    program = f"""
    dynamic {{ x: f32[1, 64]; }}
    constant {{ w: {dtype}[64, 48] @init(1); s: f32[2, 48] @init(0.5); }}
    volatile {{ y: f32[1, 48]; }}
    block entry {{ op qmatmul(x, w, s, group_size=32) >> y; return y; }}
    """
    plan = oi.Synthesizer("c", arch=arch).synthesize(oi.Model.from_arrays({}), oi.graph(program)).plan
    (step,) = (step for step in plan.procedures[-1].steps if isinstance(step, ComputeStep))

    assert all(schedule.lanes is not None for schedule in step.arrangement.schedules)


SCALED = """
def product(x: f32[3, 32], w: i8[32, 5], s: f32[5], /, y: f32[3, 5]):
    for i, j in grid(3, 5):
        for r in unordered(32):
            total0 = start(0.0)
            term0 = x[i, r] * (cast(w[r, j], f32) * s[j])
            total0 = total0 + term0
        y[i, j] = total0
"""


def test_a_scale_that_all_terms_share_is_applied_to_their_sum() -> None:
    (stage,) = parse_computation(SCALED).stages
    expected = parse_computation(PLAIN.format(dtype="i8")).stages[0]

    assert factored(stage, lambda read: read.tensor == "s") == expected


def test_a_scale_that_may_be_infinite_stays_with_its_terms_as_it_makes_nan_of_zeros() -> None:
    (stage,) = parse_computation(SCALED).stages

    assert factored(stage, lambda _: False) is stage


def test_a_scale_of_groups_stays_with_its_terms() -> None:
    (stage,) = parse_computation(GROUPED.format(dtype="i8")).stages

    assert factored(stage, lambda _: True) is stage
