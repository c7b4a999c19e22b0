"""The files of a bundle: contexts of the templates, made from a plan."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic
from openinfer.errors import SynthesisError
from openinfer.expr.c_renderer import helper_source, item_type
from openinfer.expr.tree import ExprError
from openinfer.plan.document import plan_json
from openinfer.plan.parallel import has_threads
from openinfer.plan.places import ALIGNMENT
from openinfer.plan.values import ArenaMemory, NoMemory
from openinfer.synth.bundle import Bundle
from openinfer.synth.c_host.blob import FILE_NAME, OBJECT_NAME, chosen_blob
from openinfer.synth.c_host.builds import example_command
from openinfer.synth.c_host.integer_functions import integer_functions
from openinfer.synth.c_host.platform_header import PLATFORM_NAME, platform_header
from openinfer.synth.c_host.ports import given_sizes, input_port, is_needed, items, output_port
from openinfer.synth.c_host.prefix import check_prefix, with_prefix
from openinfer.synth.c_host.provenance import with_provenance
from openinfer.synth.c_host.saved_state import HEAD_NBYTES, identity, saved_nbytes
from openinfer.synth.c_host.statuses import STATUSES
from openinfer.synth.c_host.templates import PROGRAM_TEMPLATE
from openinfer.synth.c_text import comment
from openinfer.synth.npy_harness import HEADER_NAME, harness_header
from openinfer_synth_c.block_functions import block_function
from openinfer_synth_c.board_files import board_files
from openinfer_synth_c.boards import board_of, check_emulated
from openinfer_synth_c.build_context import CONTRACTION, build_context
from openinfer_synth_c.code import Code
from openinfer_synth_c.compact_text import named_definitions, narrow, short_names, with_names
from openinfer_synth_c.compiler_flags import compiler_flags
from openinfer_synth_c.data import initialiser_lines
from openinfer_synth_c.instance import arena_text, instance_of, placed_states, whole
from openinfer_synth_c.kernel_calls import has_vector_types
from openinfer_synth_c.kernel_functions import DEFINITION as KERNEL_DEFINITION
from openinfer_synth_c.kernel_functions import KernelFunctions
from openinfer_synth_c.names import Names
from openinfer_synth_c.ordered_terms import definition as next_term_definition
from openinfer_synth_c.overlaps import free_inputs
from openinfer_synth_c.polls import definition, with_polls
from openinfer_synth_c.projects import build_for
from openinfer_synth_c.rendering import render
from openinfer_synth_c.repeated_statements import definition as unrolled_definition
from openinfer_synth_c.rolled_loops import DEFINITION, uses_rolled
from openinfer_synth_c.statements import MARK, StatementWriter, no_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Statement
    from openinfer.plan.values import PackedWeight, PlanOutput, WeightTable
    from openinfer.synth.c_host.blob import Blob
    from openinfer.synth.c_host.builds import Build
    from openinfer.synth.proof import Proof
    from openinfer_synth_c.boards import Board
    from openinfer_synth_c.instance import Instance
    from openinfer_synth_c.kernel_functions import KernelFunction

DISTRIBUTION = "openinfer-synth-c"

PLACES_OF_PORTS = ("caller", "inside")
"""Whose arrays inputs and outputs are."""

PROGRAM_NAME = "main.c"
"""The program around a model on machines with files."""

MEASURED_NAME = "measured.c"
"""The program that measures a model on an emulated board."""

PROOF_NAME = "proof.c"
"""What an analyser starts at, in bundles that it checks."""

MOST_COPIED_NBYTES = 32
"""Bytes up to which GCC 12 with AVX-512 copies constant arrays right: those that fit no vector of 64 bytes.

It takes the constants of such a vector for equal where all but the last 8 bytes are, and these are 0 (GCC 12.2).
"""


@dataclass(frozen=True, slots=True)
class _Body:
    """The blocks as code, and what they use."""

    blocks: tuple[dict[str, object], ...]
    reset: tuple[str, ...]
    kernels: tuple[KernelFunction, ...]
    names: Names
    helpers: tuple[str, ...]
    definitions: tuple[str, ...]
    integer_functions: tuple[str, ...]
    rolled: bool
    work: int
    instance: Instance


def bundle_of(plan: ExecutionPlan, proof: Proof | None = None) -> Bundle:
    """Return the files of a plan, with the report of an analyser if it was requested.

    Raises:
        SynthesisError: an element type that C does not hold, or a prefix that names cannot have.
    """
    check_prefix(plan.options.prefix)
    if plan.options.io not in PLACES_OF_PORTS:
        raise SynthesisError(f"io is {plan.options.io!r}, expected {' or '.join(PLACES_OF_PORTS)}")
    build, prefix = build_for(plan), plan.options.prefix
    if not build.is_hosted and plan.options.weights == "auto":
        # Nothing reads files there.
        plan = replace(plan, options=replace(plan.options, weights="embedded"))
    if build.unrun and not build.is_hosted and plan.options.weights == "file":
        raise _no_file_of_weights(plan.options.project)
    blob = chosen_blob(plan)
    body = _body(plan, blob)
    ports = _ports(plan, body, blob)
    document = json.dumps(plan_json(plan), indent=1, sort_keys=True, allow_nan=False)
    checksum = None if blob is None else blob.checksum
    context = {**ports, **build_context(plan), "version": version(DISTRIBUTION)}
    # Arduino compiles all that lies in the folder of a library, but for this one.
    proof_name = f"extras/{PROOF_NAME}" if plan.options.project == "arduino" else PROOF_NAME
    readme = {
        **context,
        "proof_name": proof_name,
        "build": build,
        "example": example_command(plan, build),
        "proof": proof,
        "board": _board(plan),
    }
    declarations = CONTRACTION if plan.options.project == "arduino" else ""
    texts = {
        **_model(plan, body, blob, ports, checksum=checksum, declarations=declarations),
        **({PROGRAM_NAME: with_prefix(render(PROGRAM_TEMPLATE, ports), prefix)} if build.is_hosted else {}),
        **({HEADER_NAME: harness_header()} if build.is_hosted else {}),
        PLATFORM_NAME: platform_header(),
        **{name: _rendered(template, context, prefix) for name, template in build.templates},
        **_board_files(plan, build),
        "README.md": render("README.md.j2" if build.is_hosted else "board_README.md.j2", readme),
        "plan.json": f"{document}\n",
    }
    if ports["weights_object"]:
        texts[OBJECT_NAME] = with_prefix(render("weights.S.j2", ports), prefix)
    if proof is not None:
        texts[proof_name] = _harness(plan, ports, above="../" * proof_name.count("/"))
    files = {name: text.encode("ascii") for name, text in texts.items()}
    files = files if blob is None else {**files, FILE_NAME: blob.data}
    products = (prefix,) if build.is_hosted else (f"{prefix}.elf", f"{prefix}.map")
    return Bundle(with_provenance(plan, files, compiler_flags(plan), DISTRIBUTION, proof), products=products)


def _no_file_of_weights(project: str) -> SynthesisError:
    message = f"the weights are 'file', and programs of {project} read no files"
    hint = "give `--weights embedded`, or `--weights object` where the assembler of the compiler builds weights.S"
    return SynthesisError(message, diagnostics=[Diagnostic(code="synthesis", message=message, hint=hint)])


def _board_files(plan: ExecutionPlan, build: Build) -> dict[str, str]:
    """Return the files of the board, if the build system is for programs without an operating system or framework."""
    board = board_of(plan)
    return {} if build.is_hosted or build.unrun or board is None else board_files(plan, board)


def _rendered(template: str, context: Mapping[str, object], prefix: str) -> str:
    text = render(template, context)
    return with_prefix(text, prefix) if template.endswith((".c.j2", ".ino.j2")) else text


def analysed_source(plan: ExecutionPlan) -> dict[str, str]:
    """Return the model and a program that calls all of it with anything, `PROOF_NAME`, for an analyser.

    Raises:
        SynthesisError: as `bundle_of`.
    """
    blob = chosen_blob(plan)
    body = _body(plan, blob)
    checksum = None if blob is None else blob.checksum
    ports = _ports(plan, body, blob)
    model = _model(plan, body, blob, ports, checksum=checksum)
    return {**model, PROOF_NAME: _harness(plan, ports)}


@dataclass(frozen=True, slots=True)
class MeasuredSource:
    """The source of a program that measures a model on an emulated board."""

    files: dict[str, bytes]
    instance: Instance


def measured_source(plan: ExecutionPlan, board: Board, *, marks: Mapping[int, int] | None = None) -> MeasuredSource:
    """Return the model and a program that runs it on a board, with inputs and results in files.

    Args:
        marks: numbers of the steps that are counted apart, by their identity.

    Raises:
        SynthesisError: as `bundle_of`, or the emulated board has less memory than the device.
    """
    check_emulated(board, () if plan.arch is None else plan.arch.memories)
    blob, prefix = chosen_blob(plan), plan.options.prefix
    body = _body(plan, blob, marks=marks)
    ports = {**_ports(plan, body, blob), "marks": max((marks or {}).values(), default=0)}
    checksum = None if blob is None else blob.checksum
    texts = {
        **_model(
            plan, body, blob, ports, checksum=checksum, declarations=f"void {MARK}(uint32_t step);" if marks else ""
        ),
        MEASURED_NAME: with_prefix(render("measured.c.j2", ports), prefix),
        PLATFORM_NAME: platform_header(),
        **board_files(plan, board),
    }
    files = {name: text.encode("ascii") for name, text in texts.items()}
    if blob is not None:
        files[OBJECT_NAME] = with_prefix(render("weights.S.j2", ports), prefix).encode("ascii")
        files[FILE_NAME] = blob.data
    return MeasuredSource(files, body.instance)


def _harness(plan: ExecutionPlan, ports: Mapping[str, object], above: str = "") -> str:
    return with_prefix(render("proof.c.j2", {**ports, "above": above}), plan.options.prefix)


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """The source of a model for this process: a step returns `polls.STOPPED` once its flag ``model_stop`` is set.

    ``work`` is an estimate of what a step does.
    """

    files: dict[str, str]
    work: int
    instance: Instance


def program_source(plan: ExecutionPlan, blob: Blob | None) -> ProgramSource:
    """Return the source of the model alone; ``blob`` has the weights if they are not to be part of it.

    Raises:
        SynthesisError: an element type that cannot be represented in C.
    """
    body = _body(plan, blob, polls=True)
    files = _model(plan, body, blob, _ports(plan, body, blob), polls=definition("model_stop"))
    return ProgramSource(files, body.work, body.instance)


def _model(
    plan: ExecutionPlan,
    body: _Body,
    blob: Blob | None,
    ports: dict[str, object],
    *,
    polls: str = "",
    declarations: str = "",
    checksum: int | None = None,
) -> dict[str, str]:
    """Return the header and the source; with a ``checksum`` the source checks the weights."""
    prefix = plan.options.prefix
    source = {**ports, **_source(plan, body, blob), "polls": polls, "declarations": declarations, "checksum": checksum}
    return {
        f"{prefix}.h": with_prefix(render("model.h.j2", ports), prefix),
        f"{prefix}.c": with_prefix(render("model.c.j2", source), prefix),
    }


def _ports(plan: ExecutionPlan, body: _Body, blob: Blob | None) -> dict[str, object]:
    names = body.names
    inside = plan.options.io == "inside"
    inputs = [
        _placed(input_port(p, names, n), n, "in", inside=inside and is_needed(p)) for n, p in enumerate(plan.inputs)
    ]
    outputs = [_placed(output_port(p, names, n), n, "out", inside=inside) for n, p in enumerate(plan.outputs)]
    return {
        "prefix": plan.options.prefix,
        "closes": False,
        "threads": has_threads(plan.procedures),
        "arena_nbytes": plan.arena_nbytes,
        "inside": inside,
        "inputs": inputs,
        "outputs": outputs,
        "given_sizes": given_sizes(plan, names),
        "varying": [port for port in outputs if port["extents"]],
        "weights_apart": blob is not None,
        "weights_object": blob is not None and plan.options.weights == "object",
        "weights_nbytes": plan.weights_nbytes if blob is None else len(blob.data),
        "alignment": ALIGNMENT,
        "has_state": bool(plan.states),
        "state_nbytes": plan.state_nbytes,
        "statuses": STATUSES,
        "instance": body.instance,
        "variables": body.instance.variables,
        "save_nbytes": saved_nbytes(body.instance.variables),
        "identity": identity(body.instance.variables),
        "head_nbytes": HEAD_NBYTES,
        "overlaps": [
            comment(_overlap_text(port, [plan.inputs[number].name for number in free]))
            for port, free in zip(plan.outputs, free_inputs(plan), strict=True)
        ],
    }


def _placed(port: dict[str, object], number: int, side: str, *, inside: bool) -> dict[str, object]:
    """Return a port with the array that programs around the model use: a member of the instance, or their own."""
    member = f"{side}_{str(port['field']).removeprefix('v_')}"
    own = f"{side}put_{number}"
    return {**port, "member": member, "is_inside": inside, "array": f"model.{member}" if inside else own}


def _overlap_text(port: PlanOutput, inputs: list[str]) -> str:
    return f"{port.name} may lie in the memory of: {', '.join(inputs)}" if inputs else f"{port.name}: of no input"


def _board(plan: ExecutionPlan) -> str:
    """Return the name of a device whose memories its file lists: a board, which does not run `main.c`."""
    return plan.arch.name if plan.arch is not None and plan.arch.memories else ""


def _check(plan: ExecutionPlan) -> None:
    for value in plan.values:
        if isinstance(value.memory, NoMemory):
            continue
        try:
            item_type(value.type.dtype)
        except ExprError as error:
            raise SynthesisError(f"{value.name} is {value.type}: {error}", code="dtype-unsupported") from error


def _body(
    plan: ExecutionPlan, blob: Blob | None, *, polls: bool = False, marks: Mapping[int, int] | None = None
) -> _Body:
    _check(plan)
    names = Names(plan, weights_apart=blob is not None)
    kernels = KernelFunctions(
        has_vector_types=has_vector_types(plan),
        has_helium=plan.arch is not None and plan.arch.machine.mve,
        is_in_order=plan.arch is not None and plan.arch.machine.has_few_registers,
        polls=polls,
    )
    blocks: list[tuple[str, list[str], dict[str, int]]] = []
    helpers: dict[str, None] = {}
    definitions: dict[str, str] = {}
    functions: set[str] = set()
    # A program of this process without states runs again node by node where it fails.
    fault_line = _line if not polls else _number if plan.states else no_line
    rolled, work, scratch_nbytes, shared = False, dict[str, int](), 0, not has_threads(plan.procedures)
    for procedure in plan.procedures:
        # Steps that run at the same time do not work in the same memory.
        apart = 0 if shared else scratch_nbytes
        code = Code(depth=1, scratch=f"model->scratch + {apart}" if apart else "model->scratch")
        StatementWriter(code, names, plan, kernels, fault_line=fault_line, marks=marks).block(procedure.steps)
        scratch_nbytes = max(scratch_nbytes, whole(apart + code.scratch_nbytes, ALIGNMENT))
        for kernel in kernels:
            work[kernel.name] = kernel.work
        helpers.update(code.helpers)
        definitions.update(code.definitions)
        functions |= code.index_functions
        rolled = rolled or bool(code.definitions) or uses_rolled(code.lines)
        name, lines = names.blocks[procedure.name], code.lines
        if polls:
            lines, work[name] = with_polls(lines, code.loop_turns, work)
        blocks.append((procedure.name, lines, code.tasks))
    code = Code(depth=1, scratch="model->scratch")
    StatementWriter(code, names, plan, kernels).steps(plan.reset)
    scratch_nbytes = max(scratch_nbytes, code.scratch_nbytes)
    helpers.update(code.helpers)
    definitions.update(code.definitions)
    rolled = rolled or uses_rolled(code.lines)
    for kernel in kernels:
        helpers.update(dict.fromkeys(kernel.helpers))
        definitions.update(dict(kernel.definitions))
        rolled = rolled or bool(kernel.definitions) or uses_rolled(kernel.lines)
    short = short_names(definitions)
    return _Body(
        blocks=tuple(block_function(names, name, lines, tasks, short) for name, lines, tasks in blocks),
        reset=with_names(code.lines, short),
        kernels=tuple(replace(each, lines=narrow(with_names(each.lines, short))) for each in kernels),
        names=names,
        helpers=tuple(helpers),
        definitions=named_definitions(definitions, short),
        integer_functions=integer_functions(functions),
        rolled=rolled,
        work=max(work.values(), default=0),
        instance=instance_of(plan, names, scratch_nbytes),
    )


def _line(statement: Statement) -> int:
    return statement.line or 0


def _number(statement: Statement) -> int:
    return statement.node + 1


def _source(plan: ExecutionPlan, body: _Body, blob: Blob | None) -> dict[str, object]:
    names = body.names
    return {
        **_weights(plan, names, blob),
        "arena": [
            {
                "name": names.arena[value.number],
                "c_type": item_type(value.type.dtype),
                "address": arena_text(plan, value.memory),
                "comment": comment(f"{value.name}: {value.type}"),
            }
            for value in plan.values
            if isinstance(value.memory, ArenaMemory) and value.number in names.used_places
        ],
        "placed_states": placed_states(plan, names),
        "rolled": DEFINITION if body.rolled else "",
        "integer_functions": body.integer_functions,
        "helpers": helper_source(body.helpers),
        "definitions": body.definitions,
        "kernels": body.kernels,
        "unrolled": unrolled_definition(line for kernel in body.kernels for line in kernel.lines),
        "next_term": next_term_definition(line for kernel in body.kernels for line in kernel.lines),
        "kernel_definition": KERNEL_DEFINITION if body.kernels else "",
        "blocks": body.blocks,
        "registers": [{"name": names.registers[r.number], "initial": r.initial} for r in plan.registers if r.is_kept],
        "sizes": [
            {"name": names.registers[r.number], "initial": r.initial}
            for r in plan.registers
            if not r.is_kept and r.size is None
        ],
        "reset": body.reset,
        "ports": [
            *(f"inputs->{names.inputs[number]}" for number, port in enumerate(plan.inputs) if is_needed(port)),
            *(f"outputs->{field}" for field in names.outputs),
        ],
        "entry": names.blocks[plan.procedures[-1].name],
    }


def _weights(plan: ExecutionPlan, names: Names, blob: Blob | None) -> dict[str, object]:
    weights: list[dict[str, object]] = []
    for weight in plan.weights:
        if weight.number not in names.used_weights:
            continue
        place = {"lines": initialiser_lines(weight)} if blob is None else {"offset": blob.offsets[weight.number]}
        named = {"name": names.weights[weight.number], "c_type": item_type(weight.type.dtype)}
        shown = {"count": max(items(weight.stored), 1), "comment": comment(f"{weight.source}: {weight.type}")}
        weights.append({**place, **named, **shown, "is_aligned": _is_aligned(plan, weight)})
    tables = [_table(table, names, blob) for table in plan.tables if table.number in names.used_tables]
    hidden = list(_hidden_from_gcc_12(plan, names))
    return {"weights_apart": blob is not None, "weights": weights, "tables": tables, "hidden": hidden}


def _is_aligned(plan: ExecutionPlan, weight: PackedWeight) -> bool:
    """Return whether a weight is declared to begin at a line of the caches.

    Compilers align an array to 32 bytes at most: of a weight that begins there, every register of 64 bytes is loaded
    from two lines, which takes twice as long.
    """
    return plan.arch is not None and ALIGNMENT == plan.arch.machine.vector_nbytes <= len(weight.data)


def _hidden_from_gcc_12(plan: ExecutionPlan, names: Names) -> Iterator[dict[str, str]]:
    """Yield the arrays whose elements GCC 12 must not know, as it copies some wrongly, with the types of pointers."""
    for weight in plan.weights:
        if weight.number in names.used_weights and weight.stored.nbytes > MOST_COPIED_NBYTES:
            yield {"name": names.weights[weight.number], "c_type": f"const {item_type(weight.type.dtype)} *"}
    for table in plan.tables:
        if table.number in names.used_tables and table.type.nbytes > MOST_COPIED_NBYTES:
            yield {"name": names.tables[table.number], "c_type": f"const {item_type(table.type.dtype)} *const *"}


def _table(table: WeightTable, names: Names, blob: Blob | None) -> dict[str, object]:
    if blob is None:
        entries = ["NULL" if entry is None else names.weights[entry] for entry in table.entries]
    else:
        entries = ["SIZE_MAX" if entry is None else str(blob.offsets[entry]) for entry in table.entries]
    return {
        "name": names.tables[table.number],
        "c_type": item_type(table.type.dtype),
        "entries": entries,
        "comment": comment(f"{table.name}: {table.type}, from index {', '.join(map(str, table.starts))}"),
    }
