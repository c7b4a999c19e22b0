"""The element types of results, said apart from the schema under test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from openinfer.dtypes import DType
from openinfer.testing.oracle import known, known_oracles

if TYPE_CHECKING:
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.cases import Case

ResultTypes: TypeAlias = "Callable[[OpCall, Sequence[TensorType]], Sequence[DType]]"
"""Says the element types of results from the inputs and settings of a call, whose outputs are what is tested, and from
the types that the program declares."""


def fixed(*dtypes: DType) -> ResultTypes:
    """Return the rule of results that always have these types."""

    def rule(call: OpCall, declared: Sequence[TensorType]) -> Sequence[DType]:
        del call, declared
        return dtypes

    return rule


def of_input(number: int) -> ResultTypes:
    """Return the rule of one result that has the type of an input."""
    return lambda call, _: [_given(call, number)]


def as_declared(call: OpCall, declared: Sequence[TensorType]) -> Sequence[DType]:
    """Return the types that the program declares."""
    del call
    return [made.dtype for made in declared]


def mistyped(case: Case) -> str | None:
    """Return an error about the types of a case's results; None if they are right or the operator is unknown."""
    made = case.call.outputs
    if case.declared and made != case.declared:
        return f"{case}: results are {_shown(made)}, declared as {_shown(case.declared)}"
    if case.call.op not in known_oracles():
        return None
    rule: ResultTypes = known("RESULT_TYPES").get(case.call.op, _as_usual)
    found, expected = [each.dtype for each in made], list(rule(case.call, case.declared))
    return None if found == expected else f"{case}: results are {_shown(found)}, expected {_shown(expected)}"


def _as_usual(call: OpCall, declared: Sequence[TensorType]) -> Sequence[DType]:
    """Return the type of the first input for every result, or the last of ``acc``."""
    del declared
    acc = call.settings.get("acc")
    last = acc[-1] if isinstance(acc, tuple) else acc
    return [last if isinstance(last, DType) else _given(call, 0)] * len(call.outputs)


def _given(call: OpCall, number: int) -> DType:
    found = call.inputs[number]
    if found is None:
        raise ValueError(f"{call.op} needs input {number}")
    return found.dtype


def _shown(types: Sequence[TensorType | DType]) -> str:
    return ", ".join(map(str, types))
