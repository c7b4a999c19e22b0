"""Stages to tile, and the check that a schedule of one computes what the stage means."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from openinfer.affine import Index
from openinfer.arch import TargetInfo
from openinfer.array_types import storage_dtype
from openinfer.compute import Computation, Order, Read, Tensor, Total
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.dtypes import F32, F64, DType
from openinfer.expr import tree
from openinfer.layout import Digit, Layout, row_major
from openinfer.loops import Accesses, verify
from openinfer.loops.coalesce import coalesced
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered
from openinfer.schedule import Schedule, choose, packing
from openinfer.schedule import verify as verify_schedule
from openinfer.schedule.text import parse_schedule, schedule_text

Array = npt.NDArray[Any]

FOUR = TargetInfo(vector_nbytes=16, registers=16, fma=True)
EIGHT = TargetInfo(vector_nbytes=32, registers=16, fma=False)
SIXTEEN = TargetInfo(vector_nbytes=64, registers=32, fma=True)
TARGETS = (FOUR, EIGHT, SIXTEEN)


def convolution(
    shape: tuple[int, int, int, int], out: int, window: int, stride: int, pad: int, order: str = "unordered"
) -> Computation:
    """Return a 2-D convolution with bias and relu: x [n, c, h, w] to y [n, out, ...]."""
    n, c, h, w = shape
    oh, ow = ((size + 2 * pad - window) // stride + 1 for size in (h, w))
    k = window
    return parse_computation(f"""
def conv(x: f32[{n}, {c}, {h}, {w}], w: f32[{out}, {c}, {k}, {k}], b: f32[{out}], /, y: f32[{n}, {out}, {oh}, {ow}]):
    for n, o, i, j in grid({n}, {out}, {oh}, {ow}):
        for c, u, v in {order}({c}, {k}, {k}):
            total0 = start(0.0)
            term0 = fill(x[n, c, {stride}*i + u - {pad}, {stride}*j + v - {pad}], 0.0) * w[o, c, u, v]
            total0 = total0 + term0
        y[n, o, i, j] = maximum(total0 + b[o], 0.0)
""")


def depthwise(shape: tuple[int, int, int, int], stride: int, pad: int) -> Computation:
    n, c, h, w = shape
    oh, ow = ((size + 2 * pad - 3) // stride + 1 for size in (h, w))
    return parse_computation(f"""
def depthwise(x: f32[{n}, {c}, {h}, {w}], w: f32[{c}, 1, 3, 3], /, y: f32[{n}, {c}, {oh}, {ow}]):
    for n, o, i, j in grid({n}, {c}, {oh}, {ow}):
        for u, v in unordered(3, 3):
            total0 = start(0.0)
            term0 = fill(x[n, o, {stride}*i + u - {pad}, {stride}*j + v - {pad}], 0.0) * w[o, 0, u, v]
            total0 = total0 + term0
        y[n, o, i, j] = total0
""")


def largest_of_windows(shape: tuple[int, int, int, int], order: str = "sequential") -> Computation:
    n, c, h, w = shape
    return parse_computation(f"""
def pool(x: f32[{n}, {c}, {h}, {w}], /, y: f32[{n}, {c}, {h // 2}, {w // 2}]):
    for n, o, i, j in grid({n}, {c}, {h // 2}, {w // 2}):
        for u, v in {order}(2, 2):
            total0 = start()
            term0 = x[n, o, 2*i + u, 2*j + v]
            total0 = maximum(total0, term0)
        y[n, o, i, j] = total0
""")


TEXTS = {
    "product": """
def product(x: f32[5, 9], w: f32[9, 22], /, y: f32[5, 22]):
    for i, j in grid(5, 22):
        for k in unordered(9):
            total0 = start(0.0)
            term0 = x[i, k] * w[k, j]
            total0 = total0 + term0
        y[i, j] = total0
""",
    "product of rows": """
def scores(x: f32[5, 37], z: f32[6, 37], /, y: f32[5, 6]):
    for i, j in grid(5, 6):
        for k in unordered(37):
            total0 = start(0.0)
            term0 = x[i, k] * z[j, k]
            total0 = total0 + term0
        y[i, j] = 0.125 * total0
""",
    "sum of rows": """
def rows(x: f32[3, 75], z: f32[3], /, y: f32[3]):
    for i in grid(3):
        for k in unordered(75):
            total0 = start(z[i])
            term0 = x[i, k]
            total0 = total0 + term0
        y[i] = total0
""",
    "running totals in the middle": """
def scan(x: f32[2, 5, 39], z: f32[39], /, y: f32[2, 5, 39]):
    for i, j in grid(2, 39):
        for k in running_unordered(5):
            total0 = start(z[j])
            term0 = x[i, 4 - k, j]
            total0 = total0 + term0
        y[i, 4 - k, j] = total0 * 0.5 + x[i, k, j]
""",
    "running totals of rows": """
def scan(x: f32[11, 6], /, y: f32[11, 7]):
    for i in grid(11):
        for k in running_sequential(6):
            total0 = start(0.0)
            term0 = x[i, k]
            total0 = total0 + term0
        y[i, k + 1] = total0
""",
    "sum of planes": """
def planes(x: f32[2, 9, 21], /, y: f32[2]):
    for i in grid(2):
        for k, m in unordered(9, 21):
            total0 = start(0.0)
            term0 = x[i, k, m]
            total0 = total0 + term0
        y[i] = total0 / 189.0
""",
    "largest of rows": """
def rows(x: f32[3, 75], /, y: f32[3]):
    for i in grid(3):
        for k in unordered(75):
            total0 = start()
            term0 = x[i, k]
            total0 = maximum(total0, term0)
        y[i] = total0
""",
    "largest of columns and its place": """
def columns(x: f32[4, 21], /, y: i32[21]):
    for j in grid(21):
        for k in sequential(4):
            total0 = start(-inf)
            total1 = start(i32(0))
            term0 = x[k, j]
            term1 = position(k, i32)
            total0 = select(gt(term0, total0), term0, total0)
            total1 = select(gt(term0, total0), term1, total1)
        y[j] = total1
""",
    "product of integers": """
def product(x: i8[5, 9], w: i8[9, 22], /, y: i32[5, 22]):
    for i, j in grid(5, 22):
        for k in unordered(9):
            total0 = start(i32(0))
            term0 = (cast(x[i, k], i32) - i32(3)) * cast(w[k, j], i32)
            total0 = total0 + term0
        y[i, j] = total0
""",
    "sum of a few terms by their places": """
def places(x: i32[4], /, y: i32[1]):
    for i in grid(1):
        for k in unordered(4):
            total0 = start(i32(0))
            term0 = x[k] * position(k, i32)
            total0 = total0 + term0
        y[i] = total0
""",
    "sum of columns": """
def columns(x: f64[7, 13], /, y: f64[13]):
    for j in grid(13):
        for k in sequential(7):
            total0 = start(f64(0.0))
            term0 = x[k, j]
            total0 = total0 + term0
        y[j] = total0
""",
    "chain": """
def chain(x: f32[3, 5, 22], z: f32[22], /, y: f32[3, 5, 22]):
    for i, j, k in grid(3, 5, 22):
        y[i, j, k] = maximum(x[i, j, k] * z[k] + x[i, j, k], 0.0)
""",
    "transposition": """
def transposed(x: f32[40, 50], /, y: f32[50, 40]):
    for i, j in grid(50, 40):
        y[i, j] = x[j, i] + 1.0
""",
    "place": """
def place(x: f32[3, 22], /, y: f32[3, 22]):
    for i, j in grid(3, 22):
        y[i, j] = x[i, j] + position(3*j + i, f32)
""",
}


def channels_last(shape: tuple[int, ...], lanes: int, halo: int) -> Layout:
    """Return a layout of [n, c, h, w] with c running fastest, padded to whole lanes, and a halo around h and w."""
    n, c, h, w = (Index.of(size) for size in shape)
    padded = Index.of(-(-shape[1] // lanes) * lanes)
    digits = (Digit(0, 1, n), Digit(2, 1, h + 2 * halo), Digit(3, 1, w + 2 * halo), Digit(1, 1, padded))
    return Layout((n, c, h, w), digits, ((0, 0), (0, 0), (halo, halo), (halo, halo)) if halo else ())


def shape_of(layout: Layout) -> tuple[int, ...]:
    return tuple(extent.constant or 0 for extent in layout.shape)


def elements(layout: Layout, flat: Array) -> Array:
    """Return the elements that lie in a buffer, in the shape of the tensor."""
    shape = shape_of(layout)
    places = layout.pack(np.arange(1, int(np.prod(shape)) + 1).reshape(shape))
    out = np.zeros(int(np.prod(shape)), flat.dtype)
    out[places[places > 0] - 1] = flat[places > 0]
    return out.reshape(shape)


def drawn(dtype: DType, shape: tuple[int, ...], seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(storage_dtype(dtype))
    return rng.integers(-100, 100, shape).astype(storage_dtype(dtype))


def in_doubles(computation: Computation) -> Computation:
    """Return a computation of f32 in f64: for short sums its results are as good as exact."""

    def wide(expr: tree.Expr) -> tree.Expr:
        match expr:
            case tree.Input(index, dtype):
                return tree.Input(index, F64 if dtype is F32 else dtype)
            case tree.Literal(value, dtype):
                return tree.Literal(value, F64 if dtype is F32 else dtype)
            case tree.Apply(function, args, dtype):
                return tree.Apply(function, tuple(map(wide, args)), F64 if dtype is F32 else dtype)

    def tensor(given: Tensor) -> Tensor:
        return replace(given, dtype=F64 if given.dtype is F32 else given.dtype)

    def fill(literal: tree.Literal | None) -> tree.Literal | None:
        return literal and tree.Literal(literal.value, F64)

    def total(given: Total) -> Total:
        return Total(given.start and wide(given.start), wide(given.term), wide(given.combine))

    (stage,) = computation.stages
    reads = [e for e in stage.elements if isinstance(e, Read)]
    assert len(reads) == len(stage.elements)
    assert stage.fold is not None
    made = replace(
        stage,
        elements=tuple(replace(e, dtype=F64, fill=fill(e.fill)) for e in reads),
        value=wide(stage.value),
        fold=replace(stage.fold, totals=tuple(map(total, stage.fold.totals))),
    )
    inputs, outputs = tuple(map(tensor, computation.inputs)), tuple(map(tensor, computation.outputs))
    return replace(computation, inputs=inputs, outputs=outputs, stages=(made,))


def assert_right(
    computation: Computation,
    target: TargetInfo,
    layouts: dict[str, Layout] | None = None,
    constants: tuple[str, ...] = (),
    schedule: Schedule | None = None,
    skip: int | None = None,
) -> Accesses:
    """Check the loop program of one stage against the evaluator, and where sums are free against exact sums."""
    (stage,) = computation.stages
    tensors = (*computation.inputs, *computation.outputs)
    known = {t.name: row_major(t.shape) for t in tensors if t.name not in constants} | (layouts or {})
    chosen = schedule or choose(stage, known, target, skip=skip)
    verify_schedule(chosen, stage, target)
    axes = (*stage.axes, *(stage.fold.axes if stage.fold else ()))
    assert parse_schedule(schedule_text(chosen), axes) == chosen
    for name in constants:
        known[name] = packing(stage, chosen, name) or row_major(computation.tensor(name).shape)
    kernel = lowered(computation, known, target, {0: chosen})
    accesses = verify(kernel)
    assert parse_kernel(kernel_text(kernel)) == kernel
    inputs = [drawn(t.dtype, shape_of(known[t.name]), seed) for seed, t in enumerate(computation.inputs)]
    (output,) = computation.outputs
    size = known[output.name].size.constant or 0
    arrays = {t.name: known[t.name].pack(array) for t, array in zip(computation.inputs, inputs, strict=True)}
    arrays[output.name] = np.zeros(size, storage_dtype(output.dtype))
    joined = coalesced(kernel)
    verify(joined)
    interpret(joined, arrays)
    found = elements(known[output.name], arrays[output.name])
    (expected,) = evaluate(computation, inputs)
    fold = stage.fold
    is_free = fold is not None and fold.order is Order.ANY and output.dtype.is_float
    if not is_free:
        np.testing.assert_array_equal(found, expected)
        return accesses
    wide = in_doubles(computation)
    (exact,) = evaluate(wide, [array.astype(np.float64) for array in inputs])
    (terms,) = evaluate(wide, [np.abs(array).astype(np.float64) for array in inputs])
    count = prod(axis.extent for axis in fold.axes if isinstance(axis.extent, int)) if fold else 0
    unit = np.finfo(storage_dtype(output.dtype)).eps / 2
    assert np.all(np.abs(found - exact) <= 2 * (count + 2) * unit * np.abs(terms))
    return accesses


def image_layouts(computation: Computation, lanes: int, halo: int) -> dict[str, Layout]:
    return {
        t.name: channels_last(shape_of(row_major(t.shape)), lanes, halo)
        for t in (*computation.inputs, *computation.outputs)
        if t.name in ("x", "y")
    }
