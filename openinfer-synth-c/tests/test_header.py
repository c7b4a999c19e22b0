"""The header of a bundle in C++: it compiles without a warning, and a program in C++ calls the model."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.synth import Synthesizer

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
]

STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror")

PROGRAM = """
dynamic { class: f32[3]; go: bool; low: bf16[2]; codes: i4[3]; }
volatile { w: f32[3]; y: f32[3]; namespace: i4[3]; }
block entry { op mul(class, w) >> y; branch go more rest; return y, namespace; }
block more { op add(codes, codes) >> namespace; }
block rest { transfer codes >> namespace; }
"""

MAIN = """
#include "model.h"
#include <cstdio>

int main() {
    const float x[3] = {1.0f, 2.0f, 3.0f};
    float y[3] = {0.0f, 0.0f, 0.0f};
    %s
    model_inputs inputs = model_inputs();
    model_outputs outputs = model_outputs();
    static struct model instance;
    inputs.v_x = x;
    outputs.v_y = y;
    if (%s != MODEL_OK || model_step(&instance, &inputs, &outputs) != MODEL_OK) {
        return 1;
    }
    std::printf("%%g %%g %%g", double(y[0]), double(y[1]), double(y[2]));
    return 0;
}
"""


def bundle(directory, text, weights=None):
    w = np.array([2, 4, 8], np.float32)
    made = Synthesizer("c", weights=weights).synthesize(Model.from_arrays({"w": w}), graph(text)).bundle
    for name, data in made.files.items():
        (directory / name).write_bytes(data)


def compile_(directory, *command):
    subprocess.run(command, cwd=directory, check=True, timeout=60)


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_the_header_is_cplusplus_too(tmp_path, standard):
    bundle(tmp_path, PROGRAM)
    (tmp_path / "use.cpp").write_text('#include "model.h"\n#include "model.h"\nint main() { return MODEL_OK; }\n')

    compile_(tmp_path, "g++", f"-std={standard}", *STRICT, "-c", "use.cpp")


@pytest.mark.parametrize("apart", [False, True])
def test_a_program_in_cplusplus_calls_the_model(tmp_path, apart):
    text = "dynamic { x: f32[3]; } volatile { w: f32[3]; y: f32[3]; } block entry { op mul(x, w) >> y; return y; }"
    bundle(tmp_path, text, "file" if apart else "embedded")
    weights = "alignas(64) static const float w[3] = {2.0f, 4.0f, 8.0f};" if apart else ""
    call = f"model_init(&instance{', w' if apart else ''})"
    (tmp_path / "use.cpp").write_text(MAIN % (weights, call))

    compile_(tmp_path, "gcc", "-std=c99", *STRICT, "-c", "model.c")
    compile_(tmp_path, "g++", "-std=c++11", *STRICT, "-o", "use", "use.cpp", "model.o", "-lm")

    run = subprocess.run([str(tmp_path / "use")], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "2 8 24"
