"""Layers of TFLite models that keep a state: filters along time, and LSTM.

Expected values are computed by NumPy in f64, those of codes in Python's integers, and compared with LiteRT and TFLite
Micro where they are installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixed_point_codes import code
from tflite_models import Tensor, holds, imported, model, of, op, saved

from openinfer import ModelImportError, Simulator
from openinfer.importers import ImportedModel, verify
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(12)
F32, I8, I16 = np.float32, np.int8, np.int16
BATCH, INPUTS, UNITS, STEPS = 2, 4, 3, 3


def reals(*shape: int) -> Any:
    return (RNG.standard_normal(shape) * 0.5).astype(F32)


def ran(program: ImportedModel, xs: Any) -> Any:
    """Return the results of steps one after the other."""
    with Simulator(program.model, program.graph).make_executor() as executor:
        made: list[Any] = []
        for x in xs:
            executor.step(x=x)
            made.append(np.asarray(executor.fetch("y")).copy())
    return np.array(made)


def agrees(data: bytes, program: ImportedModel, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="the original runs by LiteRT, the package ai-edge-litert")
    found = verify(saved(data, tmp_path), program, steps=4)
    assert found.agrees, found


@pytest.mark.parametrize(("rank", "memory", "with_bias"), [(2, 5, True), (1, 3, False), (2, 1, True)])
def test_svdf_filters_along_time(rank: int, memory: int, with_bias: bool, tmp_path: Path) -> None:
    filters = UNITS * rank
    feature, time, bias = reals(filters, INPUTS), reals(filters, memory), reals(UNITS)
    tensors = [
        of("x", [BATCH, INPUTS]),
        *(holds(name, values) for name, values in (("f", feature), ("t", time), ("b", bias))),
        of("s", [BATCH, filters * memory], variable=True),
        of("y", [BATCH, UNITS]),
    ]
    names = "x f t b s" if with_bias else "x f t - s"
    data = model(tensors, [op("SVDF", names, "y", "SVDFOptions", Rank=rank, FusedActivationFunction=1)], "x", "y")
    xs, state = reals(memory + 2, BATCH, INPUTS), np.zeros((BATCH, filters, memory))
    expected: list[Any] = []
    for x in xs:
        state = np.concatenate([state[..., 1:], (x @ feature.T)[..., None]], axis=-1)
        total = (state * time).sum(-1).reshape(BATCH, UNITS, rank).sum(-1)
        expected.append(np.maximum(total + (bias if with_bias else 0), 0))
    program = imported(data, tmp_path)
    np.testing.assert_allclose(ran(program, xs), expected, rtol=1e-5, atol=1e-6)
    agrees(data, program, tmp_path)


@pytest.mark.parametrize("stored", [I16, I8])
@pytest.mark.parametrize("mode", ["f32", "tflite", "fixed"])
def test_svdf_of_codes_is_in_fixed_point(mode: str, stored: Any, tmp_path: Path) -> None:
    rank, memory, filters = 2, 4, UNITS * 2
    state_scale, time_scale = (F32(1e-3), F32(1e-3)) if stored is I16 else (F32(0.2), F32(0.02))
    feature = RNG.integers(-127, 128, (filters, INPUTS)).astype(I8)
    time = RNG.integers(-120, 121, (filters, memory)).astype(stored)
    bias = RNG.integers(-2000, 2000, UNITS).astype(np.int32)
    tensors = [
        of("x", [1, INPUTS], I8, 0.05, 3),
        holds("f", feature, 0.02),
        holds("t", time, time_scale),
        holds("b", bias, state_scale * time_scale),
        of("s", [1, filters * memory], stored, state_scale, variable=True),
        of("y", [1, UNITS], I8, 0.05, -128),
    ]
    layer = op("SVDF", "x f t b s", "y", "SVDFOptions", Rank=rank, FusedActivationFunction=1)
    data = model(tensors, [layer], "x", "y")
    rounding = "tflite" if mode == "f32" else mode
    first = float(F32(0.05) * F32(0.02) / state_scale)
    second = float(state_scale * time_scale / F32(0.05))
    xs, state = RNG.integers(-128, 128, (6, 1, INPUTS)).astype(I8), np.zeros((filters, memory), int)
    expected: list[Any] = []
    for x in xs:
        features = [
            code(int(total), first, 0, rounding, stored) for total in feature.astype(int) @ (x[0].astype(int) - 3)
        ]
        state = np.concatenate([state[:, 1:], np.array(features)[:, None]], axis=1)
        totals = (state * time).sum(1).reshape(UNITS, rank).sum(1) + bias
        expected.append([[code(int(total), second, -128, rounding) for total in totals]])
    program = imported(data, tmp_path, requantize=mode)
    np.testing.assert_array_equal(ran(program, xs), expected)


def lstm(tensors: list[Tensor], is_time_major: bool, clip: float, intermediates: str = "") -> bytes:
    """Return a model of one layer; inputs that the tensors leave out are left out."""
    gates = [f"{kind}{gate}" for kind in "wr" for gate in "ifgo"]
    order = ["x", *gates, "pi", "pf", "po", *(f"b{gate}" for gate in "ifgo"), "m", "mb", "h", "c"]
    held = {tensor.name for tensor in tensors}
    layer = op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        " ".join(name if name in held else "-" for name in [*order, *"----"]),
        "y",
        "UnidirectionalSequenceLSTMOptions",
        FusedActivationFunction=4,
        CellClip=clip,
        ProjClip=clip,
        TimeMajor=is_time_major,
    )
    return model(tensors, [layer], "x", "y")


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def stepped(w: dict[str, Any], x: Any, h: Any, c: Any, clip: float) -> tuple[Any, Any]:
    """Return the next output and cell."""

    def gate(name: str, cell: Any = 0) -> Any:
        return x @ w[f"w{name}"].T + h @ w[f"r{name}"].T + w[f"b{name}"] + cell * w.get(f"p{name}", 0)

    f = sigmoid(gate("f", c))
    i = sigmoid(gate("i", c)) if "wi" in w else 1 - f
    c = f * c + i * np.tanh(gate("g"))
    c = np.clip(c, -clip, clip) if clip else c
    h = sigmoid(gate("o", c)) * np.tanh(c)
    if "m" in w:
        h = h @ w["m"].T + w["mb"]
        h = np.clip(h, -clip, clip) if clip else h
    return h, c


def weights(outs: int, peepholes: bool, coupled: bool) -> dict[str, Any]:
    gates = "fgo" if coupled else "ifgo"
    made = {f"w{gate}": reals(UNITS, INPUTS) for gate in gates} | {f"r{gate}": reals(UNITS, outs) for gate in gates}
    made |= {f"b{gate}": reals(UNITS) for gate in gates}
    made |= {f"p{gate}": reals(UNITS) for gate in gates if gate != "g"} if peepholes else {}
    return made | ({"m": reals(outs, UNITS), "mb": reals(outs)} if outs != UNITS else {})


@pytest.mark.parametrize(
    ("is_time_major", "outs", "peepholes", "coupled", "clip"),
    [
        (False, UNITS, False, False, 0.0),
        (True, UNITS, True, False, 0.0),
        (False, 2, False, True, 0.3),
        (True, 2, True, True, 0.5),
    ],
)
def test_lstm(is_time_major: bool, outs: int, peepholes: bool, coupled: bool, clip: float, tmp_path: Path) -> None:
    held = weights(outs, peepholes, coupled)
    first = (STEPS, BATCH) if is_time_major else (BATCH, STEPS)
    tensors = [
        of("x", [*first, INPUTS]),
        *(holds(name, values) for name, values in held.items()),
        of("h", [BATCH, outs], variable=True),
        of("c", [BATCH, UNITS], variable=True),
        of("y", [*first, outs]),
    ]
    data = lstm(tensors, is_time_major, clip)
    xs = reals(2, *first, INPUTS)
    h, c = np.zeros((BATCH, outs)), np.zeros((BATCH, UNITS))
    expected: list[Any] = []
    for x in xs:
        rows: list[Any] = []
        for now in x if is_time_major else x.swapaxes(0, 1):
            h, c = stepped(held, now, h, c, clip)
            rows.append(h)
        expected.append(np.array(rows) if is_time_major else np.array(rows).swapaxes(0, 1))
    program = imported(data, tmp_path)
    np.testing.assert_allclose(ran(program, xs), expected, rtol=1e-5, atol=1e-6)
    agrees(data, program, tmp_path)


def test_lstm_of_codes_keeps_codes(tmp_path: Path) -> None:
    scale, gates = F32(0.02), "ifgo"
    codes = {
        f"{kind}{g}": RNG.integers(-127, 128, (UNITS, n)).astype(I8)
        for kind, n in (("w", INPUTS), ("r", UNITS))
        for g in gates
    }
    biases = {f"b{gate}": RNG.integers(-500, 500, UNITS).astype(np.int32) for gate in gates}
    tensors = [
        of("x", [1, STEPS, INPUTS], I8, scale, 3),
        *(holds(name, values, 0.01) for name, values in codes.items()),
        *(holds(name, values, scale * F32(0.01)) for name, values in biases.items()),
        of("h", [1, UNITS], I8, 1 / 128, variable=True),
        of("c", [1, UNITS], I16, 2.0**-11, variable=True),
        of("y", [1, STEPS, UNITS], I8, 1 / 128),
    ]
    program = imported(lstm(tensors, False, 0.0), tmp_path)
    assert "h: i8[1, 3];" in program.text
    assert "c: i16[1, 3];" in program.text
    assert any("states are integers" in note for note in program.report.notes)
    held = {name: values * 0.01 for name, values in codes.items()}
    held |= {name: values * float(scale) * 0.01 for name, values in biases.items()}
    xs = RNG.integers(-128, 128, (2, 1, STEPS, INPUTS)).astype(I8)
    h, c = np.zeros((1, UNITS)), np.zeros((1, UNITS))
    expected: list[Any] = []
    for now in xs.reshape(2 * STEPS, 1, INPUTS):
        h, c = stepped(held, (now.astype(int) - 3) * float(scale), h, c, 0.0)
        h, c = np.clip(np.rint(h * 128), -128, 127) / 128, np.rint(c * 2**11) / 2**11
        expected.append(h[0] * 128)
    assert np.abs(ran(program, xs).reshape(2 * STEPS, UNITS) - np.array(expected)).max() <= 1


def test_what_has_no_counterpart_is_named(tmp_path: Path) -> None:
    held = weights(UNITS, peepholes=False, coupled=False)
    del held["ro"]
    state = [of(name, [BATCH, UNITS], variable=True) for name in "hc"]
    tensors = [of("x", [BATCH, STEPS, INPUTS]), *(holds(n, v) for n, v in held.items()), *state, of("y", [2, 3, 3])]
    with pytest.raises(ModelImportError, match="the output gate has no recurrent weight"):
        imported(lstm(tensors, False, 0.0), tmp_path)
