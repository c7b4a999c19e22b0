"""Loop programs mean what the computation means that they come from, read back from their text, and are checked."""

from __future__ import annotations

import re

import numpy as np
import pytest
from chained_stages import softmax

from openinfer.array_types import storage_dtype
from openinfer.compute import Computation
from openinfer.compute.evaluate import RefusedError, evaluate
from openinfer.compute.reading import parse_computation
from openinfer.errors import OpenInferError
from openinfer.loops import Accesses, verify
from openinfer.loops.interpret import StepFailedError, interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered

COMPUTATIONS = {
    "product": """
def product(a: f32[3, 5], b: f32[5, 4], /, y: f32[3, 4]):
    for i, j in grid(3, 4):
        for r in unordered(5):
            total0 = start(0.0)
            term0 = a[i, r] * b[r, j]
            total0 = total0 + term0
        y[i, j] = total0
""",
    "convolution": """
def convolution(x: f32[2, 5, 4], w: f32[3, 2, 3, 3], b: f32[3], /, y: f32[3, 3, 2]):
    for o, i, j in grid(3, 3, 2):
        for c, p, q in unordered(2, 3, 3):
            total0 = start(b[o])
            term0 = fill(x[c, 2*i + p - 1, 2*j + q - 1], 0.0) * w[o, c, p, q]
            total0 = total0 + term0
        y[o, i, j] = maximum(total0, 0.0)
""",
    "depth_to_space": """
def depth_to_space(x: i16[8, 2, 3], /, y: i16[2, 4, 6]):
    for c, i, j in grid(2, 4, 6):
        y[c, i, j] = x[(4*c) + 2*(i % 2) + j % 2, i // 2, j // 2]
""",
    "maximum": """
def greatest(x: f32[4, 7], /, y: f32[4]):
    for i in grid(4):
        for j in sequential(7):
            total0 = start()
            term0 = x[i, j]
            total0 = maximum(total0, term0)
        y[i] = total0
""",
    "place of the maximum": """
def argmax(x: f32[4, 7], /, y: i64[4]):
    for i in grid(4):
        for j in sequential(7):
            total0 = start()
            total1 = start()
            term0 = x[i, j]
            term1 = position(j, i64)
            total0 = select(gt(term0, total0), term0, total0)
            total1 = select(gt(term0, total0), term1, total1)
        y[i] = total1
""",
    "running sum": """
def cumsum(x: f32[3, 5], /, y: f32[3, 5]):
    for i in grid(3):
        for t in running_sequential(5):
            total0 = start(0.0)
            term0 = x[i, t]
            total0 = total0 + term0
            y[i, t] = total0
""",
    "rows by index": """
def embedding(x: f16[7, 2], rows: i32[3], /, y: f16[3, 2]):
    for i, j in grid(3, 2):
        row = lookup(cast(rows[i], i64), 7, 'rows are 0 to 6')
        y[i, j] = x[row, j]
""",
    "sums of rows by index": """
def bag(x: f32[7, 2], rows: i32[3], /, y: f32[2]):
    for j in grid(2):
        for i in sequential(3):
            row = lookup(cast(rows[i], i64), 7, 'rows are 0 to 6')
            total0 = start(0.0)
            term0 = x[row, j]
            total0 = total0 + term0
        y[j] = total0
""",
    "updates": """
def scatter_add(x: f32[4], at: i32[5], u: f32[5], /, y: f32[4]):
    for i in grid(4):
        y[i] = x[i]
    for j in grid(5):
        p = lookup(cast(at[j], i64), 4, 'places are 0 to 3')
        y[p] = y[p] + u[j]
""",
    "softmax": softmax(3, 6),
    "scalar": """
def scalar(x: f32[()], /, y: f32[()]):
    for () in grid():
        y[()] = x[()] + 1.0
""",
    "nothing": """
def nothing(x: f32[0, 3], /, y: f32[0, 3], z: f32[3]):
    for i, j in grid(0, 3):
        y[i, j] = x[i, j]
    for j in grid(3):
        for i in unordered(0):
            total0 = start(2.0)
            term0 = x[i, j]
            total0 = total0 + term0
        z[j] = total0
""",
}


def drawn(computation: Computation) -> list[np.ndarray]:
    """Return inputs: real numbers, or integers that are legal as indices."""
    rng = np.random.default_rng(7)
    arrays: list[np.ndarray] = []
    for tensor in computation.inputs:
        shape = tuple(extent.constant or 0 for extent in tensor.shape)
        if tensor.dtype.is_float:
            arrays.append(rng.standard_normal(shape).astype(storage_dtype(tensor.dtype)))
        else:
            arrays.append(rng.integers(0, 4, shape).astype(storage_dtype(tensor.dtype)))
    return arrays


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_a_loop_program_means_what_the_computation_means(name: str) -> None:
    computation = parse_computation(COMPUTATIONS[name])
    inputs = drawn(computation)
    kernel = lowered(computation)
    verify(kernel)
    arrays = {tensor.name: array.reshape(-1) for tensor, array in zip(computation.inputs, inputs, strict=True)}
    for tensor in (*computation.outputs, *computation.temporaries):
        size = int(np.prod([extent.constant for extent in tensor.shape], dtype=np.int64))
        arrays[tensor.name] = np.zeros(size, storage_dtype(tensor.dtype))
    interpret(kernel, arrays)
    for tensor, expected in zip(computation.outputs, evaluate(computation, inputs), strict=True):
        if name == "softmax":
            # Loop programs have the library's functions by formula, with errors of their own.
            np.testing.assert_allclose(arrays[tensor.name], expected.reshape(-1), rtol=1e-6)
        else:
            assert arrays[tensor.name].tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_text_reads_back(name: str) -> None:
    kernel = lowered(parse_computation(COMPUTATIONS[name]), origin=f"a line of {name!r}\nand another")
    text = kernel_text(kernel)
    again = parse_kernel(text)
    assert again == kernel
    assert kernel_text(again) == text


def test_the_text_of_a_convolution() -> None:
    kernel = lowered(parse_computation(COMPUTATIONS["convolution"]), origin="y = conv2d(x, w, b)")
    assert kernel_text(kernel) == (
        "def convolution(x: GLOBAL[f32, 40], w: GLOBAL[f32, 54], b: GLOBAL[f32, 3], y: GLOBAL[f32, 18]):\n"
        "    'y = conv2d(x, w, b)'\n"
        "    for o in SERIAL(3):\n"
        "        for i in SERIAL(3):\n"
        "            for j in SERIAL(2):\n"
        "                total0: f32 = b[o]\n"
        "                for c in SERIAL(2):\n"
        "                    for p in SERIAL(3):\n"
        "                        for q in SERIAL(3):\n"
        "                            total0 = total0 + guarded(x[20*c + 8*i + 2*j + 4*p + q - 5], 0.0, "
        "0 <= 2*i + p - 1 < 5, 0 <= 2*j + q - 1 < 4) * w[9*c + 18*o + 3*p + q]\n"
        "                y[2*i + j + 6*o] = maximum(total0, 0.0)\n"
    )


def test_accesses_are_counted() -> None:
    assert verify(lowered(parse_computation(COMPUTATIONS["convolution"]))) == Accesses(proved=3, guarded=1)


def test_an_index_out_of_range_ends_the_step() -> None:
    computation = parse_computation(COMPUTATIONS["rows by index"])
    x, rows = np.zeros((7, 2), np.float16), np.array([0, 7, 1], np.int32)
    with pytest.raises(StepFailedError, match="rows are 0 to 6"):
        interpret(lowered(computation), {"x": x.reshape(-1), "rows": rows, "y": np.zeros(6, np.float16)})
    with pytest.raises(RefusedError, match="rows are 0 to 6"):
        evaluate(computation, (x, rows))


HEADER = "def k(x: GLOBAL[f32, 12], c: CONSTANT[f32, 4], y: GLOBAL[f32, 12], *, n):\n"


@pytest.mark.parametrize(
    "body",
    [
        "    for i in LANES(12):\n        y[i] = x[i]\n",
        "    for i in LANES(4):\n        y[i] = x[i]\n        y[i + 4] = y[i + 8]\n",
        "    for k in SERIAL(2):\n        for i in LANES(4):\n            y[i] = y[i + 4*k + 4]\n",
        "    for i in LANES(6):\n        y[2*i] = x[i]\n        y[2*i + 1] = x[i]\n",
        "    for i in GROUP(4):\n        for j in SERIAL(3):\n            y[4*j + i] = x[3*i + j]\n",
        "    for i in LANES(4):\n        t: f32 = x[i]\n        t = t + 1.0\n        y[i] = t\n",
        (
            "    for i in GROUP(3):\n"
            "        s: SHARED[f32, 4]\n"
            "        for j in LOCAL(4):\n"
            "            s[j] = x[4*i + j]\n"
            "        BARRIER()\n"
            "        for k in LOCAL(4):\n"
            "            y[4*i + k] = s[3 - k]\n"
        ),
        "    if 0 <= n - 1 < 12:\n        y[n - 1] = x[0]\n",
        "    for i in SERIAL(20):\n        if 0 <= i - 4 < 12:\n            y[i - 4] = 0.0\n",
        "    for i in SERIAL(6):\n        y[i] = guarded(x[2*i + 3], 0.0, 0 <= 2*i + 3 < 12)\n",
        (
            "    for i in SERIAL(12):\n"
            "        if 0 <= i < 9:\n"
            "            y[i] = guarded(x[i - 2], 0.0, 0 <= i - 2 < 12)\n"
        ),
        "    t: PRIVATE[f32, 4]\n    for i in LANES(4):\n        t[i] = x[i]\n    y[0] = across(add, t)\n",
        "    for i in SERIAL(9):\n        y[i] = guarded(x[2*((i - 3)//2)], 0.0, 0 <= (i - 3)//2 < 6)\n",
        "    v0: f32 = x[0]\n    v1 = v0 * v0\n    y[0] = v1 + v1\n",
        "    for i in GROUP(4):\n        p: index[3] = cast(x[i], i64)\n        y[3*i + p] = 0.0\n",
        (
            "    for i in LANES(4):\n"
            "        t: f32 = x[i]\n"
            "        if 0 <= i < 3:\n"
            "            t = fma(t, x[2*i], c[0])\n"
            "            y[i] = t\n"
        ),
        "    for i in SERIAL(0):\n        y[i + 40] = x[i]\n",
        "    for i in SERIAL(12):\n        PREFETCH(x, (i + 4)%12)\n        y[i] = x[i]\n",
    ],
)
def test_a_loop_program_with_meaning_is_accepted(body: str) -> None:
    kernel = parse_kernel(HEADER + body)
    verify(kernel)
    assert parse_kernel(kernel_text(kernel)) == kernel


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    y[12] = 0.0", "y[12] may lie outside of 12 elements (there is no test)"),
        ("    for i in SERIAL(12):\n        y[i] = x[i - 1]", "x[i - 1] may lie outside of 12 elements"),
        (
            "    for i in SERIAL(20):\n        if 0 <= i - 3 < 12:\n            y[i - 4] = 0.0",
            "y[i - 4] may lie outside",
        ),
        ("    for i in SERIAL(12):\n        y[i] = guarded(x[i - 1], 0.0, 0 <= i < 12)", "x[i - 1] may lie outside"),
        ("    y[n] = 0.0", "y[n] may lie outside"),
        ("    for i in SERIAL(12):\n        PREFETCH(x, i + 4)\n        y[i] = x[i]", "x[i + 4] may lie outside"),
        ("    c[0] = 0.0", "c is constant and is written"),
        ("    y[0] = 1.0 + cast(x[0], f64)", "one type"),
        ("    y[0] = cast(x[0], f64)", "y holds f32, f64 is stored"),
        ("    t: f32 = 0.0\n    t: f32 = 1.0", "the name t is in use"),
        ("    for i in SERIAL(3):\n        for i in SERIAL(3):\n            y[i] = 0.0", "the name i is in use"),
        ("    for i in LANES(4):\n        y[0] = x[i]", "iterations over i may write one element, y[0]"),
        ("    for i in GROUP(4):\n        for j in SERIAL(3):\n            y[i + j] = 0.0", "may write one element"),
        ("    for i in LANES(n):\n        y[0] = x[0]", "the lanes i are n, which is not known before"),
        (
            "    for i in LANES(4):\n        for j in SERIAL(3):\n            y[i + 4*j] = 0.0",
            "the loop over the lanes i holds a statement For: expected Let, Set, Store or If",
        ),
        ("    for i in LANES(4):\n        if 0 <= i < 2:\n            t: PRIVATE[f32, 4]", "holds a statement Alloc"),
        ("    for i in LANES(4):\n        y[i] = y[i + 1]", "iterations over i write y[i] and use y[i + 1]"),
        ("    for i in LANES(4):\n        y[i] = y[i + 3]", "iterations over i write y[i] and use y[i + 3]"),
        ("    for i in LANES(4):\n        y[2*i] = y[2*i + 4]", "iterations over i write y[2*i] and use y[2*i + 4]"),
        (
            "    for k in SERIAL(2):\n        for i in LANES(4):\n            y[i] = y[i + 4*k]",
            "iterations over i write y[i] and use y[i + 4*k]",
        ),
        ("    t: f32 = 0.0\n    for i in LANES(4):\n        t = t + x[i]", "iterations over i set one scalar, t"),
        ("    y: PRIVATE[f32, 3]", "the name y is in use"),
        ("    inf: f32 = x[0]", "the name 'inf' is not an identifier"),
        ("    ü: f32 = x[0]", "is not an identifier of letters"),
        ("    t: GLOBAL[f32, 3]", "t is allocated as GLOBAL"),
        ("    y[0] = across(add, x)", "x is not a private buffer"),
        ("    fail(x[0], 'rule')", "a test is f32, expected bool"),
        ("    p: index[4] = x[0]", "the index p is computed as f32, expected i64"),
        ("    for i in LOCAL(4):\n        if 0 <= i < 2:\n            BARRIER()", "only some threads"),
        (
            "    for i in GROUP(4):\n        p: index[3] = cast(x[i], i64)\n        y[i + p] = 0.0",
            "may write one element, y[i + p]",
        ),
        (
            "    for i in GROUP(12):\n        y[i] = x[i]\n        BARRIER()\n        y[i] = y[11 - i]",
            "iterations over i write y[i] and use y[-i + 11]",
        ),
        (
            "    t: PRIVATE[f32, 4]\n    for i in LANES(4):\n        t[i] = x[i]\n        y[i] = across(add, t)",
            "write t, whose elements are combined",
        ),
        ("    for i in LOCAL(4):\n        s: SHARED[f32, 4]", "s is shared and allocated by each thread"),
    ],
)
def test_a_loop_program_without_meaning_is_refused(body: str, message: str) -> None:
    with pytest.raises(OpenInferError, match=re.escape(message)):
        verify(parse_kernel(HEADER + body))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "one `def`"),
        ("def k(x: f32[3]): pass", "memory, type and size of x"),
        (HEADER + "    for i in QUICK(3): pass", "a loop: `for i in SERIAL|UNROLL|LANES|GROUP|LOCAL(extent)`"),
        (HEADER + "    if i < 3: pass", "is not a test: expected `0 <= index < extent`"),
        (HEADER + "    q[0] = 1.0", "one of the buffers x, c, y"),
        (HEADER + "    y[0] = q", "is not an expression"),
        (HEADER + "    t: f64 = x[0]", "a value of type f64 (f32 was written)"),
        (HEADER + "    return", "a statement of a loop program"),
    ],
)
def test_text_that_is_not_a_loop_program_is_refused(text: str, message: str) -> None:
    with pytest.raises(OpenInferError, match=re.escape(message)):
        parse_kernel(text)


def test_stages_look_up_one_index_each() -> None:
    computation = parse_computation(
        "def rows(total0: f32[7, 3], at: i32[()], /, y: f32[3], z: f32[3]):\n"
        "    for i in grid(3):\n"
        "        p = lookup(cast(at[()], i64), 7, 'rows are 0 to 6')\n"
        "        y[i] = total0[p, i]\n"
        "    for i in grid(3):\n"
        "        p = lookup(cast(at[()], i64), 7, 'rows are 0 to 6')\n"
        "        for j in sequential(3):\n"
        "            total0 = start(0.0)\n"
        "            term0 = total0[p, j]\n"
        "            total0 = total0 + term0\n"
        "        z[i] = total0\n"
    )
    kernel = lowered(computation)
    verify(kernel)
    x, at, y, z = np.arange(21, dtype=np.float32), np.array([4], np.int32), np.zeros(3, "f4"), np.zeros(3, "f4")
    interpret(kernel, {"total0": x, "at": at, "y": y, "z": z})
    np.testing.assert_array_equal(y, x[12:15])
    np.testing.assert_array_equal(z, np.full(3, x[12:15].sum()))
