"""Loop programs whose outermost loops run backwards."""

import numpy as np

from openinfer.compute.reading import parse_computation
from openinfer.loops import verify
from openinfer.loops.backwards import backwards
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered
from openinfer.plan.overlap import distance

WINDOW = """
def window(x: f32[9, 4], w: f32[3], /, y: f32[7, 4]):
    for i, j in grid(7, 4):
        for p in unordered(3):
            total0 = start(0.0)
            term0 = x[i + p, j] * w[p]
            total0 = total0 + term0
        y[i, j] = total0
"""


def test_places_are_visited_from_the_last_one_on():
    forward = parse_kernel("""
def rows(x: GLOBAL[f32, 12], y: GLOBAL[f32, 12]):
    for i in SERIAL(2):
        for j in SERIAL(4):
            y[4*i + j] = x[4*i + j]
    for k in SERIAL(4):
        y[k + 8] = x[k + 8]
""")

    turned = backwards(forward)

    assert turned is not None
    verify(turned)
    assert kernel_text(turned).splitlines()[1:] == [
        "    for k in SERIAL(4):",
        "        y[-k + 11] = x[-k + 11]",
        "    for i in SERIAL(2):",
        "        for j in SERIAL(4):",
        "            y[-4*i + j + 4] = x[-4*i + j + 4]",
    ]


def test_statements_between_loops_keep_their_order():
    assert (
        backwards(
            parse_kernel("""
def first(x: GLOBAL[f32, 4], y: GLOBAL[f32, 5]):
    y[4] = x[0]
    for i in SERIAL(4):
        y[i] = x[i]
""")
        )
        is None
    )


def test_a_result_that_is_made_backwards_begins_after_its_operand():
    kernel = backwards(lowered(parse_computation(WINDOW)))
    assert kernel is not None
    sizes = {buffer.name: buffer.size.constant or 0 for buffer in kernel.buffers}
    generator = np.random.default_rng(3)
    arrays = {name: generator.standard_normal(size).astype(np.float32) for name, size in sizes.items()}

    bytes_after = distance(kernel, "y", {"x"}, mirrored=True)

    assert bytes_after is not None
    start, rest = divmod(bytes_after, np.float32().itemsize)
    assert rest == 0
    assert 0 < start < sizes["x"]
    memory = np.full(max(sizes["x"], start + sizes["y"]), np.nan, np.float32)
    memory[: sizes["x"]] = arrays["x"]
    interpret(kernel, {**arrays, "x": memory[: sizes["x"]], "y": memory[start : start + sizes["y"]]})
    interpret(kernel, arrays)
    np.testing.assert_array_equal(memory[start : start + sizes["y"]], arrays["y"])
    # One element less, and something is stored over before it is read.
    memory = np.full(max(sizes["x"], start + sizes["y"]), np.nan, np.float32)
    memory[: sizes["x"]] = arrays["x"] = generator.standard_normal(sizes["x"]).astype(np.float32)
    interpret(kernel, {**arrays, "x": memory[: sizes["x"]], "y": memory[start - 1 : start - 1 + sizes["y"]]})
    interpret(kernel, arrays)
    assert not np.array_equal(memory[start - 1 : start - 1 + sizes["y"]], arrays["y"])
