"""Programs as C in a program that streams steps, with all warnings and sanitizers, compared with the simulator."""

from __future__ import annotations

import subprocess

import numpy as np
from generated_c import fixed_sizes, sanitised_by

from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare
from openinfer.testing.waiting import limit_s
from openinfer.tolerances import Tolerance

MAIN = """\
#include "model.h"
#include <stdio.h>
#include <stdlib.h>

static struct model instances[2];

int main(void) {
    struct model *model = &instances[0];
    struct model_inputs inputs = {0};
    struct model_outputs outputs = {0};
    if (model_init(model) != MODEL_OK) { return 1; }
    /*DECLARED*/
    for (int step = 0; step < /*STEPS*/; ++step) {
        enum model_status status;
        /*READ*/
        status = model_step(model, &inputs, &outputs);
        if (status != MODEL_OK) { fprintf(stderr, "step %d: %s\\n", step, model_status_text(status)); return 2; }
        /*WRITE*/
#ifdef MODEL_SAVE_BYTES
        if (step == /*STEPS*/ / 2) {
            static unsigned char saved[MODEL_SAVE_BYTES];
            if (model_save(model, saved, sizeof saved) != MODEL_OK) { return 3; }
            model = &instances[1];
            if (model_init(model) != MODEL_OK) { return 4; }
            if (model_load(model, saved, sizeof saved) != MODEL_OK) { return 5; }
        }
#endif
    }
    return 0;
}
"""
"""Reads the inputs of all steps, writes the outputs of all steps, and goes on in another instance halfway."""


def main_text(plan, varying, steps):
    """Return the program around a model; outputs in ``varying`` are written after their shape."""
    declared, read, write = [], [], []
    for number, port in enumerate(plan.inputs):
        nbytes = max(port.type.nbytes, 1)
        declared += [
            f"static double in{number}[{-(-nbytes // 8)}];",
            f"inputs.v_{port.name} = (const void *)in{number};",
        ]
        read.append(f"if (fread(in{number}, 1, {port.type.nbytes}, stdin) != {port.type.nbytes}) {{ return 6; }}")
    for number, port in enumerate(plan.outputs):
        nbytes, rank = max(port.type.nbytes, 1), len(port.type.shape)
        declared += [f"static double out{number}[{-(-nbytes // 8)}];", f"outputs.v_{port.name} = (void *)out{number};"]
        if port.name in varying:
            declared += [f"static size_t shape{number}[{rank}];", f"outputs.shape_{port.name} = shape{number};"]
            write.append(f"fwrite(shape{number}, sizeof(size_t), {rank}, stdout);")
        write.append(f"fwrite(out{number}, 1, {port.type.nbytes}, stdout);")
    parts = {"DECLARED": declared, "READ": read, "WRITE": write, "STEPS": [str(steps)]}
    text = MAIN
    for name, lines in parts.items():
        text = text.replace(f"/*{name}*/", "\n    ".join(lines))
    return text


def results_of(plan, varying, data, steps):
    """Yield the results of each step by name."""
    place = 0
    for _ in range(steps):
        found = {}
        for port in plan.outputs:
            shape = port.type.shape
            if port.name in varying:
                shape = tuple(np.frombuffer(data, np.uint64, len(shape), place).tolist())
                place += 8 * len(shape)
            dtype = np.dtype(port.type.dtype.name.replace("i", "int").replace("f", "float").replace("bool", "bool"))
            found[port.name] = np.frombuffer(data, dtype, int(np.prod(shape)), place).reshape(shape)
            place += port.type.nbytes
        yield found
    assert place == len(data)


def inputs_of(plan, generator):
    """Return random values of the inputs of one step."""
    values = {}
    for port in plan.inputs:
        name = port.type.dtype.name
        if name == "bool":
            values[port.name] = generator.random(port.type.shape) < 0.05
        elif name.startswith("i"):
            values[port.name] = generator.integers(-50, 50, port.type.shape).astype(name.replace("i", "int"))
        else:
            values[port.name] = generator.uniform(-0.2, 1.0, port.type.shape).astype(name.replace("f", "float"))
        values[port.name] = np.asarray(values[port.name])
    return values


def assert_same_in_c(model, program, compiler, folder, *, steps, limits=None, tolerance=None, given=None):
    """Compile a program, run some steps of it on random inputs, and compare all results with the simulator's.

    Halfway its state is saved and loaded into another instance.

    Args:
        given: returns the inputs of a step in place of random ones, from a generator.
    """
    generator = np.random.default_rng(7)
    synthesis = Synthesizer("c", limits=limits).synthesize(model, program, sizes=fixed_sizes(model, limits))
    plan, header = synthesis.plan, synthesis.bundle.files["model.h"].decode()
    varying = {port.name for port in plan.outputs if f"*shape_{port.name};" in header}
    rows = [inputs_of(plan, generator) if given is None else given(generator) for _ in range(steps)]
    for file, content in synthesis.bundle.files.items():
        (folder / file).write_bytes(content)
    (folder / "steps.c").write_text(main_text(plan, varying, steps))

    command = [compiler, *sanitised_by(compiler), "-o", "steps", "steps.c", "model.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True, timeout=limit_s(60))
    data = b"".join(values[port.name].tobytes() for values in rows for port in plan.inputs)
    done = subprocess.run([folder / "steps"], input=data, capture_output=True, check=False, timeout=limit_s(60))

    assert (done.returncode, done.stderr.decode()) == (0, "")
    executor = Simulator(model, program, device="cpu").make_executor()
    allowed = None if tolerance is None else Tolerance(0.0, tolerance)
    for number, found in enumerate(results_of(plan, varying, done.stdout, steps)):
        executor.step(**rows[number])
        for port, value in found.items():
            expected = np.asarray(executor.fetch(port), value.dtype)
            assert expected.shape == value.shape, (number, port)
            difference = compare(port, expected, value, allowed)
            assert difference.within, (number, difference)
