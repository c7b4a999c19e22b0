"""Windows of threads: which loops are written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from operator_computations import computation

from openinfer.compute.evaluate import evaluate
from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.loops.text import kernel_text
from openinfer.lower import dealt_out
from openinfer.schedule import Threads

if TYPE_CHECKING:
    from openinfer.loops import Kernel

DEVICE = Threads(busy=64, group=64, subgroup=8)


def kernels(op: str, *types: str, **settings: Any) -> list[Kernel]:
    """The loop program of an operator with one stage in each form, the best first."""
    ((*forms,),) = (some.forms for some in dealt_out(computation(op, *types, **settings), DEVICE))
    return [kernel for (kernel,) in forms]


def test_a_depthwise_convolution_has_its_window_written_out() -> None:
    found, plain = kernels("conv2d", "f32[1, 4, 7, 7]", "f32[4, 1, 3, 3]", groups=4, padding=1)

    assert kernel_text(found).count("in UNROLL(3)") == 2
    assert "SERIAL" not in kernel_text(found)
    assert "UNROLL" not in kernel_text(plain)
    verify(found)


def test_results_have_the_same_bits() -> None:
    call = ("conv2d", "f32[1, 4, 7, 7]", "f32[4, 1, 3, 3]")
    found, _ = kernels(*call, groups=4, padding=1)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape, np.float32) for shape in ((1, 4, 7, 7), (4, 1, 3, 3)))
    y = np.zeros(4 * 49, np.float32)

    interpret(found, {"x0": x.reshape(-1), "x1": w.reshape(-1), "y0": y})

    (expected,) = evaluate(computation(*call, groups=4, padding=1), [x, w])
    assert y.tobytes() == np.asarray(expected, np.float32).tobytes()


@pytest.mark.parametrize(
    ("op", "types", "settings"),
    [
        # A larger window takes more registers, and a row alone has any length.
        ("conv2d", ("f32[1, 4, 9, 9]", "f32[4, 1, 5, 5]"), {"groups": 4, "padding": 2}),
        ("matmul", ("f32[3, 3]", "f32[3, 3]"), {}),
    ],
)
def test_other_loops_stay(op: str, types: tuple[str, ...], settings: dict[str, Any]) -> None:
    text = kernel_text(kernels(op, *types, **settings)[0])

    assert "SERIAL" in text
    assert "UNROLL" not in text
