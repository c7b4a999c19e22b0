"""Loop programs keep nothing of their own that no result needs."""

import numpy as np
import pytest

from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.loops.unread import without_unread

HEAD = "def kept(x: GLOBAL[f32, 8], y: GLOBAL[f32, 8]):\n"

UNREAD = {
    "array that is stored to": (
        ["scratch: PRIVATE[f32, 4]", "for i in SERIAL(8):", "    scratch[0] = x[i]", "    y[i] = x[i]"],
        ["for i in SERIAL(8):", "    y[i] = x[i]"],
    ),
    "array that is never used": (
        ["scratch: PRIVATE[f32, 4]", "for i in SERIAL(8):", "    y[i] = x[i]"],
        ["for i in SERIAL(8):", "    y[i] = x[i]"],
    ),
    "array that only its own next values need": (
        [
            *("total: PRIVATE[f32, 4]", "for l in LANES(4):", "    total[l] = 1.0"),
            *("for i in SERIAL(8):", "    for m in LANES(4):", "        total[m] = total[m] * x[i]", "    y[i] = x[i]"),
        ],
        ["for i in SERIAL(8):", "    y[i] = x[i]"],
    ),
    "scalar that only its own next value needs": (
        ["total: f32 = 1.0", "for i in SERIAL(8):", "    total = total * x[i]", "    y[i] = x[i]"],
        ["for i in SERIAL(8):", "    y[i] = x[i]"],
    ),
    "two scalars that need each other": (
        ["a: f32 = 1.0", "b: f32 = 2.0", "for i in SERIAL(8):", "    a = b", "    b = a", "    y[i] = x[i]"],
        ["for i in SERIAL(8):", "    y[i] = x[i]"],
    ),
}

READ = {
    "a scalar that a loop carries back": [
        *("last: f32 = 0.0", "for i in SERIAL(8):", "    y[i] = last", "    next: f32 = x[i]", "    last = next"),
    ],
    "an array between two loops": [
        *("scratch: PRIVATE[f32, 8]", "for i in SERIAL(8):", "    scratch[i] = x[i]"),
        *("for j in SERIAL(8):", "    y[j] = scratch[j]"),
    ],
    "a scalar that only an error needs": [
        *("first: f32 = x[0]", "for i in SERIAL(8):", "    fail(lt(first, 0.0), 'negative')", "    y[i] = x[i]"),
    ],
}


@pytest.mark.parametrize(("body", "rest"), UNREAD.values(), ids=UNREAD)
def test_what_no_result_needs_is_left_out(body: list[str], rest: list[str]) -> None:
    kernel = parse_kernel(HEAD + "".join(f"    {line}\n" for line in body))
    verify(kernel)

    kept = without_unread(kernel)

    verify(kept)
    assert kernel_text(kept) == HEAD + "".join(f"    {line}\n" for line in rest)


@pytest.mark.parametrize("body", READ.values(), ids=READ)
def test_what_a_result_or_an_error_needs_stays(body: list[str]) -> None:
    kernel = parse_kernel(HEAD + "".join(f"    {line}\n" for line in body))

    assert without_unread(kernel) == kernel
    interpret(kernel, {"x": np.ones(8, np.float32), "y": np.zeros(8, np.float32)})
