"""Identifiers of what callers of a model see: inputs, outputs, sizes, and what is kept between steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.plan.given_sizes import parameter_name
from openinfer.synth.identifiers import Identifiers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plan.execution_plan import ExecutionPlan


class PortNames:
    """Identifiers in the header of a model; equal plans get equal names.

    Attributes:
        inputs, outputs: fields of the structures that a step is given.
        given: fields of the sizes that it is given, by number of the register.
        polynomials: what inputs' extents are of these fields, by number of the register.
        extents: extents that the sizes decide, in the words of the program, by number of the register.
        input_macros, output_macros: macros of the bytes of ports.
        registers, states: members of the structure of an instance.
        variables: what the constants of variables end with.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        fields, states, macros, constants = Identifiers(), Identifiers(), Identifiers(), Identifiers()
        self.inputs = tuple(fields.name("v_", item.name) for item in plan.inputs)
        self.outputs = tuple(fields.name("v_", item.name) for item in plan.outputs)
        self.given = {r.number: fields.name("extent_", r.size) for r in plan.registers if r.size is not None}
        fields_of = {
            Var(parameter_name(r.size)): Index.of(Var(self.given[r.number]))
            for r in plan.registers
            if r.size is not None
        }
        self.polynomials = _texts(plan, fields_of)
        words = {r.size: Index.of(Var(r.size)) for r in plan.registers if r.size is not None}
        self.extents = _texts(plan, {Var(parameter_name(size)): word for size, word in words.items()})
        self.input_macros = tuple(_macro(macros.name("input_", item.name)) for item in plan.inputs)
        self.output_macros = tuple(_macro(macros.name("output_", item.name)) for item in plan.outputs)
        self.registers = tuple(states.name("n_", register.name) for register in plan.registers)
        self.states = tuple(states.name("s_", state.name) for state in plan.states)
        kept = (*(s.name for s in plan.states), *(r.name for r in plan.registers if r.is_kept))
        self.variables = tuple(constants.name("x_", name).removeprefix("x_").upper() for name in kept)

    def register(self, number: int) -> str:
        """Return the expression of a register."""
        return f"model->{self.registers[number]}"


def _texts(plan: ExecutionPlan, names: Mapping[Var, Index]) -> dict[int, str]:
    """Return extents that are polynomials in given sizes as text, with these names for the sizes."""
    return {r.number: str(r.extent.substituted(names)) for r in plan.registers if r.extent is not None}


def _macro(name: str) -> str:
    """Return the name of the macro of a port, which says how many bytes it has."""
    return f"MODEL_{name.upper()}_BYTES"
