"""The structure that holds one instance of a model: its members, and its size, which is the same on every machine.

Where the device names its memories, the arena and the states are arrays in those, and the structure has pointers.

Members whose size depends on the machine are unions with a wide integer, and every member takes a multiple of eight
bytes, so that no compiler puts padding between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import item_type
from openinfer.plan.places import ALIGNMENT
from openinfer.plan.values import ArenaMemory, StateMemory
from openinfer.synth.c_host.ports import is_needed, items
from openinfer.synth.c_host.variables import state_width, variables_of
from openinfer.synth.c_text import comment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.plan.execution_plan import Bank, ExecutionPlan
    from openinfer.plan.values import PlanInput, PlanOutput, PlanState
    from openinfer.synth.c_host.variables import Variable
    from openinfer_synth_c.names import Names

WORD = 8
"""Bytes of which every member takes a multiple."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes in a memory of the device, which the caller gives: a part of the arena, or states.

    Attributes:
        name: its name in C.
        macro: the macro of its size.
        bank: the memory's name.
        comment: what it is.
        holds: names of the states in it, as printable ASCII; "" for a part of the arena.
    """

    name: str
    macro: str
    bank: str
    nbytes: int
    comment: str
    holds: str = ""

    @property
    def parameter(self) -> str:
        """Its declaration as a parameter of a function."""
        return f"void *{self.name}"


@dataclass(frozen=True, slots=True)
class Instance:
    """The structure.

    Attributes:
        members: lines of its declaration.
        nbytes: its size.
        memories: parts of the arena, and states, that lie elsewhere.
        scratch_nbytes: bytes of `members` that functions work in.
        registers: where each register of the plan begins, by its number.
    """

    members: tuple[str, ...]
    nbytes: int
    memories: tuple[Memory, ...]
    variables: tuple[Variable, ...]
    scratch_nbytes: int
    registers: Mapping[int, int]

    @property
    def apart(self) -> list[str]:
        """Names of the memories that hold states."""
        return [memory.name for memory in self.memories if memory.holds]


def instance_of(plan: ExecutionPlan, names: Names, scratch_nbytes: int) -> Instance:
    """Return the structure of a plan whose source is printed: `Names` has what it uses of the arena."""
    memories = _memories(plan, names)
    lines: list[str] = []
    nbytes = 0

    def member(text: str, size: int, what: str) -> None:
        nonlocal nbytes
        lines.append(comment(what))
        lines.append(f"{'MODEL_ALIGNED ' if not nbytes else ''}{text};")
        nbytes += size

    if not plan.banks and names.used_places:
        # Values without elements may be all that there is, and C has no arrays of none.
        size = whole(max(plan.arena_nbytes, 1), ALIGNMENT)
        what = "Intermediate results; values that are never needed at the same time share memory."
        # Elements of several types lie in these bytes one after the other. C99 (6.5, paragraphs 6 and 7) says that of
        # memory without a declared type only; gcc and clang treat an array of characters like such memory. Bytes of an
        # image that are read as words, and columns of words in a buffer of bytes, keep to the paragraphs: `int8_t` and
        # `uint8_t` are character types there, which may access every object and give memory no type.
        member(f"unsigned char arena[{size}]", size, what)
    if scratch_nbytes:
        size = whole(scratch_nbytes, ALIGNMENT)
        member(f"unsigned char scratch[{size}]", size, "What single steps work in.")
    member("uint64_t ready", WORD, "Whether the structure was initialised.")
    member("int64_t fault_line", WORD, "Where the last step stopped.")
    registers: dict[int, int] = {}
    for register in plan.registers:
        registers[register.number] = nbytes
        what = f"{register.name}, up to {register.most}"
        member(f"int64_t {names.registers[register.number]}", WORD, what)
    for state in plan.states:
        if plan.memory_of(state) is not None:
            continue
        count, width = _room(state), state_width(state)
        what = f"{state.name}: {state.type}"
        member(f"{item_type(state.type.dtype)} {names.states[state.number]}[{count}]", count * width, what)
    if plan.options.io == "inside":
        for port, field in inside_ports(plan, names):
            width = max(port.type.dtype.bits // 8, 1)
            size = whole(max(port.type.nbytes, 1), WORD)
            member(f"{item_type(port.type.dtype)} {field}[{size // width}]", size, f"{port.name}: {port.type}")
    for memory in memories:
        pointer = f"union {{ unsigned char *bytes; uint64_t width; }} {memory.name}"
        member(pointer, WORD, memory.comment)
    if names.weights_apart:
        member("union { const unsigned char *bytes; uint64_t width; } weights", WORD, "The weights.")
    padding = -nbytes % ALIGNMENT
    if padding:
        member(f"unsigned char padding[{padding}]", padding, "The size is a multiple of the alignment.")
    variables = variables_of(plan, names, partial(_place, plan))
    return Instance(tuple(lines), nbytes, memories, variables, scratch_nbytes, registers)


def inside_ports(plan: ExecutionPlan, names: Names) -> Iterator[tuple[PlanInput | PlanOutput, str]]:
    """Yield the inputs that a step needs and the outputs, with the members that hold them."""
    for number, port in enumerate(plan.inputs):
        if is_needed(port):
            yield port, f"in_{names.inputs[number].removeprefix('v_')}"
    for number, port in enumerate(plan.outputs):
        yield port, f"out_{names.outputs[number].removeprefix('v_')}"


def arena_text(plan: ExecutionPlan, memory: ArenaMemory) -> str:
    """Return the expression of a place in the arena."""
    array = f"{_arena_name(plan, memory.bank)}.bytes" if plan.banks else "arena"
    return f"model->{array} + {memory.offset}"


def placed_states(plan: ExecutionPlan, names: Names) -> list[dict[str, str]]:
    """Return the names, types and places of states that lie in memories of the device."""
    found: list[dict[str, str]] = []
    for state in plan.states:
        memory, offset = _place(plan, state)
        if memory is not None:
            found.append(
                {
                    "name": names.states[state.number],
                    "c_type": item_type(state.type.dtype),
                    "address": f"model->{memory}.bytes + {offset}",
                    "comment": comment(f"{state.name}: {state.type}"),
                }
            )
    return found


def _place(plan: ExecutionPlan, state: PlanState) -> tuple[str | None, int]:
    """Return the name of the memory that holds a state, None for the structure, and the offset in it."""
    memory = plan.values[state.value].memory
    if not isinstance(memory, StateMemory) or memory.bank is None:
        return None, 0
    return _states_name(plan, memory.bank), memory.offset


def _arena_name(plan: ExecutionPlan, bank: int) -> str:
    return f"arena_{plan.banks[bank].name}"


def _states_name(plan: ExecutionPlan, bank: int) -> str:
    return f"states_{plan.banks[bank].name}"


def _memories(plan: ExecutionPlan, names: Names) -> tuple[Memory, ...]:
    found = [plan.values[number].memory for number in names.used_places]
    used = {memory.bank for memory in found if isinstance(memory, ArenaMemory)}
    arena = (
        Memory(
            name=_arena_name(plan, number),
            macro=f"MODEL_ARENA_{bank.name.upper()}_BYTES",
            bank=bank.name,
            nbytes=max(bank.arena_nbytes, 1),
            comment=_share_text("Intermediate results", bank, bank.arena_nbytes),
        )
        for number, bank in enumerate(plan.banks)
        if number in used
    )
    states = (
        Memory(
            name=_states_name(plan, number),
            macro=f"MODEL_STATES_{bank.name.upper()}_BYTES",
            bank=bank.name,
            nbytes=bank.states_nbytes,
            comment=_share_text("Persistent variables", bank, bank.states_nbytes),
            holds=comment(", ".join(state.name for state in plan.states if plan.memory_of(state) == bank.name))[3:-3],
        )
        for number, bank in enumerate(plan.banks)
        if bank.states_nbytes
    )
    return (*arena, *states)


def _share_text(what: str, bank: Bank, nbytes: int) -> str:
    return f"{what} in {bank.name} ({bank.kind}), {nbytes} of its {bank.capacity} bytes."


def _room(state: PlanState) -> int:
    """Return the items of a member, whose bytes are whole words."""
    return whole(max(items(state.type), 1) * state_width(state), WORD) // state_width(state)


def whole(nbytes: int, unit: int) -> int:
    """Return a number of bytes rounded up to a multiple of another one."""
    return -(-nbytes // unit) * unit
