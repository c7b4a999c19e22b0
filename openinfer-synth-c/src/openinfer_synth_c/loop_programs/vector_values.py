"""Values of all lanes, as vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, F16, F32
from openinfer.expr.c_functions import call_text
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.expr.linear import linearise
from openinfer.loops import Load
from openinfer_synth_c.loop_programs.addresses import counter, loop_head
from openinfer_synth_c.loop_programs.loaded_vectors import applied_to_loaded
from openinfer_synth_c.loop_programs.places import is_plain
from openinfer_synth_c.loop_programs.vector_functions import (
    applied,
    converted_halves,
    is_narrow,
    rounded,
    select_of,
    shifted,
)
from openinfer_synth_c.loop_programs.vector_types import load, splat, vector_type
from openinfer_synth_c.rolled_loops import rolled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.expr.linear import Instruction
    from openinfer.loops import Leaf, Value
    from openinfer_synth_c.loop_programs.lane_names import Lanes

_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))

WHOLE = frozenset(("round_even", "floor", "ceil", "trunc"))
"""Functions that return whole numbers, which `trunc` leaves as they are."""


def roundings(instructions: Sequence[Instruction]) -> Mapping[int, int]:
    """Return the conversions of f32 to narrow integers that round to the nearest one, with what they convert."""
    found: dict[int, int] = {}
    for number, step in enumerate(instructions):
        if step.function != "cast" or not is_narrow(instructions[step.operands[0]].dtype, step.dtype):
            continue
        given = step.operands[0]
        if instructions[given].function == "trunc":
            (given,) = instructions[given].operands
        if instructions[given].function == "round_even" and instructions[given].dtype is F32:
            (found[number],) = instructions[given].operands
    return found


def within_roundings(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Return the instructions that nothing but `roundings` uses, which need them no longer."""
    found, rounding = set[int](), roundings(instructions)
    for number in reversed(range(len(instructions) - 1)):
        users = [place for place, step in enumerate(instructions) if number in step.operands]
        if instructions[number].function in ("trunc", "round_even") and all(u in rounding or u in found for u in users):
            found.add(number)
    return frozenset(found)


def vector_value(loop: Lanes, value: Value, varying: Sequence[bool]) -> str:
    """Append what computes a value as a vector; return its text.

    Args:
        varying: whether each instruction has another result in each lane; those that do have vector types.
    """
    return _VectorValue(loop, value, varying).text()


def is_choice(instructions: Sequence[Instruction], number: int) -> bool:
    """Return whether an instruction is a comparison that is used only to select between vectors."""
    users = [step for step in instructions if number in step.operands]
    return (
        instructions[number].function in _COMPARISONS
        and instructions[instructions[number].operands[0]].dtype is not BOOL
        and bool(users)
        and all(step.function == "select" and step.operands.index(number) == 0 for step in users)
    )


def widens_rounded(step: Instruction, instructions: Sequence[Instruction]) -> bool:
    """Return whether an instruction widens what was an f32 before it was rounded to f16."""
    given = [instructions[operand] for operand in step.operands]
    return (
        step.function == "cast"
        and step.dtype is F32
        and given[0].function == "cast"
        and given[0].dtype is F16
        and instructions[given[0].operands[0]].dtype is F32
    )


@dataclass(slots=True)
class _VectorValue:
    """Writes a value as a vector."""

    loop: Lanes
    value: Value
    varying: Sequence[bool]

    def text(self) -> str:
        """Append statements; return the text of the result."""
        code = self.loop.places.code
        prefix = f"v{self.loop.places.fresh()}_"
        instructions = linearise(self.value.expr).instructions
        rounding, unused = roundings(instructions), within_roundings(instructions)
        texts: list[str] = []
        for number, step in enumerate(instructions):
            if self.varying[number] and (is_choice(instructions, number) or number in unused):
                texts.append("")
                continue
            used = sum(number in other.operands for other in instructions)
            if self.varying[number] and number in rounding:
                text, named = rounded(code, step.dtype, self.loop.count, texts[rounding[number]]), True
            else:
                text, named = self._instruction(step, instructions, texts)
            last = number + 1 == len(instructions)
            is_short = self.varying[number] or is_plain(text)
            if named and not last and (step.function != "input" or used > 1 or not is_short):
                kind = vector_type(code, step.dtype, self.loop.count) if self.varying[number] else c_type(step.dtype)
                code.line(f"const {kind} {prefix}{number} = {text};")
                text = f"{prefix}{number}"
            texts.append(text)
        return self._vector(texts[-1], len(instructions) - 1, instructions[-1].dtype)

    def _vector(self, text: str, number: int, dtype: DType) -> str:
        return text if self.varying[number] else splat(self.loop.places.code, dtype, self.loop.count, text)

    def _instruction(
        self, step: Instruction, instructions: Sequence[Instruction], texts: Sequence[str]
    ) -> tuple[str, bool]:
        """Return the text of an instruction, and whether it is worth a name."""
        code = self.loop.places.code
        if step.value is not None:
            text = literal_text(step.dtype, step.value)
            return (f"({text})" if text.startswith(("-", "(")) else text), False
        if step.function == "input":
            leaf = self.value.leaves[step.index]
            return self._leaf(leaf) if self.loop.is_varying(leaf) else (self.loop.scalar_leaf(leaf), True)
        operands = [instructions[operand].dtype for operand in step.operands]
        given = [texts[operand] for operand in step.operands]
        if step.function == "trunc" and instructions[step.operands[0]].function in WHOLE:
            return given[0], False
        if not any(self.varying[operand] for operand in step.operands):
            return code.noted(call_text(step.function, operands, step.dtype, given)), True
        if step.function == "select":
            condition, a, b = step.operands
            if self.varying[condition]:
                return self._select(step, instructions, texts), True
            either = [self._vector(texts[n], n, step.dtype) for n in (a, b)]
            return f"{texts[condition]} ? {either[0]} : {either[1]}", True
        written = shifted(code, step, instructions, self.loop.count, texts[step.operands[0]])
        if written is not None:
            return written, True
        vectors = [self._vector(texts[n], n, instructions[n].dtype) for n in step.operands]
        if code.has_vector_types and widens_rounded(step, instructions):
            return f"{converted_halves(code, F32, self.loop.count, is_rounded=True)}({vectors[0]})", True
        given = (code, step.function, operands, step.dtype, self.loop.count, vectors)
        return applied_to_loaded(*given) or applied(*given), True

    def _select(self, step: Instruction, instructions: Sequence[Instruction], texts: Sequence[str]) -> str:
        """Return a choice whose condition is a comparison that differs from lane to lane."""
        condition, *either = step.operands
        compared = instructions[condition].operands
        vectors = [self._vector(texts[n], n, instructions[n].dtype) for n in (*compared, *either)]
        dtype = instructions[compared[0]].dtype
        function = instructions[condition].function
        return select_of(self.loop.places.code, function, dtype, step.dtype, self.loop.count, vectors)

    def _leaf(self, leaf: Leaf) -> tuple[str, bool]:
        """Return the vector of a leaf that differs from lane to lane, and whether it is worth a name."""
        code, count = self.loop.places.code, self.loop.count
        vector = self.loop.vector_of(leaf)
        if vector is not None:
            return vector, False
        if isinstance(leaf, Load) and leaf.fill is not None and self.loop.row_of(leaf) is not None:
            return self._guarded(leaf, literal_text(leaf.fill.dtype, leaf.fill.value)), True
        row = self.loop.row_of(leaf)
        if row is None:
            row = f"v{self.loop.places.fresh()}"
            lane = self.loop.lane
            code.line(f"{c_type(leaf.dtype)} {row}[{count}] = {{0}};")
            element = f"{row}[{counter(lane)}] = {self.loop.scalar_leaf(leaf)};"
            code.line(f"{rolled(loop_head(lane))} {{ {element} }}")
            return load(code, leaf.dtype, count, row), True
        return load(code, leaf.dtype, count, row), True

    def _guarded(self, leaf: Load, fill: str) -> str:
        """Append the names that the tests of a row need; return its vector, or one of ``fill`` where a test fails."""
        code, count, tests = self.loop.places.code, self.loop.count, self.loop.places.tests
        with tests.block():  # what is appended here may be in braces of its own
            lines, test, named = tests.load(leaf)
        code.line(*lines)
        row = self.loop.row_of(named) or ""
        return f"({test} ? {load(code, leaf.dtype, count, row)} : {splat(code, leaf.dtype, count, fill)})"
