"""What the printers of synth targets share: the loop programs of a plan's steps, and the text of indices.

A target walks `ExecutionPlan.procedures` and prints each step. `host_statements` is what a step does that computes, or
that is about caches, registers or sizes; `loop_program` is what one of stages or loops computes, `operands_of` what its
buffers are. `Notation` spells indices and tests in a language of the C family, `integer_text` the integers of a plan.
"""

from openinfer.codegen.host_statements import (
    Assign,
    HostStatement,
    HostStep,
    Refuse,
    Require,
    Run,
    Shrink,
    When,
    host_statements,
)
from openinfer.codegen.integers import integer_text
from openinfer.codegen.notation import Notation, c_notation
from openinfer.plan.programs import loop_program, operands_of

__all__ = [
    "Assign",
    "HostStatement",
    "HostStep",
    "Notation",
    "Refuse",
    "Require",
    "Run",
    "Shrink",
    "When",
    "c_notation",
    "host_statements",
    "integer_text",
    "loop_program",
    "operands_of",
]
