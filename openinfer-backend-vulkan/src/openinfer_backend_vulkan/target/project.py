"""The files of a bundle: contexts of the templates, made from a plan."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import jinja2
import numpy as np

from openinfer.errors import SynthesisError
from openinfer.expr.c_renderer import helper_source
from openinfer.plan.accesses import walk
from openinfer.plan.document import plan_json
from openinfer.plan.steps import LoopStep
from openinfer.synth.bundle import Bundle
from openinfer.synth.c_host.blob import FILE_NAME, LARGEST_EMBEDDED, Blob
from openinfer.synth.c_host.builds import build_of, example_command
from openinfer.synth.c_host.integer_functions import integer_functions
from openinfer.synth.c_host.platform_header import PLATFORM_NAME, platform_header
from openinfer.synth.c_host.ports import given_sizes, input_port, is_needed, output_port
from openinfer.synth.c_host.prefix import check_prefix, with_prefix
from openinfer.synth.c_host.provenance import with_provenance
from openinfer.synth.c_host.saved_state import HEAD_NBYTES, identity, saved_nbytes
from openinfer.synth.c_host.templates import PROGRAM_TEMPLATE, shared_templates
from openinfer.synth.c_host.variables import variables_of
from openinfer.synth.c_text import comment
from openinfer.synth.npy_harness import HEADER_NAME, harness_header
from openinfer_backend_vulkan.spirv.compiler import FLAGS as GLSL_FLAGS
from openinfer_backend_vulkan.target.places import STATE, whole
from openinfer_backend_vulkan.target.program import written
from openinfer_backend_vulkan.target.statuses import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.c_host.variables import Variable
    from openinfer_backend_vulkan.glsl.shaders import ShaderTarget
    from openinfer_backend_vulkan.target.program import Written

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O2")
"""Flags of the C compiler; kernels do the arithmetic."""

DISTRIBUTION = "openinfer-backend-vulkan"

VULKAN_NAME = "openinfer_vulkan.h"

WEIGHTS_NAME = "weights.h"

_PLACES_OF_WEIGHTS = ("auto", "embedded", "file")

_PROJECTS = ("make", "cmake")

_MOST_ROOM = 1 << 20

_WORDS_A_LINE = 8

_BUFFERS = {
    "arena": "intermediate results; values that are never needed at the same time share memory",
    "weights": "the weights",
    "state": "what is kept between steps",
    "inputs": "inputs as kernels read them",
    "outputs": "results as kernels write them",
    "given": "inputs as the processor writes them",
    "results": "results as the processor reads them",
    "scratch": "what single steps work in",
    "host": "what both see: faults, values that control flow depends on, numbers of kernels",
    "room": "what waits for its place",
}


def bundle_of(plan: ExecutionPlan, target: ShaderTarget) -> Bundle:
    """Return the files of a plan.

    Raises:
        SynthesisError: a statement has no form in GLSL or C, or an option is not one of the target's.
    """
    options = plan.options
    check_prefix(options.prefix)
    if options.project not in _PROJECTS:
        raise SynthesisError(f"the project is {options.project!r}, target vulkan has {' and '.join(_PROJECTS)}")
    if options.weights not in _PLACES_OF_WEIGHTS:
        raise SynthesisError(f"the weights are {options.weights!r}, expected {', '.join(_PLACES_OF_WEIGHTS)}")
    build = build_of(options.project, options.prefix)
    code = written(plan, target)
    data = code.program.places.data()
    apart = options.weights == "file" or (options.weights == "auto" and len(data) > LARGEST_EMBEDDED)
    context = {**_header(code), **_source(code, data if apart else None), **_sizes(code, data)}
    texts = {
        f"{options.prefix}.h": with_prefix(_render("model.h.j2", context), options.prefix),
        f"{options.prefix}.c": with_prefix(_render("model.c.j2", context), options.prefix),
        "main.c": with_prefix(_render(PROGRAM_TEMPLATE, context), options.prefix),
        HEADER_NAME: harness_header(),
        PLATFORM_NAME: platform_header(),
        VULKAN_NAME: (resources.files("openinfer_backend_vulkan.target") / "host" / VULKAN_NAME).read_text("ascii"),
        "plan.json": f"{json.dumps(plan_json(plan), indent=1, sort_keys=True, allow_nan=False)}\n",
        **{f"{kernel.name}.comp": kernel.text for kernel in code.program.kernels},
    }
    build_context = {**context, "build": build, "example": example_command(plan, build)}
    texts |= {name: _render(template, build_context) for name, template in (*build.templates, _README)}
    if not apart:
        texts[WEIGHTS_NAME] = with_prefix(_render("weights.h.j2", {"parts": list(_parts(code, data))}), options.prefix)
    files = {name: text.encode("ascii") for name, text in texts.items()} | ({FILE_NAME: data} if apart else {})
    products = (options.prefix, *(f"{kernel.name}.h" for kernel in code.program.kernels))
    return Bundle(with_provenance(plan, files, (*FLAGS, *GLSL_FLAGS), DISTRIBUTION), products=products)


_README = ("README.md", "README.md.j2")


def _header(code: Written) -> dict[str, object]:
    """Return what the header says, and the program around the model."""
    plan, names = code.program.plan, code.program.names
    variables = variables_of(plan, names)
    outputs = [output_port(port, names, number) for number, port in enumerate(plan.outputs)]
    loops = [step.loop for p in plan.procedures for step in walk(p.steps) if isinstance(step, LoopStep)]
    return {
        "prefix": plan.options.prefix,
        "closes": True,
        "inputs": [input_port(port, names, number) for number, port in enumerate(plan.inputs)],
        "outputs": outputs,
        "varying": [port for port in outputs if port["extents"]],
        "given_sizes": given_sizes(plan, names),
        "has_state": bool(plan.states),
        "state_nbytes": plan.state_nbytes,
        "statuses": STATUSES,
        "variables": variables,
        "save_nbytes": saved_nbytes(variables),
        "identity": identity(variables),
        "head_nbytes": HEAD_NBYTES,
        "instance": {"memories": ()},
        "weights_object": False,
        "kernels": list(code.program.kernels),
        "segments": code.segments,
        "places": code.program.places,
        "buffers": list(_BUFFERS.items()),
        "registers": [
            {"name": names.registers[r.number], "comment": comment(f"{r.name}, up to {r.most}")} for r in plan.registers
        ],
        "loops": [names.loops[loop] for loop in dict.fromkeys(loops)],
    }


def _source(code: Written, apart: bytes | None) -> dict[str, object]:
    """Return the values that only the source of the model uses, not its header."""
    plan, names, places = code.program.plan, code.program.names, code.program.places
    words = np.frombuffer(places.known_data(), "<u8").tolist()
    return {
        "blocks": code.blocks,
        "entry": code.entry,
        "fetch": code.fetch,
        "reset": code.reset,
        "may_fail": code.may_fail,
        "integer_functions": integer_functions(code.index_functions),
        "helpers": helper_source(names.helpers),
        "known": list(_lines([f"UINT64_C(0x{word:016x})" for word in words])),
        "tables": list(_tables(code)),
        "weights_apart": apart is not None,
        "checksum": None if apart is None else Blob(apart, ()).checksum,
        "needs": list(_needs(code)),
        "kept": [{"name": names.registers[r.number], "initial": r.initial} for r in plan.registers if r.is_kept],
        "sizes": [
            {"name": names.registers[r.number], "initial": r.initial}
            for r in plan.registers
            if not r.is_kept and r.size is None
        ],
        "needed": [
            *(f"inputs->{names.inputs[number]}" for number, port in enumerate(plan.inputs) if is_needed(port)),
            *(f"outputs->{field}" for field in names.outputs),
        ],
        "taken": [
            {"field": names.outputs[n], "offset": places.outputs[n], "nbytes": p.type.nbytes, "tail": _tail(p.type)}
            for n, p in enumerate(plan.outputs)
            if p.type.count
        ],
        "fields": [_field(code, number, variable) for number, variable in enumerate(variables_of(plan, names))],
        "mirrored": [
            {"offset": place.offset, "mirror": at} for place, at in names.mirrored.items() if place.buffer == STATE
        ],
    }


def _needs(code: Written) -> Iterator[str]:
    """Yield the fields of ``struct openinfer_needs`` as C."""
    kernels = code.program.kernels
    yield " | ".join(sorted(kernels.features)) or "0"
    yield str(kernels.group)
    yield str(code.program.target.subgroup if kernels.has_subgroups else 1)
    yield str(kernels.shared_nbytes)
    yield str(kernels.pushed_nbytes)
    yield str(kernels.bound)
    yield str(kernels.range_nbytes)


def _sizes(code: Written, data: bytes) -> dict[str, object]:
    """Return how large buffers are, and how many sets of them commands bind."""
    places, start = code.program.places, code.program.names.numbers_start
    host = start + code.numbers_nbytes + 64
    sizes = {
        "arena": places.arena_nbytes,
        "weights": places.weights_nbytes,
        "state": places.state_nbytes,
        "scratch": max(places.scratch_nbytes, 64),
    }
    room = min(whole(max(len(data), places.state_nbytes, 64)), _MOST_ROOM)
    ports = {"inputs": places.inputs_nbytes, "outputs": places.outputs_nbytes}
    made = [(name, size, "0") for name, size in sizes.items()]
    made += [(name, size, "mapped") for name, size in ports.items()]
    return {
        "made": [*made, ("host", host, "1"), ("room", room, "1")],
        "numbers_start": start,
        "host_nbytes": host,
        "weights_nbytes": len(data),
        "sets": sum(segment.sets for segment in code.segments),
        "bound": sum(segment.bound for segment in code.segments),
        "most_sets": max((segment.sets for segment in code.segments), default=0),
        "most_bound": max((segment.bound for segment in code.segments), default=0),
        "flags": " ".join(FLAGS),
        "glsl_flags": " ".join(GLSL_FLAGS),
        "headers": " ".join(
            [
                *(f"{kernel.name}.h" for kernel in code.program.kernels),
                *(f"{code.program.plan.options.prefix}.h", HEADER_NAME, PLATFORM_NAME, VULKAN_NAME),
            ]
        ),
    }


def _field(code: Written, number: int, variable: Variable) -> dict[str, object]:
    """Return a variable as the table of the source has it."""
    plan = code.program.plan
    shown = {
        "literal": variable.literal,
        "width": variable.width,
        "count": variable.count,
        "most": variable.most,
        "is_register": int(variable.is_scalar),
    }
    if variable.is_scalar:
        return {**shown, "offset": f"offsetof(struct model, {variable.member})", "tail": "0xff"}
    type_ = plan.states[number].type
    return {**shown, "offset": code.program.places.states[number], "tail": _tail(type_) or "0xff"}


def _tail(type_: TensorType) -> str:
    """Return a mask of the bits of the last byte that hold elements; "" where all do."""
    used = type_.count * type_.dtype.bits % 8 if type_.dtype.is_packed else 0
    return f"0x{(1 << used) - 1:02x}" if used else ""


def _tables(code: Written) -> Iterator[dict[str, object]]:
    places = code.program.places
    for table in code.program.plan.tables:
        if table.number in code.program.names.used_tables:
            what = f"{table.name}: {table.type}, from index {', '.join(map(str, table.starts))}"
            yield {
                "name": code.program.names.tables[table.number],
                "entries": ["OPENINFER_NOWHERE" if e is None else places.weights[e] for e in table.entries],
                "comment": comment(what),
            }


def _parts(code: Written, data: bytes) -> Iterator[dict[str, object]]:
    """Yield the weights as words, each with its name, and then what the target has added."""
    plan, places = code.program.plan, code.program.places
    starts = [*places.weights, len(data)]
    for weight, start, end in zip(plan.weights, starts, starts[1:], strict=False):
        stop = min(end, start + whole(max(weight.stored.nbytes, 4))) if weight.number + 1 == len(plan.weights) else end
        yield {"comment": comment(f"{weight.source}: {weight.type}"), "lines": _words(data[start:stop])}
    rest = whole(places.weights[-1] + max(plan.weights[-1].stored.nbytes, 4)) if plan.weights else 0
    yield {"comment": comment("tables of kernels"), "lines": _words(data[rest:])}


def _words(data: bytes) -> list[str]:
    words: list[int] = np.frombuffer(data, "<u4").tolist()
    return list(_lines([f"0x{word:08x}u" for word in words]))


def _lines(texts: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(texts), _WORDS_A_LINE):
        yield f"{', '.join(texts[start : start + _WORDS_A_LINE])},"


@cache
def _templates() -> jinja2.Environment:
    # The templates are C and Markdown: nothing in them is HTML, and every name passes the filters of openinfer.synth.
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            (jinja2.PackageLoader("openinfer_backend_vulkan.target"), jinja2.DictLoader(shared_templates()))
        ),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _render(name: str, context: Mapping[str, object]) -> str:
    return _templates().get_template(name).render(context)
