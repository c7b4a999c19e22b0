"""The examples with state and consumers as C: no warning, no sanitizer finding, the values of the simulator."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

from openinfer import programs
from openinfer.model import ModelLoader
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare

EXAMPLES = Path(__file__).parents[1] / "examples"
FLAGS = (
    *("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O1", "-ffp-contract=off"),
    *("-fsanitize=undefined,address", "-fno-sanitize-recover=all"),
)
STEPS = 100
COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("gcc", "clang")
]
KEYS_ARE_ROUNDED = 2e-3
"""Keys and values are stored in f16: sums of f32 in another order may round to a neighbour of theirs."""


def written_model(folder, path):
    spec = importlib.util.spec_from_file_location(f"make_{folder}", EXAMPLES / folder / "make_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(path)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("folder", "file", "limits", "tolerance"),
    [
        ("cache-decode", "decode.oi", {"t": STEPS}, KEYS_ARE_ROUNDED),
        ("cache-decode", "step.oi", {"t": STEPS}, KEYS_ARE_ROUNDED),
        ("yield-await", "streaming.oi", {}, None),
    ],
)
def test_an_example_is_the_same_program_in_c(folder, file, limits, tolerance, compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", compiler)
    written_model(folder, tmp_path / "model.oinf")
    program = programs.graph(EXAMPLES / folder / file)
    with ModelLoader.open(tmp_path / "model.oinf") as model:
        synthesis = Synthesizer("c", limits=limits).synthesize(model, program)
        generator = np.random.default_rng(4)
        inputs = {
            port.name: generator.normal(size=(STEPS, *port.type.shape)).astype(np.float32)
            for port in synthesis.plan.inputs
        }
        target = synthesis.target
        found = target.build_and_run(synthesis.plan, synthesis.bundle, inputs, steps=STEPS, flags=FLAGS).outputs
        executor = Simulator(model, program, device="cpu").make_executor()
        for step in range(STEPS):
            executor.step(**{name: stacked[step] for name, stacked in inputs.items()})
            for name, stacked in found.items():
                expected = np.asarray(executor.fetch(name), stacked.dtype)
                difference = compare(name, expected, stacked[step], tolerance)
                assert difference.within, (step, difference)


def test_the_decoder_copies_no_cache(tmp_path):
    written_model("cache-decode", tmp_path / "model.oinf")
    with ModelLoader.open(tmp_path / "model.oinf") as model:
        synthesis = Synthesizer("c", limits={"t": 4096}).synthesize(model, EXAMPLES / "cache-decode" / "decode.oi")

    lines = [line.strip() for line in synthesis.report().splitlines()]
    assert [line.split("  ")[0] for line in lines if ">> keys" in line or ">> values" in line] == [
        "view K[l, 0..step+1] >> keys",
        "view V[l, 0..step+1] >> values",
    ]
