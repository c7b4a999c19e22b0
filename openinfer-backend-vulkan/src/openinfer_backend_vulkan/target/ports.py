"""Inputs and results of a step on their way between the caller's memory and the device's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.codegen import c_notation
from openinfer.plan.given_sizes import parameter_name
from openinfer.plan.steps import Register
from openinfer.plan.values import InputMemory, OutputMemory
from openinfer.synth.c_host.ports import is_needed
from openinfer.synth.c_text import comment
from openinfer_backend_vulkan.target.places import INPUTS, fixed

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanInput
    from openinfer_backend_vulkan.target.commands import Commands
    from openinfer_backend_vulkan.target.host_names import HostNames
    from openinfer_backend_vulkan.target.kernel_writer import Program


def write_upload(program: Program, code: Commands) -> None:
    """Append what copies inputs to memory of the device, where kernels read them as the caller gives them."""
    plan, names, places = program.plan, program.names, program.places
    read = {value.memory.number for value in plan.values if isinstance(value.memory, InputMemory)}
    for number, port in enumerate(plan.inputs):
        if number not in read or not port.type.count:
            continue
        code.line(comment(f"input {port.name}"))
        field = names.inputs[number]
        copied = (
            f"memcpy(model->given.mapped + {places.inputs[number]}, inputs->{field}, {_nbytes(plan, names, port)});"
        )
        with code.at_run_time():
            code.line(copied if is_needed(port) else f"if (inputs->{field} != NULL) {{ {copied} }}")
        port_place = places.input(number)
        code.copy(port_place, fixed(INPUTS, places.inputs[number], port.type.nbytes, port_place.what))


def write_download(program: Program, code: Commands) -> None:
    """Append what copies results to memory that the processor reads."""
    plan, places = program.plan, program.places
    written = {value.memory.number for value in plan.values if isinstance(value.memory, OutputMemory)}
    for number, port in enumerate(plan.outputs):
        if port.type.count:
            made, taken = places.output(number)
            source = made if number in written else places.value(port.value)
            code.line(comment(f"result {port.name}"))
            code.copy(source, taken)


def _nbytes(plan: ExecutionPlan, names: HostNames, port: PlanInput) -> str:
    """Return how many bytes the caller gives, as C."""
    if port.extents is None:
        return str(port.type.nbytes)
    sizes = {parameter_name(r.size): names.register(r.number) for r in plan.registers if r.size is not None}
    notation = c_notation(lambda var: sizes[var.name])
    texts: list[str] = []
    for extent in port.extents:
        if not isinstance(extent, Register):
            texts.append(str(extent))
            continue
        index = plan.registers[extent.number].extent
        texts.append(f"({names.register(extent.number) if index is None else notation.index(index)})")
    return f"(size_t)({' * '.join(texts)}) * {max(port.type.dtype.bits // 8, 1)}"
