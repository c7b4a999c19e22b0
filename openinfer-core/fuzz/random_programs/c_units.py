"""Programs in C as parts of one: names of their own, and one form in which all are called."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openinfer.packing import pack
from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plugins.environment import Environment
from openinfer.synth import Synthesizer
from random_programs.sample import Array, Sample

DRIVER = Path(__file__).with_name("batch.c")

_OWN = re.compile(r"\b(?:model|(?:a|k|w|t|oi|block|model|MODEL|OPENINFER)_\w+)\b")
_INCLUDED = re.compile(r'^#include "model.h"\n', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Written:
    """A program in C.

    Attributes:
        source: its header and its code.
    """

    plan: ExecutionPlan
    source: str


def written_in_c(sample: Sample, environment: Environment) -> Written | None:
    """Return a program in C; None where its weights are in a separate file, or the shape of a result varies.

    Raises:
        OpenInferError: the target refuses it.
    """
    made = Synthesizer("c", environment=environment).synthesize(sample.model(), sample.graph)
    files = made.bundle.files
    if any(name.endswith(".bin") for name in files) or any(port.extents is not None for port in made.plan.outputs):
        return None
    source = files["model.h"] + b"\n" + files["model.c"]
    return Written(made.plan, _INCLUDED.sub("", source.decode("ascii")))


def unit_of(programs: Mapping[int, Written]) -> str:
    """Return the translation unit of some programs, each with a number of its own."""
    return "".join(_part(number, program) for number, program in programs.items())


def _part(number: int, program: Written) -> str:
    """Return a program with a number behind every name at file scope, and a function that calls it."""
    source = _OWN.sub(lambda found: f"{found[0]}__{number}", program.source)
    given, made = len(program.plan.inputs), len(program.plan.outputs)
    inputs = ", ".join(f"inputs[{place}]" for place in range(given)) or "0"
    outputs = ", ".join(f"outputs[{place}]" for place in range(made)) or "0"
    return f"""{source}
int program_{number}(void *const *inputs, void *const *outputs);
int program_{number}(void *const *inputs, void *const *outputs) {{
    const struct model_inputs__{number} given = {{{inputs}}};
    const struct model_outputs__{number} made = {{{outputs}}};
    static struct model__{number} instance;
    static int is_ready;
    (void)inputs;
    (void)outputs;
    if (!is_ready) {{
        if (model_init__{number}(&instance) != MODEL_OK__{number}) {{ return -1; }}
        is_ready = 1;
    }}
    return (int)model_step__{number}(&instance, &given, &made);
}}

"""


def driver_of(count: int) -> dict[str, str]:
    """Return the files that call programs numbered from 0 on."""
    declared = "".join(f"int program_{number}(void *const *inputs, void *const *outputs);\n" for number in range(count))
    listed = ", ".join(f"program_{number}" for number in range(count))
    table = "typedef int program_call(void *const *inputs, void *const *outputs);\n"
    header = f"{table}{declared}static program_call *const programs[] = {{{listed}}};\n"
    return {"batch.h": header, "batch.c": DRIVER.read_text(encoding="ascii")}


def job_of(number: int, program: Written, steps: Sequence[Mapping[str, Array]]) -> bytes:
    """Return what the driver reads of a program."""
    plan = program.plan
    parts = [struct.pack("=4q", number, len(steps), len(plan.inputs), len(plan.outputs))]
    parts += [struct.pack("=q", port.type.nbytes) for port in plan.outputs]
    for inputs in steps:
        for port in plan.inputs:
            if port.name not in inputs:
                parts.append(struct.pack("=q", -1))
                continue
            array, dtype = inputs[port.name], port.type.dtype
            data = (pack(array, dtype) if dtype.is_packed else array).tobytes()
            parts.append(struct.pack("=q", len(data)) + data)
    return b"".join(parts)
