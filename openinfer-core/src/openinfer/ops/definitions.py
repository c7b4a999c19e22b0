"""Checks of what the definition of an operator builds: expressions read what is given and yield what is expected.

Renderers go by the types in an expression. One of another type would be stored as if it had the type of the output, and
an input that is not there would be read from somewhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, F32, I8, I64, U8, Kind
from openinfer.expr.linear import linearise
from openinfer.expr.tree import Apply, ExprError, Input, Literal, Size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.expr.linear import Instruction
    from openinfer.expr.tree import Expr
    from openinfer.ops.schema import Fold


def check_expression(op: str, built: object, inputs: Mapping[int, DType], expected: DType) -> None:
    """Check the expression of one element; ``inputs`` are the types of the inputs that it may read.

    Raises:
        ExprError: it is not an expression, yields another type, or reads something else.
    """
    _check_part(f"the expression of {op}", built, inputs, expected)


def check_refusal(op: str, built: object, inputs: Mapping[int, DType]) -> None:
    """Check the test whether an element is refused.

    Raises:
        ExprError: as for `check_expression`.
    """
    _check_part(f"the refusal of {op}", built, inputs, BOOL)


def check_fold(op: str, fold: Fold, element: DType, out: DType) -> None:
    """Check a fold of elements of compute type ``element`` to a result of compute type ``out``.

    Raises:
        ExprError: a part of it is not an expression, yields another type than the next part takes, or reads something
            else.
    """
    what = f"the fold of {op}"
    mapped = _expression(f"`element` of {what}", fold.element).dtype
    _check_part(f"`element` of {what}", fold.element, {0: element}, mapped)
    held = mapped if fold.start is None else _expression(f"`start` of {what}", fold.start).dtype
    if fold.start is not None:
        _check_part(f"`start` of {what}", fold.start, {}, held)
    _check_part(f"`combine` of {what}", fold.combine, {0: held, 1: mapped}, held)
    _check_part(f"`finish` of {what}", fold.finish, {0: held, 1: I64}, out)


def _expression(what: str, built: object) -> Expr:
    if not isinstance(built, Input | Literal | Size | Apply):
        raise ExprError(f"{what} is {type(built).__name__}, expected an expression of openinfer.expr.tree")
    return built


def _check_part(what: str, built: object, inputs: Mapping[int, DType], expected: DType) -> None:
    expr = _expression(what, built)
    if expr.dtype is not expected:
        raise ExprError(f"{what} yields {expr.dtype}, expected {expected}")
    program = linearise(expr)
    for read in program.instructions:
        if read.function != "input" or inputs.get(read.index) is read.dtype:
            continue
        there = ", ".join(f"{number} ({dtype})" for number, dtype in inputs.items()) or "none"
        raise ExprError(f"{what} reads input {read.index} as {read.dtype}, expected one of its inputs: {there}")
    _check_narrow(what, program.instructions)


def _check_narrow(what: str, instructions: Sequence[Instruction]) -> None:
    """Check that packed types and low floats are cast where they are read, and result only from the last step.

    Renderers have no arithmetic of these types.
    """
    last = len(instructions) - 1
    for number, step in enumerate(instructions):
        if step.function != "input" and number != last and _is_narrow(step.dtype):
            raise ExprError(f"{what} has a {step.function} to {step.dtype} within: only its result may be {step.dtype}")
        narrow = [instructions[operand].dtype for operand in step.operands if _is_narrow(instructions[operand].dtype)]
        if narrow and step.function != "cast":
            wider = _computed_in(narrow[0])
            raise ExprError(f"{what} has a {step.function} of {narrow[0]}: cast the input first, such as to {wider}")


def _is_narrow(dtype: DType) -> bool:
    return dtype.is_low_float or (dtype.is_packed and dtype is not BOOL)


def _computed_in(dtype: DType) -> DType:
    """Return a type that holds every element of a narrow one, in which expressions compute."""
    return F32 if dtype.is_float else U8 if dtype.kind is Kind.UNSIGNED else I8
