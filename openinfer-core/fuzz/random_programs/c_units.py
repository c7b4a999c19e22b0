"""Programs in C as parts of one: names of their own, and one form in which all are called."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openinfer.packing import pack
from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plan.values import PlanOutput
from openinfer.plugins.environment import Environment
from openinfer.synth import Synthesizer
from openinfer.testing.random_programs.sample import Sample

EXTENT = np.dtype(np.uintp)
"""The ``size_t`` of an extent."""

DRIVER = Path(__file__).with_name("batch.c")

_OWN = r"model|(?:a|k|w|t|oi|block|model|MODEL|OPENINFER)_\w+|(?:\w+_)?[a-z]+\d+x\d+"
_DEFINED = re.compile(r"^(?:static|KERNEL)\b[^;={(]*?\b(\w+) ?[(\[=;]", re.MULTILINE)
"""Names of functions and variables of a file."""

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
    """Return a program in C; None where its weights are in a separate file.

    Raises:
        OpenInferError: the target refuses it.
    """
    synthesizer = Synthesizer("c", environment=environment, limits=sample.limits_of_caches)
    made = synthesizer.synthesize(sample.model(), sample.graph, sizes=sample.fixed_sizes)
    files = made.bundle.files
    if any(name.endswith(".bin") for name in files):
        return None
    source = files["model.h"] + b"\n" + files["model.c"]
    return Written(made.plan, _INCLUDED.sub("", source.decode("ascii")))


def sizes_of(port: PlanOutput) -> tuple[int, ...]:
    """Return the bytes of a result and, where its shape varies, of the extents after it."""
    return (port.type.nbytes,) if port.extents is None else (port.type.nbytes, len(port.extents) * EXTENT.itemsize)


def unit_of(programs: Mapping[int, Written]) -> str:
    """Return the translation unit of some programs, each with a number of its own."""
    return "".join(_part(number, program) for number, program in programs.items())


def _part(number: int, program: Written) -> str:
    """Return a program with a number after every name at file scope, and a function that calls it."""
    named = dict.fromkeys(_DEFINED.findall(program.source))
    own = re.compile(rf"\b(?:{'|'.join((*named, _OWN))})\b")
    source = own.sub(lambda found: f"{found[0]}__{number}", program.source)
    return f"{source}\n{caller_of(number, program.plan, f'__{number}')}"


def caller_of(number: int, plan: ExecutionPlan, end: str) -> str:
    """Return the function that the driver calls a program by; ``end`` is that of its names."""
    given, made = len(plan.inputs), sum(len(sizes_of(port)) for port in plan.outputs)
    sizes = range(given, given + len(plan.given_sizes))
    passed = [f"inputs[{place}]" for place in range(given)]
    inputs = ", ".join([*passed, *(f"*(const size_t *)inputs[{place}]" for place in sizes)]) or "0"
    outputs = ", ".join(f"outputs[{place}]" for place in range(made)) or "0"
    return f"""int program_{number}(void *const *inputs, void *const *outputs);
int program_{number}(void *const *inputs, void *const *outputs) {{
    const struct model_inputs{end} given = {{{inputs}}};
    const struct model_outputs{end} made = {{{outputs}}};
    static struct model{end} instance;
    static int is_ready;
    (void)inputs;
    (void)outputs;
    if (!is_ready) {{
        if (model_init{end}(&instance) != MODEL_OK{end}) {{ return -1; }}
        is_ready = 1;
    }}
    return (int)model_step{end}(&instance, &given, &made);
}}

"""


def driver_of(count: int) -> dict[str, str]:
    """Return the files that call programs numbered from 0 on."""
    declared = "".join(f"int program_{number}(void *const *inputs, void *const *outputs);\n" for number in range(count))
    listed = ", ".join(f"program_{number}" for number in range(count))
    table = "typedef int program_call(void *const *inputs, void *const *outputs);\n"
    header = f"{table}{declared}static program_call *const programs[] = {{{listed}}};\n"
    return {"batch.h": header, "batch.c": DRIVER.read_text(encoding="ascii")}


def job_of(number: int, program: Written, sample: Sample) -> bytes:
    """Return what the driver reads of a program: the sizes of a step are inputs after the others."""
    plan = program.plan
    sizes = [size for port in plan.outputs for size in sizes_of(port)]
    passed = len(plan.inputs) + len(plan.given_sizes)
    parts = [struct.pack(f"={4 + len(sizes)}q", number, len(sample.steps), passed, len(sizes), *sizes)]
    for inputs in sample.steps:
        for port in plan.inputs:
            if port.name not in inputs:
                parts.append(struct.pack("=q", -1))
                continue
            array, dtype = inputs[port.name], port.type.dtype
            data = (pack(array, dtype) if dtype.is_packed else array).tobytes()
            parts.append(struct.pack("=q", len(data)) + data)
        given = sample.sizes_of_step(inputs)
        parts += [struct.pack("=q", EXTENT.itemsize) + EXTENT.type(given[name]).tobytes() for name in plan.given_sizes]
    return b"".join(parts)
