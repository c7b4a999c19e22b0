"""Prefixes of external names: which are legal, what they rename, and several models in one program."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest
from click.testing import CliRunner

from openinfer.cli import main
from openinfer.errors import SynthesisError
from openinfer.model import Model
from openinfer.synth import Synthesizer
from openinfer.synth.c_host.prefix import check_prefix, with_prefix
from openinfer_oinf import write_oinf
from openinfer_synth_c.target import CTarget

SUM = """
dynamic { model_x: f32[3]; }
volatile { w: f32[3]; y: f32[3]; }
persistent { total: f32[3]; }
block entry { cache.read total >> t; op mul(model_x, w) >> p; op add(p, t) >> y; cache.write y >> total; return y; }
"""
TWICE = "dynamic { x: i32[2]; } volatile { y: i32[2]; } block entry { op add(x, x) >> y; return y; }"
MODEL = Model.from_arrays({"w": np.array([2, 4, 8], np.float32)})

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-ffp-contract=off")
SANITIZED = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")

COMPILERS = [
    pytest.param(*pair, marks=pytest.mark.skipif(shutil.which(pair[1]) is None, reason=f"{pair[1]} is not installed"))
    for pair in (("gcc", "g++"), ("clang", "clang++"))
]


def bundle(prefix, text=SUM):
    return Synthesizer("c", prefix=prefix).synthesize(MODEL, text).bundle


@pytest.mark.parametrize("prefix", ["digits", "m4", "voice_detector_2", "x" * 31])
def test_words_of_c_are_prefixes(prefix):
    check_prefix(prefix)


@pytest.mark.parametrize(
    "prefix",
    [
        *("", "Digits", "4m", "_m", "m_", "a__b", "a-b", "größe", "m n", "m;int x", "m\n", "x" * 32),
        *("int", "class", "oi", "block", "npy", "states", "tm", "main", "../m"),
        *("board", "measured", "openinfer_platform", "proof", "sketch", "variables", "weights"),
    ],
)
def test_what_cannot_begin_names_is_refused(prefix):
    with pytest.raises(SynthesisError, match="the prefix"):
        bundle(prefix)


def test_every_file_and_every_external_name_has_the_prefix():
    files = bundle("digits").files

    assert {"digits.c", "digits.h"} <= set(files)
    assert "model.c" not in files
    code = re.sub(r'"[^"]*"|/\*.*?\*/', "", (files["digits.h"] + files["digits.c"]).decode(), flags=re.DOTALL)
    assert not re.search(r"\b(?:model|MODEL)_|struct model\b|OPENINFER_MODEL_H", code)
    assert "#define DIGITS_INPUT_MODEL_X_BYTES 12\n" in files["digits.h"].decode()
    assert "#define DIGITS_ARENA_BYTES " in files["digits.h"].decode()
    assert b"digits: digits.c" in files["Makefile"] or b"digits: main.c digits.c digits.h" in files["Makefile"]


def test_names_of_the_program_stay_in_literals_and_comments():
    source = 'model_step("model_x", \'"\', MODEL_OK); /* model_x */ struct model m; model_x.model = a_model_b;'

    assert with_prefix(source, "d") == (
        'd_step("model_x", \'"\', D_OK); /* model_x */ struct d m; d_x.model = a_model_b;'
    )
    assert with_prefix(source, "model") == source


def test_a_target_without_prefixes_refuses_one(monkeypatch):
    monkeypatch.setattr(CTarget, "options", frozenset())

    with pytest.raises(SynthesisError, match="'c' has no option prefix"):
        Synthesizer("c", prefix="digits")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_program_with_a_prefix_computes_the_same():
    x = np.array([1, 2, 3], np.float32)
    found = Synthesizer("c", prefix="digits").synthesize(MODEL, SUM).run({"model_x": x})

    np.testing.assert_array_equal(found.outputs["y"], [2, 8, 24])


def test_the_command_takes_a_prefix(tmp_path, monkeypatch):
    (tmp_path / "p.oi").write_text(TWICE)
    write_oinf({}, tmp_path / "m.oinf")
    monkeypatch.chdir(tmp_path)
    arguments = ["synth", "p.oi", "--model", "m.oinf", "--target", "c", "-o", "out"]

    assert CliRunner().invoke(main, [*arguments, "--prefix", "digits"]).exit_code == 0
    assert (tmp_path / "out" / "digits.h").is_file()
    assert CliRunner().invoke(main, [*arguments, "--prefix", "in"]).exit_code == 1


TWO = """
#include "one.h"
#include "two.h"
#include <stdio.h>
int main(void) {
    const float x[3] = {1.0f, 2.0f, 3.0f};
    const int32_t n[2] = {5, -7};
    float y[ONE_OUTPUT_Y_BYTES / sizeof(float)];
    int32_t m[TWO_OUTPUT_Y_BYTES / sizeof(int32_t)];
    struct one_inputs given;
    struct one_outputs made;
    struct two_inputs numbers;
    struct two_outputs doubled;
    static struct one first;
    static struct two second;
    if (one_init(&first) != ONE_OK || two_init(&second) != TWO_OK) { return 2; }
    given.v_model_x = x;
    made.v_y = y;
    numbers.v_x = n;
    doubled.v_y = m;
    if (one_step(&first, &given, &made) != ONE_OK || one_step(&first, &given, &made) != ONE_OK) { return 1; }
    if (two_step(&second, &numbers, &doubled) != TWO_OK) { return 1; }
    printf("%g %g %g %d %d", (double)y[0], (double)y[1], (double)y[2], (int)m[0], (int)m[1]);
    return 0;
}
"""


@pytest.mark.parametrize(("compiler", "of_cplusplus"), COMPILERS)
def test_two_models_link_into_one_program_in_c_and_in_cplusplus(compiler, of_cplusplus, tmp_path):
    for name, text in (("one", SUM), ("two", TWICE)):
        for file, data in bundle(name, text).files.items():
            (tmp_path / file).write_bytes(data)
    (tmp_path / "main.c").write_text(TWO)
    (tmp_path / "main.cpp").write_text(TWO)

    def call(*command):
        subprocess.run(command, cwd=tmp_path, check=True, timeout=120)

    call(compiler, "-std=c99", *STRICT, *SANITIZED, "-c", "one.c", "two.c")
    call(compiler, "-std=c99", *STRICT, *SANITIZED, "-o", "in_c", "main.c", "one.o", "two.o", "-lm")
    call(of_cplusplus, "-std=c++11", *STRICT, *SANITIZED, "-o", "in_cpp", "main.cpp", "one.o", "two.o", "-lm")

    for program in ("in_c", "in_cpp"):
        run = subprocess.run([str(tmp_path / program)], capture_output=True, text=True, check=True, timeout=60)
        assert run.stdout == "4 16 48 10 -14"
