"""The examples as C: no warning, no sanitizer finding, the values of the simulator."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

import numpy as np
import pytest
from c_streams import assert_same_in_c
from generated_c import COMPILERS, SANITISED, fixed_sizes

from openinfer import programs
from openinfer.model import ModelLoader
from openinfer.synth import Synthesizer

EXAMPLES = Path(__file__).parents[2] / "examples"
KEYS_ARE_ROUNDED = 2e-3
"""Keys and values are stored in f16: sums of f32 in another order may round to a neighbour of theirs."""


LOGITS = 1e-3
"""Long sums in another order; logits have magnitudes near 10."""


def written_model(folder, path):
    runpy.run_path(str(EXAMPLES / folder / "make_model.py"))["make"](path)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("folder", "file", "steps", "limits", "tolerance"),
    [
        ("auto-dim", "growing.oi", 16, {}, None),
        ("branching", "branching.oi", 10, {}, None),
        ("cache-decode", "decode.oi", 100, {"t": 100}, KEYS_ARE_ROUNDED),
        ("cache-decode", "step.oi", 100, {"t": 100}, KEYS_ARE_ROUNDED),
        ("minimal", "minimal.oi", 10, {}, None),
        ("prefix-tables", "tables.oi", 10, {}, None),
        ("yield-await", "streaming.oi", 100, {}, None),
    ],
)
def test_an_example_is_the_same_program_in_c(folder, file, steps, limits, tolerance, compiler, tmp_path):
    written_model(folder, tmp_path / "model.oinf")
    program = programs.graph(EXAMPLES / folder / file)
    with ModelLoader.open(tmp_path / "model.oinf") as model:
        assert_same_in_c(model, program, compiler, tmp_path, steps=steps, limits=limits, tolerance=tolerance)


def tokens(generator):
    """Return the inputs of a step of the language model: each third one draws its token."""
    temperature = generator.choice([0, 0, 0.8])
    seed = generator.integers(2**32)
    return {
        "ids": generator.integers(0, 96, 1),
        "temperature": np.float32(temperature),
        "seed": np.uint32(seed),
    }


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("folder", "file", "steps", "tolerance", "given"),
    [
        ("char-gpt", "gpt.oi", 100, LOGITS, tokens),
        ("cnn", "resnet8-int8.oi", 2, LOGITS, None),
        ("digits", "digits.oi", 10, LOGITS, None),
        ("encoder", "encoder.oi", 10, LOGITS, None),
        ("recurrent-gru", "gru.oi", 100, LOGITS, None),
    ],
)
def test_a_trained_example_is_the_same_program_in_c(folder, file, steps, tolerance, given, compiler, tmp_path):
    program = programs.graph(EXAMPLES / folder / file)
    with ModelLoader.open((EXAMPLES / folder / file).with_suffix(".oinf")) as model:
        assert_same_in_c(model, program, compiler, tmp_path, steps=steps, tolerance=tolerance, given=given)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("folder", "file"), [("layer", "layer.oi")])
def test_an_example_whose_model_is_made_in_memory_is_the_same_program_in_c(folder, file, compiler, tmp_path):
    model = runpy.run_path(str(EXAMPLES / folder / "make_model.py"))["make"]()
    assert_same_in_c(model, programs.graph(EXAMPLES / folder / file), compiler, tmp_path, steps=10, tolerance=None)


TOO_LARGE = {Path("cnn", file) for file in ("mobilenet.oi", "mobilenet-int8.oi", "resnet8.oi")}
"""Networks that take up to a minute to compile with sanitizers: examples/test_trained.py runs them on device `c`."""


def test_every_example_is_in_a_table():
    tests = (
        test_an_example_is_the_same_program_in_c,
        test_a_trained_example_is_the_same_program_in_c,
        test_an_example_whose_model_is_made_in_memory_is_the_same_program_in_c,
    )
    tables = [mark.args[1] for test in tests for mark in test.pytestmark if "folder" in mark.args[0]]
    expected = {path.relative_to(EXAMPLES) for path in EXAMPLES.glob("*/*.oi")}
    assert {Path(row[0], row[1]) for table in tables for row in table} | TOO_LARGE == expected


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("folder", "file", "limits", "printed"),
    [
        ("cache-decode", "decode.oi", {"t": 1024}, "done, the same"),
        ("yield-await", "streaming.oi", {}, "energy 0.25, peak 0.5"),
    ],
)
def test_the_program_that_a_page_shows_prints_what_it_says(folder, file, limits, printed, compiler, tmp_path):
    page = (EXAMPLES / folder / "README.md").read_text()
    written_model(folder, tmp_path / "model.oinf")
    with ModelLoader.open(tmp_path / "model.oinf") as model:
        synthesizer = Synthesizer("c", limits=limits)
        synthesis = synthesizer.synthesize(model, EXAMPLES / folder / file, sizes=fixed_sizes(model, limits))
    for name, content in synthesis.bundle.files.items():
        (tmp_path / name).write_bytes(content)
    (program,) = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    (tmp_path / "program.c").write_text(program)

    command = [compiler, *SANITISED, "-o", "program", "program.c", "model.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    found = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True, timeout=60).stdout

    assert found == f"{printed}\n"
    assert f"It prints `{printed}`" in page


def test_the_decoder_copies_no_cache(tmp_path):
    written_model("cache-decode", tmp_path / "model.oinf")
    with ModelLoader.open(tmp_path / "model.oinf") as model:
        synthesis = Synthesizer("c", limits={"t": 4096}).synthesize(model, EXAMPLES / "cache-decode" / "decode.oi")

    lines = [line.strip() for line in synthesis.report().splitlines()]
    assert [line.split("  ")[0] for line in lines if ">> keys" in line or ">> values" in line] == [
        "view K[l, 0..step+1] >> keys",
        "view V[l, 0..step+1] >> values",
    ]
