"""Registers of a program that the device may hold: sizes that kernels count, without a wait of the host.

The host knows such a register as an index over counts until it needs the number. Kernels with such a size are
dispatched indirectly (`openinfer_backend_vulkan.glsl.counts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.accesses import changed_registers
from openinfer.plan.steps import PlaceStep, SetStep
from openinfer_backend_vulkan.glsl.counts import counted_value, is_polynomial, registers_of
from openinfer_backend_vulkan.programs.scalars import steps_of

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step


def deferrable(plan: ExecutionPlan, polled: frozenset[int]) -> frozenset[int]:
    """Return the registers that are always counts of kernels, or polynomials that have such a register in them."""
    writers: dict[int, list[Step]] = {}
    for step in steps_of(plan):
        for register in changed_registers(step):
            if not plan.registers[register].is_kept:
                writers.setdefault(register, []).append(step)
    counted = {
        register
        for register, written_by in writers.items()
        if all(isinstance(step, PlaceStep) and counted_value(plan, step) in polled for step in written_by)
    }
    while True:
        others = {
            register
            for register, written_by in writers.items()
            if register not in counted and all(_derives(step, register, counted) for step in written_by)
        }
        if not others:
            return frozenset(counted)
        counted |= others


def _derives(step: Step, register: int, counted: set[int]) -> bool:
    if not isinstance(step, SetStep):
        return False
    values = [value for number, value in step.values if number == register]
    return all(is_polynomial(value) and registers_of(value) & counted for value in values)
