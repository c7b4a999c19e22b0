"""Stages in tiles and lanes compute what they mean, under every schedule, layout and target."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer.affine import Index
from openinfer.arch import TargetInfo
from openinfer.array_types import storage_dtype
from openinfer.compute import Computation, Order, Read, Tensor, Total
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.dtypes import F32, F64, DType
from openinfer.expr import tree
from openinfer.layout import Digit, Layout, row_major
from openinfer.loops import Accesses, Bind, verify
from openinfer.loops.coalesce import coalesced
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered
from openinfer.schedule import Loop, Schedule, choose, packing, padded_factor
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


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes(4)}")
@pytest.mark.parametrize("name", TEXTS)
def test_chosen_schedules_compute_what_the_stage_means(name: str, target: TargetInfo) -> None:
    assert_right(parse_computation(TEXTS[name]), target, constants=("w",) if "w: " in TEXTS[name] else ())


def image_layouts(computation: Computation, lanes: int, halo: int) -> dict[str, Layout]:
    return {
        t.name: channels_last(shape_of(row_major(t.shape)), lanes, halo)
        for t in (*computation.inputs, *computation.outputs)
        if t.name in ("x", "y")
    }


def test_a_change_of_layout_stores_from_the_first_address_on() -> None:
    computation = parse_computation("""
def copy(x: f32[1, 3, 5, 6], /, y: f32[1, 3, 5, 6]):
    for n, c, i, j in grid(1, 3, 5, 6):
        y[n, c, i, j] = x[n, c, i, j]
""")
    layouts = {"y": channels_last((1, 3, 5, 6), 4, 1)}
    (stage,) = computation.stages
    known = {"x": row_major(computation.tensor("x").shape), **layouts}
    assert schedule_text(choose(stage, known, FOUR)) == "n i j c=unroll"
    assert_right(computation, FOUR, layouts)


@st.composite
def windows(draw: st.DrawFn) -> Computation:
    """Return a convolution, a depthwise convolution or a pool."""
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 6)), draw(st.integers(3, 8)), draw(st.integers(3, 8)))
    pad, stride = draw(st.integers(0, 1)), draw(st.integers(1, 2))
    order = draw(st.sampled_from(["unordered", "sequential"]))
    kind = draw(st.sampled_from(["convolution", "pointwise", "depthwise", "pool"]))
    if kind == "depthwise":
        return depthwise(shape, stride, pad)
    if kind == "pool":
        return largest_of_windows(shape, order)
    out = draw(st.integers(1, 9))
    if kind == "pointwise":
        return convolution(shape, out, 1, stride, 0, order)
    return convolution(shape, out, 3, stride, pad, order)


@settings(max_examples=25, deadline=None)
@given(windows(), st.sampled_from(TARGETS), st.integers(0, 1), st.booleans())
def test_windows_in_any_layout(computation: Computation, target: TargetInfo, halo: int, is_image: bool) -> None:
    layouts = image_layouts(computation, target.lanes(4), halo) if is_image else {}
    assert_right(computation, target, layouts, tuple(t.name for t in computation.inputs if t.name in ("w", "b")))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes(4)}")
@pytest.mark.parametrize("stride", [1, 2])
def test_a_halo_makes_every_access_certain(stride: int, target: TargetInfo) -> None:
    computation = convolution((1, 3, 7, 7), 5, 3, stride, 1)
    accesses = assert_right(computation, target, image_layouts(computation, target.lanes(4), 1), ("w", "b"))
    assert accesses.guarded == 0


@pytest.mark.parametrize("stride", [1, 2])
def test_terms_past_the_border_are_left_out(stride: int) -> None:
    computation = convolution((1, 8, 6, 6), 4, 3, stride, 1)
    (stage,) = computation.stages
    assert stage.fold is not None
    layouts = image_layouts(computation, 4, 1)
    axes, side = (*stage.axes, *stage.fold.axes), 6 // stride
    schedule = parse_schedule(f"n i j:{side} u c v=unroll j=unroll o=lanes skip=0", axes)
    lines = kernel_text(lowered(computation, layouts, FOUR, {0: schedule})).splitlines()
    assert sum("fma" in line for line in lines) == 3 * side - (2 if stride == 1 else 1)
    assert sum(line.strip().startswith("if 0 <=") for line in lines) == 1
    accesses = assert_right(computation, FOUR, layouts, ("w", "b"), schedule)
    assert accesses.guarded == 0


def test_rows_that_a_loop_over_taps_tests_have_one_body() -> None:
    computation = convolution((1, 8, 6, 6), 4, 3, 1, 1)
    (stage,) = computation.stages
    assert stage.fold is not None
    layouts = image_layouts(computation, 4, 0)
    axes = (*stage.axes, *stage.fold.axes)
    schedule = parse_schedule("n i j:6 u c v=unroll j=unroll o=lanes skip=0", axes)
    lines = kernel_text(lowered(computation, layouts, FOUR, {0: schedule})).splitlines()
    # Columns at either border, and those between them, differ by their taps.
    assert sum(line.strip().startswith("if 0 <=") for line in lines) == 3
    assert sum("fma" in line for line in lines) == 3 * 6 - 2
    # What a loop tests, loads do not test again.
    assert not any("guarded(" in line for line in lines)
    assert_right(computation, FOUR, layouts, ("w", "b"), schedule)


def test_tiles_at_a_border_without_halo_have_bodies_without_the_terms_past_it() -> None:
    computation = convolution((1, 8, 8, 8), 4, 3, 1, 1)
    (stage,) = computation.stages
    assert stage.fold is not None
    layouts = image_layouts(computation, 4, 0)
    axes = (*stage.axes, *stage.fold.axes)
    schedule = parse_schedule("n i j:2 u c v=unroll j=unroll o=lanes skip=0", axes)
    lines = kernel_text(lowered(computation, layouts, FOUR, {0: schedule})).splitlines()
    # Of four tiles the first and the last leave out a term each, and two share a loop.
    assert [line.strip() for line in lines if line.strip().startswith("for j")] == ["for j_0 in SERIAL(2):"]
    assert sum("fma" in line for line in lines) == 3 * (3 * 2) - 2
    assert not any("guarded(" in line for line in lines)
    assert_right(computation, FOUR, layouts, ("w", "b"), schedule)


def test_a_test_around_few_terms_is_not_made() -> None:
    computation = convolution((1, 1, 6, 6), 4, 3, 1, 1)
    (stage,) = computation.stages
    assert stage.fold is not None
    layouts = image_layouts(computation, 4, 0)
    axes = (*stage.axes, *stage.fold.axes)
    schedule = parse_schedule("n i j:2 u c v=unroll j=unroll o=lanes skip=0", axes)
    text = kernel_text(lowered(computation, layouts, FOUR, {0: schedule}))
    assert "if 0 <=" not in text
    assert_right(computation, FOUR, layouts, ("w", "b"), schedule)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes(4)}")
@pytest.mark.parametrize("stride", [1, 2])
def test_schedules_that_leave_terms_out_are_chosen_where_they_may_be(stride: int, target: TargetInfo) -> None:
    computation = convolution((1, 8, 8, 8), 8, 3, stride, 1)
    (stage,) = computation.stages
    layouts = image_layouts(computation, target.lanes(4), 1)
    assert choose(stage, layouts, target).skip is None
    assert choose(stage, layouts, target, skip=0).skip == 0
    assert_right(computation, target, layouts, ("w", "b"), skip=0)


def test_only_products_of_one_padded_factor_are_left_out() -> None:
    assert padded_factor(convolution((1, 2, 4, 5), 5, 3, 1, 1).stages[0]) == (0, "w")
    assert padded_factor(parse_computation(TEXTS["product of rows"]).stages[0]) is None
    assert padded_factor(convolution((1, 2, 4, 5), 5, 3, 1, 1, "sequential").stages[0]) is None
    assert padded_factor(largest_of_windows((1, 2, 4, 5), "unordered").stages[0]) is None


def test_without_a_halo_only_borders_are_tested() -> None:
    computation = convolution((1, 4, 9, 9), 4, 3, 1, 1)
    layouts = image_layouts(computation, 4, 0)
    (stage,) = computation.stages
    assert stage.fold is not None
    schedule = parse_schedule("n i j c u v o=lanes", (*stage.axes, *stage.fold.axes))
    lines = kernel_text(lowered(computation, layouts, FOUR, {0: schedule})).splitlines()
    rows = lines[lines.index("    for i in SERIAL(7):") :]
    interior = rows[rows.index("        for j in SERIAL(7):") + 1 :]
    body = list(takewhile(lambda line: line.startswith(" " * 12), interior))
    assert "guarded" in "".join(lines)
    assert any("fma" in line for line in body)
    assert "guarded" not in "".join(body)


@st.composite
def schedules(draw: st.DrawFn, computation: Computation) -> Schedule:
    """Return a legal schedule: serial loops over places, then serial ones over terms, then copies and lanes."""
    (stage,) = computation.stages
    fold = stage.fold
    folded = fold.axes if fold else ()
    is_free = fold is not None and fold.order is Order.ANY
    lane = draw(st.sampled_from([None, *stage.axes, *(folded if is_free else ())]))
    lanes = draw(st.sampled_from([2, 4]))
    serial: dict[str, list[Loop]] = {"own": [], "folded": []}
    copied: list[Loop] = []
    for axis in (*stage.axes, *folded):
        unit = lanes if axis == lane else 1
        copies = draw(st.sampled_from([1, 1, 2, 3]))
        is_partial = axis in folded and is_free and axis != lane and draw(st.booleans())
        if copies > 1 or axis == lane:
            copied.append(Loop(axis, unit, Bind.UNROLL, partial=is_partial or (axis == lane and axis in folded)))
            if axis != lane and copies * unit == unit:
                copied.pop()
        serial["folded" if axis in folded else "own"].append(Loop(axis, copies * unit))
    if is_free:
        copied = draw(st.permutations(copied))
        serial["folded"] = draw(st.permutations(serial["folded"]))
        serial["own"] = draw(st.permutations(serial["own"]))
    elif any(loop.axis in folded[:-1] for loop in copied):
        # Terms in sequential order: copies along the last folded axis only.
        copied = [loop for loop in copied if loop.axis not in folded]
        serial["folded"] = [Loop(loop.axis) for loop in serial["folded"]]
    ends = [Loop(lane, 1, Bind.LANES)] if lane is not None else []
    padded = padded_factor(stage)
    skip = padded[0] if padded is not None and draw(st.booleans()) else None
    return Schedule((*serial["own"], *serial["folded"], *copied, *ends), skip=skip)


SMALL = (
    convolution((1, 2, 4, 5), 5, 3, 1, 1),
    convolution((1, 2, 4, 5), 5, 3, 2, 1, "sequential"),
    depthwise((1, 5, 4, 4), 1, 1),
    parse_computation(TEXTS["product of rows"]),
    parse_computation(TEXTS["sum of planes"]),
    parse_computation(TEXTS["product of integers"]),
    parse_computation(TEXTS["largest of rows"]),
    parse_computation(TEXTS["chain"]),
)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(SMALL), st.booleans())
def test_every_legal_schedule_computes_what_the_stage_means(
    data: st.DataObject, computation: Computation, is_image: bool
) -> None:
    schedule = data.draw(schedules(computation))
    layouts = image_layouts(computation, 4, 1) if is_image and len(computation.inputs[0].shape) == 4 else {}
    constants = tuple(t.name for t in computation.inputs if t.name in ("w", "b"))
    assert_right(computation, replace(FOUR, registers=1000), layouts, constants, schedule)
