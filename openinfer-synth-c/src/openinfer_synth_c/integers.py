"""Integer expressions of loop bounds and table indices, whose operands lie in the memory of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import U64
from openinfer.plan.steps import LoopIndex
from openinfer.synth.c_host import integers as exact
from openinfer_synth_c.elements import Bound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Index
    from openinfer.plan.steps import Register, ValueRef
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.names import Names


def declare_integers(code: Code, names: Names, integers: Mapping[str, Index], flag: str = "overflow") -> None:
    """Append a named ``int64_t`` constant for each expression (`openinfer.synth.c_host.integers`).

    Raises:
        SynthesisError: a number in an expression needs more than 64 bits.
    """
    exact.declare_integers(code, operands_of(code, names), integers, flag)


def operands_of(code: Code, names: Names) -> exact.IntegerOperands:
    """Return the spellings of the operands of integer expressions in ``code``."""
    return _Operands(code, names)


@dataclass(frozen=True, slots=True)
class _Operands:
    code: Code
    names: Names

    def place(self, meaning: LoopIndex | Register) -> str:
        if isinstance(meaning, LoopIndex):
            return self.names.loops[meaning.loop]
        return self.names.register(meaning.number)

    def element(self, value: ValueRef) -> tuple[str, bool]:
        type_ = self.names.type_of(value)
        return Bound(self.names.value(value.value), type_, self.code).at("0"), type_.dtype is U64
