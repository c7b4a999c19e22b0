"""Identifiers of what callers of a model see: inputs, outputs, sizes, and what is kept between steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.affine import Index, Var
from openinfer.codegen import c_notation
from openinfer.dims import Space, expression
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
        expressions: what inputs' extents are of these fields, in C, by number of the register.
        commented, extents: extents that the sizes decide, in the language, over these fields and over the names of the
            program, by number of the register.
        input_macros, output_macros: macros of the bytes of ports.
        registers, states: members of the structure of an instance.
        variables: what the constants of variables end with.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        members, states, macros, constants = Identifiers(), Identifiers(), Identifiers(), Identifiers()
        self.inputs = tuple(members.name("v_", item.name) for item in plan.inputs)
        self.outputs = tuple(members.name("v_", item.name) for item in plan.outputs)
        self.given = {r.number: members.name("extent_", r.size) for r in plan.registers if r.size is not None}
        notation = c_notation(lambda var: f"(ptrdiff_t){var.name}")
        fields = _renamed(plan, self.given)
        self.expressions = {number: f"(size_t)({notation.index(index)})" for number, index in fields.items()}
        self.commented = {number: _written(index) for number, index in fields.items()}
        words = {r.number: r.size for r in plan.registers if r.size is not None}
        self.extents = {number: _written(index) for number, index in _renamed(plan, words).items()}
        self.input_macros = tuple(_macro(macros.name("input_", item.name)) for item in plan.inputs)
        self.output_macros = tuple(_macro(macros.name("output_", item.name)) for item in plan.outputs)
        self.registers = tuple(states.name("n_", register.name) for register in plan.registers)
        self.states = tuple(states.name("s_", state.name) for state in plan.states)
        kept = (*(s.name for s in plan.states), *(r.name for r in plan.registers if r.is_kept))
        self.variables = tuple(constants.name("x_", name).removeprefix("x_").upper() for name in kept)

    def register(self, number: int) -> str:
        """Return the expression of a register."""
        return f"model->{self.registers[number]}"


def _renamed(plan: ExecutionPlan, names: Mapping[int, str]) -> dict[int, Index]:
    """Return the extents that given sizes decide, over these names of the registers of sizes."""
    sizes = {Var(parameter_name(r.size)): Index.of(Var(names[r.number])) for r in plan.registers if r.size is not None}
    return {r.number: r.extent.substituted(sizes) for r in plan.registers if r.extent is not None}


def _written(index: Index) -> str:
    """Return an extent as the language writes it: ``ceil(T/2)``."""
    space = Space()
    for var in index.variables():
        space.size(var.name)
    expr = expression(index, lambda condition: bool(space.certain(condition)))
    return str(index) if expr is None else symbolic.text(expr)


def _macro(name: str) -> str:
    """Return the name of the macro of a port, which says how many bytes it has."""
    return f"MODEL_{name.upper()}_BYTES"
