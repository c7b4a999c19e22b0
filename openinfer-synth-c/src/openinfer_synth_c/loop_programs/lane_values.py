"""C statements that compute the values of one lane, within a loop over lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.expr.c_functions import call_text
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.expr.linear import linearise
from openinfer.loops import Load, Register
from openinfer_synth_c.loop_programs.addresses import counter, register
from openinfer_synth_c.loop_programs.vector_functions import rounded_scalar
from openinfer_synth_c.loop_programs.vector_values import roundings, within_roundings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Within
    from openinfer.expr.linear import Instruction
    from openinfer.loops import Leaf, Value
    from openinfer_synth_c.loop_programs.lane_names import Lanes


def lane_value(loop: Lanes, value: Value, tests: tuple[Within, ...]) -> tuple[list[str], str]:
    """Append what all lanes have in common; return the statements of one lane, and the text of its value.

    Args:
        tests: what holds in the lanes that get here.
    """
    return _LaneValue(loop, tests).value(value)


@dataclass(slots=True)
class _LaneValue:
    """Writes a value of one lane."""

    loop: Lanes
    tests: tuple[Within, ...]

    def value(self, value: Value) -> tuple[list[str], str]:
        """Append what is the same in all lanes; return the statements for one lane, and the text of the result."""
        code, prefix = self.loop.places.code, f"v{self.loop.places.fresh()}_"
        instructions = linearise(value.expr).instructions
        statements: list[str] = []
        texts: list[str] = []
        same: list[bool] = []
        rounding, unused = roundings(instructions), within_roundings(instructions)
        for number, step in enumerate(instructions):
            if number in unused:
                texts.append("")
                same.append(True)
                continue
            if number in rounding:
                given = rounding[number]
                text, uniform, simple = rounded_scalar(code, step.dtype, texts[given]), same[given], False
            else:
                text, uniform, simple = self._instruction(value, step, instructions, texts, same)
            last = number + 1 == len(instructions)
            used = sum(number in other.operands for other in instructions)
            if (
                not simple
                and not (last and not uniform)
                and not (step.function == "input" and used < 2 and not uniform)
            ):
                declared = f"const {c_type(step.dtype)} {prefix}{number} = {text};"
                if uniform:
                    code.line(declared)
                else:
                    statements.append(declared)
                text = f"{prefix}{number}"
            texts.append(text)
            same.append(uniform)
        return statements, texts[-1]

    def _instruction(
        self,
        value: Value,
        step: Instruction,
        instructions: Sequence[Instruction],
        texts: Sequence[str],
        same: Sequence[bool],
    ) -> tuple[str, bool, bool]:
        """Return the text of an instruction, whether all lanes have it in common, and whether it is a constant."""
        if step.value is not None:
            text = literal_text(step.dtype, step.value)
            return (f"({text})" if text.startswith(("-", "(")) else text), True, True
        if step.function == "input":
            leaf = value.leaves[step.index]
            # Where only some lanes get here, the address may be good in those only.
            uniform = not self.loop.is_varying(leaf) and not (self.tests and isinstance(leaf, Load))
            return self._leaf(leaf), uniform, False
        operands = [instructions[operand].dtype for operand in step.operands]
        call = call_text(step.function, operands, step.dtype, [texts[operand] for operand in step.operands])
        return self.loop.places.code.noted(call), all(same[operand] for operand in step.operands), False

    def _leaf(self, leaf: Leaf) -> str:
        vector = self.loop.vector_of(leaf)
        if vector is not None:
            copy = f"v{self.loop.places.fresh()}"
            kind = c_type(leaf.dtype)
            self.loop.places.code.line(
                f"{kind} {copy}[{self.loop.count}];", f"memcpy({copy}, &{vector}, sizeof {copy});"
            )
            return f"{copy}[{counter(self.loop.lane)}]"
        if isinstance(leaf, Register) and self.loop.is_varying(leaf):
            return f"{register(leaf.name)}[{counter(self.loop.lane)}]"
        text = self.loop.scalar_leaf(leaf)
        return f"({text})" if "?" in text else text
