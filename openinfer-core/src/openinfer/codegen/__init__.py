"""What the printers of synth targets share: the loop programs of a plan's steps, and the text of indices.

A target walks `ExecutionPlan.procedures` and prints each step. `loop_program` is what a step of stages or loops does,
`operands_of` what its buffers are; `Notation` spells indices and tests in a language of the C family,
`integer_text` the bounds of a plan's loops and the indices of its tables.
"""

from openinfer.codegen.integers import integer_text
from openinfer.codegen.notation import Notation, c_notation
from openinfer.plan.programs import loop_program, operands_of

__all__ = ["Notation", "c_notation", "integer_text", "loop_program", "operands_of"]
