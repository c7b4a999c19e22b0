"""Sums of products of bytes in plain C: loops along rows in memory, or all terms written out for each channel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from generated_c import needs_gcc, run_sanitised

from openinfer.arch import DeviceArch, TargetInfo
from openinfer.compute.evaluate import evaluate
from openinfer.compute.modular_sums import with_written_out_terms, without_sign
from openinfer.compute.reading import parse_computation
from openinfer.dsl import graph
from openinfer.layout import row_major
from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.lower import lowered
from openinfer.model import Model
from openinfer.schedule import along_rows
from openinfer.synth import Synthesizer

RANDOM = np.random.default_rng(8)
Array = npt.NDArray[Any]


def of_bytes(kind: type[np.integer[Any]], *shape: int) -> Array:
    """Return random bytes, the limits of their type among them."""
    limits = np.iinfo(kind)
    found = RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(kind)
    found.reshape(-1)[:2] = limits.min, limits.max
    return found


PRODUCT = """
def product(x: u8[6, 40], w: i8[5, 40], /, y: i32[6, 5]):
    for i, j in grid(6, 5):
        for r in unordered(40):
            total0 = start(i32(0))
            term0 = cast(x[i, r], i32) * cast(w[j, r], i32)
            total0 = total0 + term0
        y[i, j] = total0
"""


def test_rows_share_what_they_are_multiplied_with() -> None:
    computation = parse_computation(PRODUCT)
    stage = without_sign(computation.stages[0])
    assert stage is not None
    layouts = {tensor.name: row_major(tensor.shape) for tensor in (*computation.inputs, *computation.outputs)}
    schedule = along_rows(stage, layouts)
    assert schedule is not None
    kernel = lowered(replace(computation, stages=(stage,)), layouts, TargetInfo(), {0: schedule})
    x, w = of_bytes(np.uint8, 6, 40), of_bytes(np.int8, 5, 40)
    buffers = {"x": x.reshape(-1), "w": w.reshape(-1), "y": np.zeros(30, np.int32)}
    interpret(kernel, buffers)

    assert (buffers["y"].reshape(6, 5) == x.astype(int) @ w.T.astype(int)).all()
    assert verify(kernel).guarded == 0
    assert schedule.lanes is None


@pytest.mark.parametrize(
    ("old", "new"),
    [("w[j, r]", "w[r, j]"), ("[5, 40]", "[5, 12]"), ("unordered", "sequential")],
)
def test_other_sums_have_no_rows(old: str, new: str) -> None:
    text = PRODUCT.replace(old, new)
    if old == "w[j, r]":
        text = text.replace("w: i8[5, 40]", "w: i8[40, 5]")
    if old == "[5, 40]":
        text = text.replace("[6, 40]", "[6, 12]").replace("(40)", "(12)")
    computation = parse_computation(text)
    stage = without_sign(computation.stages[0])
    assert stage is not None
    layouts = {tensor.name: row_major(tensor.shape) for tensor in (*computation.inputs, *computation.outputs)}

    assert along_rows(stage, layouts) is None


def test_sums_wrap_as_those_of_i32_do() -> None:
    """70,000 terms of 255 times -128 are less than -2^31."""
    text = PRODUCT.replace("40", "70000").replace("[6,", "[1,").replace("grid(6,", "grid(1,").replace("[5,", "[1,")
    computation = parse_computation(text.replace("grid(1, 5)", "grid(1, 1)").replace("y: i32[1, 5]", "y: i32[1, 1]"))
    stage = without_sign(computation.stages[0])
    assert stage is not None
    given = [np.full((1, 70000), 255, np.uint8), np.full((1, 70000), -128, np.int8)]
    (found,) = evaluate(replace(computation, stages=(stage,)), given)
    (expected,) = evaluate(computation, given)

    assert found.item() == expected.item() == -70000 * 255 * 128 + 2**32


def test_all_terms_are_those_of_the_sum() -> None:
    computation = parse_computation(PRODUCT.replace("40", "7"))
    stage = without_sign(computation.stages[0])
    assert stage is not None
    written_out = replace(computation, stages=(with_written_out_terms(stage),))
    x, w = of_bytes(np.uint8, 6, 7), of_bytes(np.int8, 5, 7)
    (found,) = evaluate(written_out, [x, w])

    assert written_out.stages[0].fold is None
    assert len(written_out.stages[0].elements) == 14
    assert (found == x.astype(int) @ w.T.astype(int)).all()


def convolved(x: Array, w: Array, x_zero: int, w_zero: Array, stride: int, groups: int) -> Array:
    """Return a convolution of integers with a border of 1; padding has the value of the zero point."""
    image = np.pad(x[0].astype(np.int64) - x_zero, ((0, 0), (1, 1), (1, 1)))
    weights = w.astype(np.int64) - w_zero.reshape(-1, 1, 1, 1)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
    per = w.shape[0] // groups
    parts = [
        np.einsum("cyxij,ocij->oyx", windows[g * w.shape[1] : (g + 1) * w.shape[1]], weights[g * per : (g + 1) * per])
        for g in range(groups)
    ]
    return np.concatenate(parts)[None]


LAYER = """
dynamic {{ x: f32[1, {channels}, 9, 8]; }}
constant {{ w: {w_type}[{out}, {per_group}, 3, 3]; m: f32[{out}, 1, 1]; {constants} }}
volatile {{ y: u8[1, {out}, {rows}, {columns}]; }}
block entry {{
  op cast(x, to={x_type}) >> bytes;
  op conv_integer(bytes, w{zeros}, stride={stride}, padding=1, groups={groups}) >> total;
  op cast(total, to=f32) >> real; op mul(real, m) >> scaled;
  op round(scaled, mode="half_even") >> whole; op cast(whole, to=u8) >> y;
  return y;
}}
"""


@needs_gcc
@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize(
    ("groups", "stride", "x_zero", "w_zero"),
    [(1, 1, 0, False), (1, 2, 0, False), (1, 1, 100, False), (1, 2, 100, True), (32, 1, 0, False), (32, 2, 100, True)],
)
def test_convolutions_of_bytes(lanes: int, groups: int, stride: int, x_zero: int, w_zero: bool) -> None:
    """With and without zero points, whose terms past the border are zero."""
    channels, out = 32, 24 if groups == 1 else 32
    x, w = of_bytes(np.uint8, 1, channels, 9, 8), of_bytes(np.int8, out, channels // groups, 3, 3)
    m = RANDOM.uniform(1e-4, 1e-3, (out, 1, 1)).astype(np.float32)
    arrays: dict[str, Array] = {"w": w, "m": m}
    names, constants = "", ""
    zeros = np.zeros(out, np.int64)
    if x_zero:
        arrays["xz"] = np.array(x_zero, np.uint8)
        names, constants = ", xz", "xz: u8[];"
    if w_zero:
        arrays["wz"] = of_bytes(np.int8, out)
        zeros = arrays["wz"].astype(np.int64)
        names, constants = f"{names}, wz", f"{constants} wz: i8[{out}];"
    rows, columns = (9, 8) if stride == 1 else (5, 4)
    text = LAYER.format(
        channels=channels, w_type="i8", x_type="u8", out=out, per_group=channels // groups, constants=constants,
        rows=rows, columns=columns, zeros=names, stride=stride, groups=groups,
    )  # fmt: skip
    arch: dict[str, Any] = {
        "version": 2,
        "device": {"type": "cpu", "api": "c", "name": "plain"},
        "target": {"lanes": lanes, "registers": 16, "dialect": "c99", "flags": []},
    }
    synthesis = Synthesizer("c", arch=DeviceArch.load(arch)).synthesize(Model.from_arrays(arrays), graph(text))
    found = run_sanitised(synthesis, {"x": x.astype(np.float32)})["y"]

    total = convolved(x, w, x_zero, zeros, stride, groups)
    expected = np.clip(np.rint(total.astype(np.float32) * m), 0, 255).astype(np.uint8)
    assert (found.reshape(expected.shape) == expected).all()
    if groups == 1:
        assert "uint32_t total0 = 0u;" in synthesis.bundle.files["model.c"].decode()
