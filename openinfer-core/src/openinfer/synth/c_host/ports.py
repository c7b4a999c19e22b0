"""Inputs and outputs of a program, as contexts of the templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.expr.c_renderer import item_type
from openinfer.expr.tree import ExprError
from openinfer.plan.steps import Register
from openinfer.synth.c_text import comment, string_literal
from openinfer.synth.npy_harness import npy_descr

if TYPE_CHECKING:
    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanInput, PlanOutput
    from openinfer.synth.c_host.port_names import PortNames


def is_needed(port: PlanInput) -> bool:
    """Whether the caller has to give an input: the program reads it, and it has no default."""
    return port.needed and port.default is None


def port_context(name: str, type: TensorType, field: str) -> dict[str, object]:
    """Return what templates say of an array: its names, and its type in C and in files.

    Raises:
        SynthesisError: C does not hold its element type.
    """
    try:
        spelled = item_type(type.dtype)
        literal = string_literal(name)
    except (ExprError, ValueError) as error:
        raise SynthesisError(f"{name!r} is {type}: {error}", code="dtype-unsupported") from error
    packed = type.dtype.is_packed
    as_bytes = f", {type.nbytes} packed bytes" if packed else ""
    return {
        "field": field,
        "literal": literal,
        "shown": string_literal(f"{type}{as_bytes}"),
        "usage": string_literal(f"{name}: {type}{as_bytes}"),
        "c_type": spelled,
        "comment": comment(f"{name}: {type}{as_bytes}"),
        "nbytes": type.nbytes,
        "descr": npy_descr(type.dtype),
        "width": max(type.dtype.bits // 8, 1),
        "count": items(type),
        "room": max(items(type), 1),
        "rank": 1 if packed else len(type.shape),
        "shape": str(type.nbytes) if packed else ", ".join(map(str, type.shape)) or "1",
    }


def input_port(port: PlanInput, names: PortNames, number: int) -> dict[str, object]:
    made = port_context(port.name, port.type, names.inputs[number])
    usage = string_literal(_usage(port, names) + ("" if is_needed(port) else " (optional)"))
    extents = [names.expressions[e.number] if isinstance(e, Register) else str(e) for e in port.extents or ()]
    if extents:
        shape = ["NPY_ANY" if isinstance(extent, Register) else str(extent) for extent in port.extents or ()]
        written = [names.commented[e.number] if isinstance(e, Register) else str(e) for e in port.extents or ()]
        shown = f"{port.name}: {port.type.dtype}[{', '.join(written)}], at most {port.type}"
        made |= {"shape": ", ".join(shape), "comment": comment(shown)}
    return {
        **made,
        "usage": usage,
        "extents": extents,
        "number": number,
        "sizes": _alone(port, names),
        "macro": names.input_macros[number],
        "needed": int(is_needed(port)),
    }


def _usage(port: PlanInput | PlanOutput, names: PortNames) -> str:
    """Return what the usage of a program says of an array: extents that differ between steps as the program has them,
    or ``?`` where values decide them."""
    packed = f", {port.type.nbytes} packed bytes" if port.type.dtype.is_packed else ""
    if not any(isinstance(extent, Register) for extent in port.extents or ()):
        return f"{port.name}: {port.type}{packed}"
    shown = [names.extents.get(e.number, "?") if isinstance(e, Register) else str(e) for e in port.extents or ()]
    return f"{port.name}: {port.type.dtype}[{','.join(shown)}], at most {port.type}{packed}"


def _alone(port: PlanInput, names: PortNames) -> list[tuple[int, int]]:
    """Return the sizes that are alone an extent of an input, each as its place among all and the axis."""
    places = {register: place for place, register in enumerate(names.given)}
    return [
        (places[extent.number], axis)
        for axis, extent in enumerate(port.extents or ())
        if isinstance(extent, Register) and extent.number in places
    ]


def given_sizes(plan: ExecutionPlan, names: PortNames) -> list[dict[str, object]]:
    """Return the sizes that the caller gives in every step."""
    found: list[dict[str, object]] = []
    for register in plan.registers:
        if register.size is None:
            continue
        field = names.given[register.number]
        shown = comment(f"Size {register.size}, up to {register.most}: extents of inputs and outputs depend on it.")
        found.append(
            {
                "field": field,
                "register": names.registers[register.number],
                "comment": shown,
                "literal": string_literal(register.size),
                "macro": f"MODEL_{field.upper()}_MOST",
                "most": register.most,
            }
        )
    return found


def output_port(port: PlanOutput, names: PortNames, number: int) -> dict[str, object]:
    field = names.outputs[number]
    usage = string_literal(_usage(port, names))
    made = {
        **port_context(port.name, port.type, field),
        "usage": usage,
        "macro": names.output_macros[number],
        "extents": (),
    }
    if port.extents is None:
        return made
    extents = [
        f"(size_t)model->{names.registers[extent.number]}" if isinstance(extent, Register) else str(extent)
        for extent in port.extents
    ]
    return {**made, "extents": extents, "shape_field": f"shape_{field.removeprefix('v_')}"}


def items(type: TensorType) -> int:
    """Return the number of items of an array: its elements, or the bytes that packed ones share."""
    return type.nbytes if type.dtype.is_packed else type.count
