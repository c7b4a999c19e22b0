"""A plan as a JSON document (``plan.json`` of a bundle): schedule, fusion groups, memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from openinfer.compute.text import computation_text
from openinfer.layout import layout_text
from openinfer.loops.text import kernel_text
from openinfer.plan.accesses import members, operands, writes
from openinfer.plan.report import kind_of, operand_text, step_text
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    ComputeStep,
    FillStep,
    KernelStep,
    LoopProgramStep,
    LoopStep,
    Register,
)
from openinfer.plan.values import ArenaMemory, InputMemory, OutputMemory, StateMemory, ViewMemory, WeightMemory
from openinfer.schedule.text import schedule_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.expr.linear import Program
    from openinfer.ir.types import TensorType
    from openinfer.layout import Layout
    from openinfer.plan.execution_plan import Bank, ExecutionPlan
    from openinfer.plan.steps import Step
    from openinfer.plan.values import PlanInput, PlanOutput, PlanValue
    from openinfer.scalars import Scalar

FORMAT = "openinfer-plan"
VERSION = 1


def plan_json(plan: ExecutionPlan) -> dict[str, Any]:
    """Return the plan as plain dictionaries, lists, strings and numbers; weights without their data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "target": plan.target,
        "inputs": [
            {
                "name": i.name,
                **_type(i.type),
                "value": i.value,
                "default": _scalar(i.default),
                **_extents(plan, i),
            }
            for i in plan.inputs
        ],
        "outputs": [_output(plan, o) for o in plan.outputs],
        "arena": {"nbytes": plan.arena_nbytes, "values": _arena(plan)},
        "states": [
            {"name": s.name, **_type(s.type), "value": s.value, **_place(plan.values[s.value])} for s in plan.states
        ],
        "banks": [_bank(bank) for bank in plan.banks],
        "registers": [
            {
                "name": r.name,
                "initial": r.initial,
                "kept": r.is_kept,
                "most": r.most,
                **({} if r.size is None else {"given": r.size}),
            }
            for r in plan.registers
        ],
        "values": [_value(value) for value in plan.values],
        "weights": [
            {
                "source": w.source,
                **_type(w.type),
                "nbytes": w.stored.nbytes,
                "layout": _layout(w.layout),
                "computed_by": list(w.ops),
            }
            for w in plan.weights
        ],
        "tables": [
            {
                "number": t.number,
                "name": t.name,
                "starts": list(t.starts),
                "extents": list(t.extents),
                "entries": list(t.entries),
                "fixed": [{"indices": list(indices), "weight": weight} for indices, weight in t.fixed],
            }
            for t in plan.tables
        ],
        "reset": _steps(plan, plan.reset),
        "blocks": [{"name": p.name, "steps": _steps(plan, p.steps)} for p in reversed(plan.procedures)],
    }


def _type(type: TensorType) -> dict[str, Any]:
    return {"dtype": type.dtype.name, "shape": list(type.shape)}


def _scalar(value: Scalar | None) -> Scalar | str | None:
    """Return a scalar as JSON knows it: infinities and NaN as text."""
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _value(value: PlanValue) -> dict[str, Any]:
    return {
        "number": value.number,
        "name": value.name,
        **_type(value.type),
        "role": value.role.value,
        "layout": _layout(value.layout),
        "memory": _memory(value),
    }


def _layout(layout: Layout | None) -> str:
    return "row-major" if layout is None else layout_text(layout)


def _memory(value: PlanValue) -> dict[str, Any] | None:
    match value.memory:
        case InputMemory(number=number):
            return {"input": number}
        case OutputMemory(number=number):
            return {"output": number}
        case WeightMemory(number=number):
            return {"weight": number}
        case ArenaMemory(offset=offset, bank=bank):
            return {"arena": offset, "bank": bank}
        case StateMemory(number=number):
            return {"state": number, **_place(value)}
        case ViewMemory(state=state, register=register):
            return {"state": state, "register": register}
        case _:
            return None


def _place(state: PlanValue) -> dict[str, Any]:
    """Return the memory of a state, and where it lies among the states there; {} where the device names none."""
    memory = state.memory
    if not isinstance(memory, StateMemory) or memory.bank is None:
        return {}
    return {"bank": memory.bank, "offset": memory.offset, "nbytes": state.stored.nbytes}


def _bank(bank: Bank) -> dict[str, Any]:
    return {
        "name": bank.name,
        "kind": bank.kind,
        "capacity": bank.capacity,
        "nbytes": bank.nbytes,
        "arena_nbytes": bank.arena_nbytes,
        "states_nbytes": bank.states_nbytes,
    }


def _arena(plan: ExecutionPlan) -> list[dict[str, Any]]:
    return [
        {
            "value": value.number,
            "bank": value.memory.bank,
            "offset": value.memory.offset,
            "nbytes": value.stored.nbytes,
        }
        for value in plan.values
        if isinstance(value.memory, ArenaMemory)
    ]


def _steps(plan: ExecutionPlan, steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [_step(plan, step) for step in steps]


def _step(plan: ExecutionPlan, step: Step) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": "view" if plan.is_view(step) else kind_of(step),
        "text": step_text(plan, step),
        "block": step.origin.block,
        "statements": [{"node": s.node, "line": s.line, "text": s.text} for s in step.origin.statements],
        "fused": len(step.origin.statements) > 1,
        "inputs": [operand_text(plan, operand) for operand in operands(step)],
        "outputs": list(members(writes(step))),
    }
    if isinstance(step, ComputeStep):
        document["stored"] = step.stored
        document["computation"] = computation_text(step.computation).splitlines()
        document["schedules"] = [schedule_text(schedule) for schedule in step.arrangement.schedules]
    if isinstance(step, LoopProgramStep):
        document["loops"] = kernel_text(step.kernel).splitlines()
    if isinstance(step, KernelStep):
        document["settings"] = {name: _setting(value) for name, value in step.call.settings.items()}
        if step.epilogue is not None:
            document["epilogue"] = _program(step.epilogue.program)
    if isinstance(step, FillStep):
        document["fill"] = _scalar(step.value)
    if isinstance(step, CallStep):
        document |= {"then": step.procedure, "condition": step.condition, "else": step.otherwise}
    if isinstance(step, BarrierStep) and step.joins:
        document["joins"] = list(step.joins)
    if isinstance(step, LoopStep):
        document |= {"index": step.index, "body": _steps(plan, step.body)}
    return document


def _setting(value: object) -> Any:
    if isinstance(value, tuple):
        return [_setting(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, float):
        return _scalar(value)
    return value if isinstance(value, bool | int | str) or value is None else str(value)


def _program(program: Program) -> list[str]:
    """Return straight-line code, one instruction a line."""
    lines: list[str] = []
    for number, i in enumerate(program.instructions):
        operand = f"#{i.index}" if i.function == "input" else repr(i.value) if i.function == "literal" else ""
        lines.append(f"%{number} = {i.function} {operand or ', '.join(f'%{o}' for o in i.operands)} : {i.dtype}")
    return lines


def _output(plan: ExecutionPlan, port: PlanOutput) -> dict[str, Any]:
    return {"name": port.name, **_type(port.type), "value": port.value, **_extents(plan, port)}


def _extents(plan: ExecutionPlan, port: PlanInput | PlanOutput) -> dict[str, Any]:
    if port.extents is None:
        return {}
    return {"extents": [plan.registers[e.number].name if isinstance(e, Register) else e for e in port.extents]}
