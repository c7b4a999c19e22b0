"""The arguments of a kernel's emitter: the call, its operands in scope, and how to store a result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.ops.strides import broadcast_strides
from openinfer_synth_c.index_text import flat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.plan.steps import Epilogue
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.elements import Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Stores elements of a result after the epilogue, if there is one."""

    output: Bound
    epilogue: Epilogue | None
    epilogue_inputs: tuple[Bound, ...]

    def write(self, code: Code, coordinates: Sequence[str], value: str) -> None:
        """Append the store of ``value`` (of the kernel's result type) at a position: one counter per axis."""
        shape = self.output.type.shape
        if self.epilogue is None:
            self.output.store(flat(coordinates, broadcast_strides(shape, shape)), value)
            return
        # A kernel may store several elements in one scope, and the epilogue declares names.
        with code.braces():
            elements = [bound.broadcast_at(coordinates, shape) for bound in self.epilogue_inputs]
            value = code.compute(self.epilogue.program, dict(enumerate((value, *elements))), "r")
            self.output.store(flat(coordinates, broadcast_strides(shape, shape)), value)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSite:
    """The place where a kernel's code goes.

    Attributes:
        inputs: operands in the order of the operator; None for one that is left out.
        store: of the first output; must be called once for each of its elements.
        outputs: all outputs; those after the first are stored with `Bound.store`.
    """

    code: Code
    call: OpCall
    inputs: tuple[Bound | None, ...]
    store: Store
    outputs: tuple[Bound, ...]

    def input(self, number: int) -> Bound:
        """Return an operand that must be given."""
        bound = self.inputs[number]
        if bound is None:
            raise SynthesisError(f"{self.call.op} needs input {number}", code="arity")
        return bound

    def optional(self, number: int) -> Bound | None:
        """Return an operand that may be left out."""
        return self.inputs[number] if number < len(self.inputs) else None
