"""Sums of products of bytes are dot products of four, with the same integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import openinfer as oi
from openinfer.affine import Index
from openinfer.arch import TargetInfo
from openinfer.codegen import loop_program
from openinfer.compute import Computation, Read, Tensor
from openinfer.compute.dot_products import dot_products_of, in_dot_products, own_places
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.dtypes import I32
from openinfer.layout import Digit, Layout
from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered
from openinfer.plan.steps import ComputeStep
from openinfer.plan.words import word_array

Array = npt.NDArray[Any]
RANDOM = np.random.default_rng(5)
SIXTEEN = TargetInfo(vector_nbytes=64, registers=32, fma=True, dot4=True)

PRODUCT = """
def product(x: {x}[3, 24], w: {w}[24, 20], z: {x}[()], s: f32[20], /, y: f32[3, 20]):
    for i, j in grid(3, 20):
        for r in unordered(24):
            total0 = start(i32(0))
            term0 = {image} * cast(w[r, j], i32)
            total0 = total0 + term0
        y[i, j] = cast(total0, f32) * s[j]
"""
SLID = """
def slid(x: u8[8, 8], w: i8[4, 8, 3], z: u8[()], /, y: i32[4, 8]):
    for o, j in grid(4, 8):
        for c, q in unordered(8, 3):
            total0 = start(i32(0))
            term0 = cast(w[o, c, q], i32) * (cast(fill(x[c, j + q - 1], u8(0)), i32) - cast(z[()], i32))
            total0 = total0 + term0
        y[o, j] = total0
"""
PLAIN, LESS = "cast(x[i, r], i32)", "(cast(x[i, r], i32) - cast(z[()], i32))"


def drawn(dtype: str, *shape: int) -> Array:
    low, high = {"u8": (0, 255), "i8": (-128, 127), "i4": (-8, 7), "u4": (0, 15)}[dtype]
    return RANDOM.integers(low, high, shape, endpoint=True).astype(np.uint8 if low == 0 else np.int8)


def channels_last(channels: int, rows: int, columns: int, halo: tuple[tuple[int, int], tuple[int, int]]) -> Layout:
    """Return the layout of [channels, rows, columns] with channels innermost and room around rows and columns."""
    high, wide = (n + sum(around) for n, around in zip((rows, columns), halo, strict=True))
    digits = tuple(Digit(dim, 1, Index.of(extent)) for dim, extent in ((1, high), (2, wide), (0, channels)))
    return Layout(tuple(map(Index.of, (channels, rows, columns))), digits, ((0, 0), *halo))


def in_words(computation: Computation, weight: Array, zero: int) -> tuple[Computation, Array, Array]:
    """Return the computation in dot products, its weight, and what its sums begin with."""
    (stage,) = computation.stages
    product = dot_products_of(stage, frozenset(("w", "z", "s")))[0]
    correction = -(product.offset + zero) * weight.astype(np.int64).sum(axis=0)
    x, w, z, s = computation.inputs
    inputs = (
        replace(x, dtype=I32, shape=(x.shape[0], Index.of(6))),
        replace(w, dtype=I32, shape=(Index.of(6), w.shape[1])),
        *(z, s, Tensor("c", I32, (w.shape[1],))),
    )
    assert [str(index) for index in own_places(stage, product)] == ["j"]
    changed = replace(computation, inputs=inputs, stages=(in_dot_products(stage, product, "c"),))
    return changed, word_array(weight, 0, 0, 8), correction.astype(np.int32)


@pytest.mark.parametrize("w", ["i8", "i4", "u4"])
@pytest.mark.parametrize("x", ["u8", "i8"])
@pytest.mark.parametrize(("image", "zero"), [(PLAIN, 0), (LESS, 3), (LESS, 111)])
def test_words_give_the_sums_of_bytes(x: str, w: str, image: str, zero: int) -> None:
    computation = parse_computation(PRODUCT.format(x=x, w=w, image=image))
    row, codes, scale = drawn(x, 3, 24), drawn(w, 24, 20), np.ones(20, np.float32)
    point = np.array(zero, row.dtype)
    changed, words, correction = in_words(computation, codes, zero)

    (expected,) = evaluate(computation, [row, codes, point, scale])
    given = [row.view(np.int32), words, point, scale, correction]
    (found,) = evaluate(changed, given)
    kernel = lowered(changed, target=SIXTEEN)
    buffers = dict(zip("xwzsc", (array.reshape(-1) for array in given), strict=True))
    buffers["y"] = np.zeros(60, np.float32)
    interpret(kernel, buffers)

    assert (expected == (row.astype(int) - zero) @ codes.astype(int)).all()
    assert (found == expected).all()
    assert verify(kernel).guarded == 0
    assert (buffers["y"].reshape(3, 20) == expected).all()
    assert parse_kernel(kernel_text(kernel)) == kernel
    assert "dot4(" in kernel_text(kernel)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cast(w[r, j], i32)", "cast(w[r, j], i32) - i32(1)"),  # a zero point of the weight
        ("w: i8", "w: u8"),
        ("start(i32(0))", "start(i32(1))"),
        ("total0 + term0", "maximum(total0, term0)"),
    ],
)
def test_other_folds_stay(old: str, new: str) -> None:
    text = PRODUCT.format(x="u8", w="i8", image=PLAIN)
    assert old in text
    computation = parse_computation(text.replace(old, new))

    assert not dot_products_of(computation.stages[0], frozenset(("w", "z", "s")))


def test_a_zero_point_and_padding_stay_bytes() -> None:
    """What lies outside of the image counts for nothing: the zero point is not taken from it."""
    computation = parse_computation(SLID)
    (stage,) = computation.stages
    assert any(isinstance(element, Read) and element.fill is not None for element in stage.elements)

    assert not dot_products_of(stage, frozenset(("w", "z")))


WINDOWS = """
def windows(x: {x}[20, 9, 8], w: i8[20, {rows}, 3], /, y: i32[20, 5, 8]):
    for c, i, j in grid(20, 5, 8):
        for p, q in unordered({rows}, 3):
            total0 = start(i32(0))
            term0 = cast(w[c, p, q], i32) * cast(fill(x[c, 2*i + p - 1, j + q - 1], {x}(0)), i32)
            total0 = total0 + term0
        y[c, i, j] = total0
"""


@pytest.mark.parametrize(("rows", "axes"), [(3, "p q"), (4, "p q"), (8, "p q"), (5, "q")])
@pytest.mark.parametrize("x", ["u8", "i8"])
def test_words_are_made_of_the_bytes_of_a_window(x: str, rows: int, axes: str) -> None:
    """A depthwise convolution, with a border; windows of five rows have no words of rows."""
    computation = parse_computation(WINDOWS.format(x=x, rows=rows))
    (stage,) = computation.stages
    image, codes = drawn(x, 20, 9, 8), drawn("i8", 20, rows, 3)
    (expected,) = evaluate(computation, [image, codes])
    products = dot_products_of(stage, frozenset("w"))
    assert " ".join(product.axis.name for product in products) == axes

    for product in products:
        dim = product.weight_dim
        padded = np.pad(codes, [(0, -size % 4 if dim == d else 0) for d, size in enumerate(codes.shape)])
        words, correction = word_array(padded, dim, 0, 8), -product.offset * codes.sum(axis=(1, 2), dtype=np.int32)
        inputs = (
            computation.inputs[0],
            replace(computation.inputs[1], dtype=I32, shape=tuple(map(Index.of, words.shape))),
            Tensor("c0", I32, (Index.of(20),)),
        )
        made = replace(computation, inputs=inputs, stages=(in_dot_products(stage, product, "c0"),))
        around = {"x": channels_last(20, 9, 8, ((1, 7), (1, 1))), "y": channels_last(20, 5, 8, ((0, 0), (0, 0)))}
        kernel = lowered(made, around, SIXTEEN)
        buffers = {"x": around["x"].pack(image), "w": words.reshape(-1), "c0": correction, "y": np.zeros(800, np.int32)}
        interpret(kernel, buffers)

        assert (evaluate(made, [image, words, correction])[0] == expected).all()
        assert (buffers["y"] == around["y"].pack(expected)).all()
        assert verify(kernel).guarded == 0
        assert "word(x" in kernel_text(kernel)
        assert parse_kernel(kernel_text(kernel)) == kernel


@pytest.mark.parametrize("has_dot4", [True, False])
def test_a_plan_has_dot_products_on_machines_that_have_them(has_dot4: bool) -> None:
    program = """
    dynamic { x: f32[1, 3, 8, 8]; }
    constant { w: i8[20, 3, 3, 3]; }
    volatile { y: i32[1, 20, 8, 8]; }
    block entry {
      op round(x, mode="half_even") >> whole;
      op cast(whole, to=u8) >> bytes;
      op conv_integer(bytes, w, padding=1) >> y;
      return y;
    }
    """
    arch = oi.DeviceArch.load(
        {
            "version": 2,
            "device": {"type": "cpu", "api": "c", "name": "eight lanes"},
            "target": {"lanes": 8, "dot4": has_dot4, "dialect": "vector"},
        }
    )
    plan = (
        oi.Synthesizer("c", arch=arch).synthesize(oi.Model.from_arrays({"w": drawn("i8", 20, 3, 3, 3)}), program).plan
    )
    made, multiplied, *_ = (step for step in plan.procedures[-1].steps if isinstance(step, ComputeStep))

    # The three channels of a pixel are stored at once, as a word.
    assert ("= word(" in kernel_text(loop_program(made))) == has_dot4
    assert ("dot4(" in kernel_text(loop_program(multiplied))) == has_dot4
